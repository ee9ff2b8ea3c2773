import { realpathSync } from 'node:fs';
import { join } from 'node:path';
import { run } from '../../shared/lib/processes.ts';
import { watchDisk, type DiskWatch } from './disk.ts';
import { composeEtc, overImages } from './etc.ts';
import { buildUsers, rootOfImage, sharedUser } from './identity.ts';
import { withSidecars } from './sidecars.ts';
import { checkJob } from './check-job.ts';
import { filesOfRun } from './run-files.ts';
import { explainRefusal } from './isolation.ts';
import { cgroupMaker, requirePrograms, type Machine } from './machine.ts';
import { openMountHelper } from './mount-helper.ts';
import { openOutside } from './network.ts';
import { plainRunner } from './plain.ts';
import { openPool } from './pool.ts';
import { runInSandbox } from './run.ts';
import { directoriesAhead } from './run-directories.ts';
import { openSandbox } from './sandbox.ts';
import { rootLayout } from './sandbox-root.ts';
import { openState, type State } from './state.ts';
import {
  CannotMountError,
  rootUser,
  type Ended,
  type Identity,
  type Job,
  type SandboxOptions,
  type Sandboxes,
} from './types.ts';

/** Checks the machine, sweeps remains of a killed runner, and makes a trial run before any build. */
export async function openSandboxes(options: SandboxOptions): Promise<Sandboxes> {
  if (options.isolation === 'required') await requirePrograms(options.network);
  const state = await openState(options.stateDir, options.log);
  try {
    return options.isolation === 'off' ? await openPlain(options, state) : await openIsolated(options, state);
  } catch (error) {
    await state.close();
    throw error;
  }
}

async function openIsolated(options: SandboxOptions, state: State): Promise<Sandboxes> {
  const { network, log } = options;
  const root = process.getuid?.() === 0;
  const outside = network === 'internet' ? openOutside({ root, allow: options.allow, log }) : undefined;
  const machine: Machine = {
    users: buildUsers(options.ownId),
    mountHelper: await openMountHelper({ onLost: options.onLost }).catch(async (error: unknown) => {
      throw await explainRefusal(error, network);
    }),
    stateDir: state.folder,
    etc: join(state.folder, 'etc'),
    overImages: (owner) => overImages(join(state.folder, 'over-images'), join(state.folder, 'etc'), owner),
    paths: (options.paths ?? []).map((path) => ({ at: path, source: realpathSync(path) })),
    network,
    overlay: true,
    makeCgroup: options.isTrial ? () => null : await cgroupMaker(state, log),
    connect: outside && ((namespaces) => outside.connect(namespaces)),
  };
  const pool = openPool(machine, log);
  const takeDown = async (): Promise<void> => {
    await pool.close();
    outside?.close();
    await machine.mountHelper.close();
  };
  try {
    composeEtc(machine.etc, network, options.etc);
    await machine.mountHelper.base({ etc: machine.etc, ...rootLayout(), own: directoriesAhead });
    const disk = await watchDisk(state.folder, options.diskReserveBytes);
    await findWays(machine, disk, options);
    await pool.prepare(options.prepare ?? 1);
    return assemble(
      {
        owner: root ? machine.users.files : ourselves(),
        hasLayers: machine.overlay,
        hasManyUsers: machine.users.ranges !== undefined,
        translatesOwners: rootOfImage(machine.users, { uid: 1, gid: 1 }) === machine.users.files,
        hasOwnNetwork: network !== 'host',
        isIsolated: true,
        whyNoImages: machine.overlay ? null : 'an overlay is not possible where it keeps its files',
      },
      (job) =>
        pool.use(job, async (sandbox) => {
          await using _door = job.door && (await sandbox.openDoor(job.door));
          const ended = await withSidecars(machine, sandbox, job, { disk, discard: (own) => pool.discard(own) });
          await job.onLeft?.(filesOfRun(machine, sandbox, job, disk), ended);
          return ended;
        }),
      async () => {
        await takeDown();
        await state.close();
      },
    );
  } catch (error) {
    await takeDown();
    throw error;
  }
}

/** Finds by trial runs which features the kernel and the file system support. */
async function findWays(machine: Machine, disk: DiskWatch, { log, whyOneId }: SandboxOptions): Promise<void> {
  await findMounts(machine, disk, log);
  const user = rootUser;
  const why = machine.users.ranges && (await tryOut(machine, disk, { workspace: { checkout: machine.etc }, user }));
  if (why === null) return;
  machine.users = { ...machine.users, ranges: undefined };
  const because = why?.message ?? whyOneId ?? 'this runner has no further user IDs';
  log(`builds in images have one user ID, and everything in an image belongs to it: ${because}`);
}

async function findMounts(machine: Machine, disk: DiskWatch, log: SandboxOptions['log']): Promise<void> {
  const attempt = (workspace: Job['workspace']): Promise<Error | null> => tryOut(machine, disk, { workspace });
  if (!(await attempt({ checkout: machine.etc }))) return;
  // Owners cannot be translated before Linux 5.12, under an overlay before 5.19, and on some file systems.
  const { users } = machine;
  machine.users = sharedUser(users.files);
  const refusal = await attempt({ empty: true });
  if (refusal) throw await explainRefusal(refusal, machine.network);
  const withoutOverlay = await attempt({ checkout: machine.etc });
  if (!withoutOverlay) {
    if (users.next().ids) log('all builds have the same user number, because file owners cannot be mapped here');
    return;
  }
  // Some file systems, such as another overlay, cannot store an overlay's upper layer.
  machine.overlay = false;
  log(`workspaces are copied, because an overlay is not possible in ${machine.stateDir}: ${withoutOverlay.message}`);
  machine.users = users;
  if ((await attempt({ checkout: machine.etc })) === null) return;
  machine.users = sharedUser(users.files);
}

async function openPlain(options: SandboxOptions, state: State): Promise<Sandboxes> {
  options.log('builds are NOT isolated: they run as plain processes of this user and see everything it sees');
  const disk = await watchDisk(state.folder, options.diskReserveBytes);
  const makeCgroup = await cgroupMaker(state, options.log);
  const whyNoImages = 'builds are not isolated (HEADRACE_SANDBOX=off)';
  const run = plainRunner({ stateDir: state.folder, makeCgroup, disk });
  const kind = {
    owner: ourselves(),
    hasLayers: false,
    hasManyUsers: false,
    translatesOwners: true,
    hasOwnNetwork: false,
    isIsolated: false,
    whyNoImages,
  };
  return assemble(kind, run, () => state.close());
}

function ourselves(): Identity {
  return { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
}

/** Tracks the current runs, so that closing can end them. */
function assemble(
  kind: Pick<
    Sandboxes,
    'owner' | 'hasLayers' | 'hasManyUsers' | 'translatesOwners' | 'hasOwnNetwork' | 'isIsolated' | 'whyNoImages'
  >,
  start: (job: Job) => Promise<Ended>,
  takeDown: () => Promise<void>,
): Sandboxes {
  const { owner, whyNoImages } = kind;
  const closing = new AbortController();
  const running = new Set<Promise<unknown>>();
  return {
    ...kind,
    run: async (job) => {
      checkJob(job);
      if (job.image !== undefined && whyNoImages !== null) throw new CannotMountError(whyNoImages);
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

async function tryOut(machine: Machine, disk: DiskWatch, what: Pick<Job, 'workspace' | 'user'>): Promise<Error | null> {
  const output: Buffer[] = [];
  const job: Job = {
    id: 'try-out',
    steps: [{ name: 'try', command: 'true' }],
    environment: {},
    ...what,
    limits: { memoryBytes: 256 * 1024 * 1024, processes: 64, timeoutMs: 30_000 },
    output: (chunk) => void output.push(chunk),
    signal: new AbortController().signal,
  };
  try {
    const sandbox = await openSandbox(machine, 'try-out', what);
    try {
      const ended = await runInSandbox(machine, sandbox, job, disk);
      if (ended.exitStatus === 0) return null;
      return new Error(
        `a trial run ended with ${ended.exitStatus ?? ended.reason}: ${Buffer.concat(output).toString()}`,
      );
    } finally {
      await sandbox.close();
    }
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}
