import { join } from 'node:path';
import { run } from '../../lib/processes.ts';
import { commonArguments } from './arguments.ts';
import { watchDisk } from './disk.ts';
import { composeEtc } from './etc.ts';
import { buildIdentity } from './identity.ts';
import { cgroupMaker, explainRefusal, requirePrograms, type Machine } from './machine.ts';
import { plainRunner } from './plain.ts';
import { openPool } from './pool.ts';
import { runInSlot } from './run.ts';
import { openState, type State } from './state.ts';
import type { Ended, Identity, Job, SandboxOptions, Sandboxes } from './types.ts';

export type {
  Ended,
  Identity,
  Job,
  Limits,
  Mount,
  Network,
  Reason,
  SandboxOptions,
  Sandboxes,
  Step,
  Workspace,
} from './types.ts';

/** Finds out what the machine can do, sweeps what a killed runner left, and tries one run before any build comes. */
export async function openSandboxes(options: SandboxOptions): Promise<Sandboxes> {
  if (options.isolation === 'required') await requirePrograms(options.network);
  const state = await openState(options.stateDir);
  try {
    return options.isolation === 'off' ? await openPlain(options, state) : await openIsolated(options, state);
  } catch (error) {
    await state.close();
    throw error;
  }
}

async function openIsolated(options: SandboxOptions, state: State): Promise<Sandboxes> {
  const { network, log } = options;
  const machine: Machine = {
    root: process.getuid?.() === 0,
    owner: buildIdentity(),
    network,
    stateDir: state.folder,
    etc: join(state.folder, 'etc'),
    arguments: commonArguments(network),
    overlay: true,
    makeCgroup: await cgroupMaker(state, log),
  };
  await composeEtc(machine.etc, network);
  const disk = await watchDisk(state.folder, options.diskReserveBytes);
  const pool = openPool(machine, log);
  const runPooled = (job: Job): Promise<Ended> => pool.use((slot) => runInSlot(machine, slot, job, disk));
  try {
    await tryOut(runPooled, { empty: true }).catch((error: unknown) => {
      throw explainRefusal(error);
    });
    // Not every file system can carry the upper half of an overlay (another overlay cannot, for one).
    machine.overlay = await tryOut(runPooled, { checkout: machine.etc }).then(
      () => true,
      (error: unknown) => {
        log(`workspaces are copied, because an overlay is not possible in ${state.folder}: ${String(error)}`);
        return false;
      },
    );
    await pool.prepare(options.prepare ?? 1);
  } catch (error) {
    await pool.close();
    throw error;
  }
  return assemble(machine.owner, runPooled, async () => {
    await pool.close();
    await state.close();
  });
}

async function openPlain(options: SandboxOptions, state: State): Promise<Sandboxes> {
  options.log('builds are NOT isolated: they run as plain processes of this user and see everything it sees');
  const owner: Identity = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
  const disk = await watchDisk(state.folder, options.diskReserveBytes);
  const makeCgroup = await cgroupMaker(state, options.log);
  return assemble(owner, plainRunner({ stateDir: state.folder, makeCgroup, disk }), () => state.close());
}

/** What both kinds have in common: runs in flight are known, so that closing can end them. */
function assemble(owner: Identity, start: (job: Job) => Promise<Ended>, takeDown: () => Promise<void>): Sandboxes {
  const closing = new AbortController();
  const running = new Set<Promise<unknown>>();
  return {
    owner,
    run: async (job) => {
      check(job);
      const signal = AbortSignal.any([job.signal, closing.signal]);
      if (signal.aborted) return { exitStatus: null, step: job.steps[0]?.name ?? '', reason: 'cancelled' };
      const ended = start({ ...job, signal });
      running.add(ended);
      try {
        return await ended;
      } finally {
        running.delete(ended);
      }
    },
    adopt: async (directory) => {
      if (process.getuid?.() !== 0) return;
      const changed = await run('chown', ['-R', '-h', '-P', `${owner.uid}:${owner.gid}`, '--', directory]);
      if (changed.status !== 0)
        throw new Error(`could not change the owner of ${directory}: ${changed.stderr.toString().trim()}`);
    },
    close: async () => {
      closing.abort();
      await Promise.allSettled(running);
      await takeDown();
    },
  };
}

function check(job: Job): void {
  if (!/^[a-zA-Z0-9_-]{1,100}$/.test(job.id)) throw new Error(`not an id for a run: ${JSON.stringify(job.id)}`);
  if (job.steps.length === 0) throw new Error('a run needs at least one step');
  for (const { name, command } of job.steps)
    if (command.includes('\0')) throw new Error(`the command of ${name} has a NUL byte in it`);
  for (const { at } of job.mounts ?? [])
    if (join('/', at) !== at || at.endsWith('/')) throw new Error(`not a place to mount at: ${at}`);
}

async function tryOut(start: (job: Job) => Promise<Ended>, workspace: Job['workspace']): Promise<void> {
  const said: Buffer[] = [];
  const ended = await start({
    id: 'try-out',
    steps: [{ name: 'try', command: 'true' }],
    environment: {},
    workspace,
    limits: { memoryBytes: 256 * 1024 * 1024, processes: 64, timeoutMs: 30_000 },
    output: (chunk) => void said.push(chunk),
    signal: new AbortController().signal,
  });
  if (ended.exitStatus !== 0)
    throw new Error(`a trial run ended with ${ended.exitStatus ?? ended.reason}: ${Buffer.concat(said).toString()}`);
}
