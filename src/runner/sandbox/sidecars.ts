import { open, readdir, readlink } from 'node:fs/promises';
import { constants } from 'node:os';
import { orAborted } from '../../shared/lib/or-aborted.ts';
import { randomName } from '../../shared/lib/random-name.ts';
import { checkJob } from './check-job.ts';
import { descendants } from './descendants.ts';
import type { DiskWatch } from './disk.ts';
import type { Machine } from './machine.ts';
import { runInSandbox } from './run.ts';
import { filesOfRun } from './run-files.ts';
import { openSandbox, type Sandbox } from './sandbox.ts';
import { withDisk } from './usage.ts';
import { TimedOutError, type Sidecars, type Ended, type Job } from './types.ts';

/** Each sidecar has its own sandbox in the run's network and control group, and ends with the run. */
export async function withSidecars(
  machine: Machine,
  sandbox: Sandbox,
  job: Job,
  { disk, discard }: { disk: DiskWatch; discard: (sandbox: Sandbox) => void },
): Promise<Ended> {
  const { before, limits } = job;
  if (!before) return runInSandbox(machine, sandbox, job, disk);
  const began = performance.now();
  const over = new AbortController();
  const running = new Set<Promise<Ended>>();
  const opened: Sandbox[] = [];
  const start: Sidecars['start'] = (sidecar, layers) => {
    over.signal.throwIfAborted();
    checkJob(sidecar);
    const signal = AbortSignal.any([sidecar.signal, over.signal]);
    const opening = sandbox.namespaces.paths.then(({ network }) =>
      openSandbox(machine, randomName(), { user: sidecar.user }, { network, cgroup: sandbox.cgroup }),
    );
    const ended = opening.then(async (own) => {
      opened.push(own);
      return runSidecar(machine, own, { ...sidecar, ...(await layers), signal }, disk, sandbox.cgroup);
    });
    running.add(ended);
    layers?.catch(() => {}); // not awaited if the sandbox cannot be opened
    ended.catch(() => {}); // the caller of `start` gets the error
    return { ended, listens: async (port) => isOpenAt((await opening).process.init(), port) };
  };
  const endSidecars = async (): Promise<PromiseSettledResult<Ended>[]> => {
    job.onOver?.();
    over.abort();
    // Killed without a grace period, like everything else in the run's control group.
    for (const { process } of opened) process.kill();
    return Promise.allSettled(running);
  };
  try {
    sandbox.cgroup?.limit(limits);
    await withinLimit(before({ start }), limits.timeoutMs);
    const timeoutMs = Math.max(1, limits.timeoutMs - (performance.now() - began));
    const ended = await runInSandbox(machine, sandbox, { ...job, limits: { ...limits, timeoutMs } }, disk);
    return { ...ended, used: withDisk(ended.used, await endSidecars()) };
  } finally {
    await endSidecars();
    // Only now: a sidecar that still runs could have another's directories open and change them during removal.
    opened.forEach(discard);
  }
}

/** The start of sidecars counts against the run's own time limit. */
async function withinLimit(work: Promise<void>, timeoutMs: number): Promise<void> {
  const late = new AbortController();
  // Node fires timers beyond 2^31 ms at once.
  const timer = setTimeout(() => late.abort(new TimedOutError()), Math.min(timeoutMs, 2 ** 31 - 1));
  try {
    await orAborted(work, late.signal);
  } finally {
    clearTimeout(timer);
  }
}

const killed = 128 + constants.signals.SIGKILL;

async function runSidecar(
  machine: Machine,
  own: Sandbox,
  job: Job,
  disk: DiskWatch,
  cgroup: Sandbox['cgroup'],
): Promise<Ended> {
  const run = await runInSandbox(machine, own, job, disk);
  const lacksMemory = run.reason === null && run.exitStatus === killed && (cgroup?.outOfMemoryKills() ?? 0) > 0;
  const ended: Ended = lacksMemory ? { ...run, reason: 'out_of_memory' } : run;
  await job.onLeft?.(filesOfRun(machine, own, job, disk), ended);
  return ended;
}

/** Listening sockets come first in the kernel's list, however many connections there are. */
const mostRead = 256 * 1024;
const listening = '0A';

/** Whether one of the sandbox's own sockets listens. Other processes in the same network may listen at the port. */
async function isOpenAt(init: number | null, port: number): Promise<boolean> {
  if (init === null) return false;
  const lists = await Promise.all(['tcp', 'tcp6'].map((name) => beginningOf(`/proc/${init}/net/${name}`)));
  const at = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const sockets = new Set(
    lists
      .flatMap((list) => list.split('\n'))
      .map((line) => line.trim().split(/\s+/))
      .filter(([, local, , state]) => local?.endsWith(at) && state === listening)
      .map((fields) => `socket:[${fields[9]}]`),
  );
  if (sockets.size === 0) return false;
  for (const pid of [init, ...(await descendants(init))]) {
    const folder = `/proc/${pid}/fd`;
    for (const fd of await readdir(folder).catch(() => []))
      if (sockets.has(await readlink(`${folder}/${fd}`).catch(() => ''))) return true;
  }
  return false;
}

async function beginningOf(path: string): Promise<string> {
  try {
    await using file = await open(path);
    const buffer = Buffer.alloc(mostRead);
    let size = 0;
    for (let more = 1; more > 0 && size < mostRead; size += more)
      more = (await file.read(buffer, size, mostRead - size)).bytesRead;
    return buffer.toString('latin1', 0, size);
  } catch {
    return ''; // the process has just ended
  }
}
