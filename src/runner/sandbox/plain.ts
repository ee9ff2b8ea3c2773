import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { constants } from 'node:os';
import type { Duplex } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { run } from '../../shared/lib/processes.ts';
import { randomName } from '../../shared/lib/random-name.ts';
import { removeTree } from '../../shared/lib/remove-tree.ts';
import { environment } from './arguments.ts';
import type { Cgroup } from './cgroup-files.ts';
import { descendants, signalAll } from './descendants.ts';
import type { DiskWatch } from './disk.ts';
import { graceMs, watchForEnd } from './ending.ts';
import { inspectionJob } from './run-files.ts';
import type { Machine } from './machine.ts';
import { openPipe } from './pipe.ts';
import { deliver, unfinished, writtenBy } from './run.ts';
import { openStepFiles } from './step-files.ts';
import { leadThrough, reportDescriptor, script, scriptDescriptor } from './steps.ts';
import { CannotMountError, type Ended, type Job, type RunFiles } from './types.ts';
import { withUsage } from './usage.ts';
import { copyTree } from './workspace.ts';

const ourselves = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };

/**
 * Runs without isolation: plain processes of the runner's own user, in a copy of the checkout. Without control groups
 * there are no limits, and a process that leaves its process group outlives the run.
 */
export function plainRunner(options: {
  stateDir: string;
  makeCgroup: Machine['makeCgroup'];
  disk: DiskWatch;
}): (job: Job) => Promise<Ended> {
  const { stateDir, makeCgroup, disk } = options;
  const start = async (job: Job): Promise<Ended> => {
    if ((job.mounts ?? []).length > 0)
      throw new CannotMountError(
        'without isolation nothing can be mounted, so dependencies cannot be used (HEADRACE_SANDBOX=off)',
      );
    const name = randomName();
    const folder = join(stateDir, 'runs', name);
    for (const directory of ['tmp', 'home', 'workspace']) await mkdir(join(folder, directory), { recursive: true });
    const cgroup = makeCgroup(name);
    try {
      const { summary, ...ended } = await runPlainly(job, folder, cgroup, disk);
      const workspace = { directory: workspaceOf(job, folder) };
      const left: RunFiles = {
        inspect: (inspection) => start({ ...inspectionJob(inspection), workspace }),
        get layers(): never {
          throw noLayers();
        },
        summary: () => summary,
        stages: [],
        keepWhole: () => Promise.reject(noLayers()),
      };
      await job.onLeft?.(left, ended);
      return ended;
    } finally {
      await cgroup?.empty();
      await cgroup?.remove();
      await removeTree(folder);
    }
  };
  return start;
}

const noLayers = (): Error => new CannotMountError('without isolation there are no layers to keep');

function workspaceOf(job: Job, folder: string): string {
  return 'directory' in job.workspace ? job.workspace.directory : join(folder, 'workspace');
}

async function runPlainly(
  job: Job,
  folder: string,
  cgroup: Cgroup | null,
  disk: DiskWatch,
): Promise<Ended & { summary: Buffer }> {
  const workspace = workspaceOf(job, folder);
  if ('checkout' in job.workspace) await copyTree(job.workspace.checkout, workspace);
  cgroup?.limit(job.limits);
  const steps = join(folder, 'steps');
  // The script waits for a line, so that it is in its control group before it starts a process.
  await writeFile(steps, 'read -r _\n' + script(job));
  const environmentFiles = ['env', 'secret-env', 'summary'].map((name) => join(folder, name));
  for (const file of environmentFiles) await writeFile(file, '', { mode: 0o600 });
  const stepFiles = openStepFiles(environmentFiles);
  const fifo = join(folder, 'output');
  await run('mkfifo', ['--', fifo]);
  const { output, writing } = openPipe(fifo, ourselves);
  const child = spawn('/bin/sh', [steps], {
    cwd: workspace,
    env: { TMPDIR: join(folder, 'tmp'), ...environment(job, join(folder, 'home')), ...stepFiles.variables },
    stdio: ['pipe', writing, 'ignore', 'ignore', 'pipe', 'pipe'],
    detached: true, // a separate process group, which can be signalled as a whole
  });
  closeSync(writing);
  const ended = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>;
  ended.catch(() => {});
  const { pid, stdin } = child;
  if (pid === undefined) {
    output.stream.destroy();
    stepFiles.close();
    throw new Error('the shell of a run did not start', { cause: await ended.catch((error: unknown) => error) });
  }
  cgroup?.add(pid);
  const all = async (): Promise<number[]> => (cgroup ? cgroup.pids() : [pid, ...(await descendants(pid))]);
  const force = (): void => signalAll([-pid, ...(cgroup?.pids() ?? [])], 'SIGKILL');
  const ask = async (): Promise<void> => signalAll(await all(), 'SIGTERM');
  const ending = watchForEnd({ signal: job.signal, timeoutMs: job.limits.timeoutMs, ask, force });
  const unwatch = disk.watch({ folders: writtenBy(job, folder), end: () => ending.end('out_of_disk') });
  let lost: unknown;
  let cut = false;
  const fail = (error: unknown): void => {
    if (cut) return;
    lost ??= error;
    force();
  };
  const delivery = deliver(output.stream, job.output);
  const reading = delivery.done.catch(fail);
  const pipes = child.stdio as unknown as (Duplex | undefined)[];
  pipes[scriptDescriptor]?.on('error', () => {}); // the exit status shows it
  const leading = leadThrough({
    job: { ...job, onStep: withUsage(job.onStep, cgroup) },
    delivered: () => {
      output.sweep();
      return delivery.settled();
    },
    take: () => stepFiles.take(),
    isEnding: () => ending.reason() !== null,
    tell: (text) => void pipes[scriptDescriptor]?.write(text),
    fail,
  });
  const reported = new Promise((resolve) => pipes[reportDescriptor]?.on('close', resolve));
  pipes[reportDescriptor]?.on('data', (chunk: Buffer) => leading.hear(chunk.toString()));
  stdin?.on('error', () => {}).end('go\n'); // if the shell has already ended, its exit status shows it
  const [code, killedBy] = await ended;
  const status = code ?? (killedBy ? 128 + constants.signals[killedBy] : null);
  ending.over();
  unwatch();
  const kills = cgroup?.outOfMemoryKills() ?? 0;
  force();
  await cgroup?.empty();
  // Without control groups, a process that left its process group may hold the pipe. The runner stops waiting for it.
  if (cgroup) output.finish();
  const timeout = cgroup ? undefined : setTimeout(() => ((cut = true), output.stream.destroy()), graceMs);
  await reading;
  clearTimeout(timeout);
  await Promise.race([reported, delay(graceMs, undefined, { ref: false })]); // a build may hold the other end
  const seen = await leading.finish();
  const summary = stepFiles.summary();
  stepFiles.close();
  if (lost !== undefined) throw new Error('the output of a run could not be delivered', { cause: lost });
  const exitStatus =
    ending.reason() === null ? (seen.status === null ? unfinished(status) : seen.status || (status ?? 0)) : null;
  const reason = ending.reason() ?? (kills > 0 && exitStatus !== 0 ? 'out_of_memory' : null);
  return {
    exitStatus,
    step: job.steps[seen.step ?? 0]?.name ?? '',
    reason,
    summary,
    ...(cgroup && { used: cgroup.used() }),
  };
}
