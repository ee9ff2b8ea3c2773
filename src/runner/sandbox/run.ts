import type { Readable } from 'node:stream';
import { environment } from './arguments.ts';
import { descendants, signalAll, untilGone } from './descendants.ts';
import type { DiskWatch } from './disk.ts';
import { interruptSteps, watchForEnd } from './ending.ts';
import type { Machine } from './machine.ts';
import type { Sandbox } from './sandbox.ts';
import { openStages, type Stages } from './stages.ts';
import { leadThrough, script, settleIn, settingVariables, writingFiles } from './steps.ts';
import { networkUsage, withUsage } from './usage.ts';
import { openTerminal, type Terminal } from './terminal.ts';
import { sandboxPaths, type Ended, type EndedStep, type Job } from './types.ts';
import { mountAll } from './workspace.ts';

/**
 * The run is over when the last step's process ends. Then the sandbox's first process ends, and so everything in it.
 * Only then is the output read to its end. Nothing waits for end-of-file on the pipe: a run can prevent it.
 */
export async function runInSandbox(machine: Machine, sandbox: Sandbox, job: Job, disk: DiskWatch): Promise<Ended> {
  const { process, cgroup, isLimited } = sandbox;
  await mountAll(job, sandbox, machine);
  cgroup?.limit(job.limits);
  const limits = isLimited ? [] : fallbackLimits(job);
  const preamble = [...settleIn(sandboxPaths.workspace), ...limits, ...writingFiles(job.files)];
  const variables = settingVariables({ ...environment(job), ...process.stepFiles.variables });
  const terminal = job.terminal && (await openedTerminal(sandbox, job.terminal));
  const stages = job.isStaged ? openStages(machine, sandbox, job) : undefined;
  process.release(script(job, { preamble, variables, terminal: terminal?.path }));
  const ended = await follow(sandbox, job, disk, { terminal, stages, network: machine.network });
  if (ended.exitStatus === 0 || ended.reason === 'cancelled') return ended;
  const isOutOfMemory = ended.reason === null && (cgroup?.outOfMemoryKills() ?? 0) > 0;
  const refused = await sandbox.refused();
  return { ...ended, ...(isOutOfMemory && { reason: 'out_of_memory' }), ...(refused.length > 0 && { refused }) };
}

/** Without control groups, limits apply per process or per user, and nothing reports a lack of memory. */
function fallbackLimits({ limits }: Job): string[] {
  return [`ulimit -d ${Math.floor(limits.memoryBytes / 1024)}`, `ulimit -p ${limits.processes}`];
}

async function openedTerminal({ process, user }: Sandbox, { size, onOpen }: NonNullable<Job['terminal']>) {
  await process.settled(); // before that, the sandbox's /dev is not in place
  const init = process.init();
  if (init === null) throw new Error(`the sandbox did not start: ${process.complaint()}`);
  const terminal = await openTerminal(init, user, size);
  onOpen(terminal);
  return terminal;
}

async function follow(
  sandbox: Sandbox,
  job: Job,
  disk: DiskWatch,
  {
    terminal,
    stages,
    network,
  }: Pick<Machine, 'network'> & { terminal: Terminal | undefined; stages: Stages | undefined },
): Promise<Ended> {
  const { process } = sandbox;
  const force = (): void => process.kill();
  let lost: Error | undefined;
  let isEnded = false;
  let isInterrupted = false; // the interrupted step has ended
  const { interrupt } = job;
  const fail = (error: unknown): void => {
    lost ??= error instanceof Error ? error : new Error(String(error));
    terminal?.kill();
    force();
  };
  const delivery = deliver(process.output, job.output);
  const shown = terminal && deliver(terminal.output, job.output);
  const reading = Promise.all([delivery.done, shown?.done]).catch(fail);
  let apart: Delivery | undefined;
  const noteStep = withUsage(job.onStep, sandbox.cgroup);
  const leading = leadThrough({
    job: {
      ...job,
      onStep(at, what) {
        // Not earlier: until a step begins, a sandbox that does not start prints the reason there.
        if (job.aside && !apart) {
          apart = deliver(process.aside(), job.aside);
          apart.done.catch(fail);
        }
        noteStep(at, what);
      },
      ...(job.next && {
        next: (ended: EndedStep) => {
          isInterrupted = interrupt?.aborted ?? false;
          return job.next?.({ ...ended, seal: stages?.seal }) ?? Promise.resolve(undefined);
        },
      }),
    },
    async delivered() {
      process.sweepOutput();
      await Promise.all([delivery.settled(), apart?.settled()]);
    },
    take: () => process.stepFiles.take(),
    between: () => (stages?.moved() ? settleIn(sandboxPaths.workspace) : []),
    isEnding: () => ending.reason() !== null,
    tell: (text) => process.tell(text),
    fail,
  });
  const ending = watchForEnd({
    signal: job.signal,
    timeoutMs: job.limits.timeoutMs,
    graceMs: job.graceMs,
    ask: async () => {
      job.onOver?.(); // sidecars are asked to end too, and may end first
      if (leading.hasBegun()) signalAll(await members(sandbox), 'SIGTERM');
      else force(); // no step has begun, so no process can be asked
    },
    force,
  });
  const unwatch = disk.watch({ folders: writtenBy(job, sandbox.folder), end: () => ending.end('out_of_disk') });
  const isOver = (): boolean => isInterrupted || isEnded || ending.reason() !== null;
  const interrupted = (): void => {
    interruptSteps({ processes: () => inSteps(sandbox), isOver }).catch(fail);
  };
  interrupt?.addEventListener('abort', interrupted, { once: true });
  if (interrupt?.aborted) interrupted();
  process.onReport((text) => leading.hear(text));
  const { status, bytesWritten } = await process.ended;
  isEnded = true;
  interrupt?.removeEventListener('abort', interrupted);
  job.onOver?.();
  ending.over();
  unwatch();
  await killAll(sandbox);
  await process.finish();
  terminal?.end();
  await reading;
  await apart?.done.catch(fail);
  const seen = await leading.finish();
  if (lost) throw new Error('the output of a run could not be delivered', { cause: lost });
  const reason = ending.reason();
  if (seen.step === null && reason === null)
    throw new Error(`the sandbox did not start: ${process.complaint() || `bubblewrap ended with ${status}`}`);
  return {
    exitStatus: reason === null ? (seen.status === null ? unfinished(status) : seen.status || (status ?? 0)) : null,
    step: job.steps[seen.step ?? 0]?.name ?? '',
    reason,
    ...(ending.wasForced() && { wasForced: true as const }),
    used: {
      ...sandbox.cgroup?.used(),
      ...(await networkUsage(network, sandbox.namespaces)),
      diskWritten: bytesWritten,
    },
  };
}

export function writtenBy(job: Job, folder: string): string[] {
  const workspace = 'directory' in job.workspace ? [job.workspace.directory] : [];
  return [folder, ...workspace, ...(job.mounts ?? []).flatMap(({ writable }) => writable ?? [])];
}

/** Excludes bubblewrap's own process, which must see the others end. */
async function members({ process, cgroup }: Sandbox): Promise<number[]> {
  if (cgroup) return cgroup.pids().filter((pid) => pid !== process.pid);
  const init = process.init();
  return init === null ? [] : [init, ...(await descendants(init))];
}

/** Excludes the shell that leads the steps, and the services. */
async function inSteps({ process }: Sandbox): Promise<number[]> {
  const init = process.init();
  return init === null ? [] : [...(await descendants(init))];
}

async function killAll({ process, cgroup }: Sandbox): Promise<void> {
  const init = process.init();
  if (cgroup) await cgroup.empty();
  else if (init !== null) {
    signalAll([init], 'SIGKILL');
    await untilGone(init); // the kernel ends a namespace's init last
  }
}

/** The leading shell ended before the last step did, so its status 0 is no success. */
export function unfinished(status: number | null): number | null {
  return status === 0 ? 1 : status;
}

interface Delivery {
  done: Promise<void>;
  settled(): Promise<void>;
}

export function deliver(output: Readable, to: Job['output']): Delivery {
  let delivered = 0;
  let delivering = 0;
  const waiting: { size: number; resolve: () => void }[] = [];
  const hand = async (): Promise<void> => {
    for await (const chunk of output as AsyncIterable<Buffer>) {
      delivering = chunk.length;
      await to(chunk);
      delivered += delivering;
      delivering = 0;
      while (waiting[0] && waiting[0].size <= delivered) waiting.shift()?.resolve();
    }
  };
  const done = hand().finally(() => waiting.forEach(({ resolve }) => resolve()));
  return {
    done,
    async settled() {
      const size = delivered + delivering + output.readableLength;
      if (size === delivered || output.destroyed) return;
      const { promise, resolve } = Promise.withResolvers<void>();
      waiting.push({ size, resolve });
      await promise;
    },
  };
}
