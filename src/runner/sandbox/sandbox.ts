import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { socketPath } from '../../shared/lib/sockets.ts';
import { removeTree } from '../../shared/lib/remove-tree.ts';
import { bubblewrapCommand, bubblewrapDescriptors, holdBubblewrap, type Bubblewrap } from './bubblewrap.ts';
import type { Cgroup } from './cgroup-files.ts';
import type { Door } from './door.ts';
import type { Machine } from './machine.ts';
import { sandboxRoot, type RunNamespaces } from './mount-helper.ts';
import { openRunDirectories, type RunDirectories } from './run-directories.ts';
import { showPaths } from './sandbox-root.ts';
import type { Identity, Job } from './types.ts';

/**
 * Everything for one run, made before the run is known, and used once. A build can keep things alive past its own death
 * (a descriptor in a cycle of sockets, a pipe in the kernel). So nothing that a run could name, open or keep may reach
 * another run: pipes, directories, user number, control group, namespaces, session keyring and network.
 *
 * It ends with the runner, because processes, mounts and networks live in the mount helper. Only the folder and the
 * control group survive a `kill -9`; the sweep finds both.
 */
export interface Sandbox {
  readonly folder: string;
  readonly namespaces: RunNamespaces;
  readonly directories: RunDirectories;
  readonly cgroup: Cgroup | null;
  /** Whether a control group enforces its limits: its own, or the group of the run whose network it shares. */
  readonly isLimited: boolean;
  readonly user: Identity;
  readonly process: Bubblewrap;
  /** Directories in the folder: layers of what the run wrote earlier (stages.ts). */
  readonly stages: string[];
  /** The layers that are bound in the run's namespaces, and where. */
  readonly bound: Map<string, string>;
  refused(): Promise<string[]>;
  /** Undefined if the run has no access to the outside, or the network of the machine. */
  openDoor(door: Door): Promise<AsyncDisposable | undefined>;
  close(): Promise<void>;
}

/** A sandbox serves only the user that it was opened for. A sandbox for image builds serves only image builds. */
export type Who = Pick<Job, 'user' | 'buildsImages'>;

/** The run whose network and limits another run shares. */
export interface Host {
  network: string;
  cgroup: Cgroup | null;
}

export async function openSandbox(machine: Machine, name: string, who: Who = {}, host?: Host): Promise<Sandbox> {
  const undo: (() => Promise<void>)[] = [];
  const close = async (): Promise<void> => {
    for (const step of undo.splice(0).toReversed()) await step();
  };
  try {
    const folder = join(machine.stateDir, 'runs', name);
    mkdirSync(folder, { mode: 0o711 });
    undo.push(async () => {
      if (existsSync(folder)) await removeTree(folder);
    });
    const cgroup = host ? null : machine.makeCgroup(name);
    const group = host?.cgroup ?? cgroup;
    if (cgroup) undo.push(() => cgroup.remove());
    const { user, buildsImages } = who;
    const { ranges } = machine.users;
    const users = { user, hasManyIds: ranges !== undefined, buildsImages };
    const alone = machine.users.next();
    const namespaces = machine.mountHelper.open({
      ownNetwork: machine.network !== 'host',
      network: host?.network,
      ...(user && ranges ? { ids: ranges, as: user } : { ids: alone.ids, as: alone.run }),
      isNesting: buildsImages ?? false,
      entrances: group?.entrances ?? [],
      descriptors: bubblewrapDescriptors(users),
      command: bubblewrapCommand(sandboxRoot, users),
    });
    undo.push(() => namespaces.close());
    // All requests are sent at once, and answered in order.
    const directories = openRunDirectories({ folder, namespaces, owner: machine.users.files });
    const shown = showPaths(namespaces, machine.paths);
    const started = holdBubblewrap(namespaces, directories.stepFiles);
    const outside = host ? undefined : machine.connect && namespaces.paths.then(machine.connect);
    started.catch(() => {}); // thrown below, after an earlier error
    undo.push(async () => {
      await outside?.then((open) => open.close()).catch(() => {});
      const process = await started.catch(() => undefined);
      process?.kill();
      await process?.ended;
      await cgroup?.empty();
      await process?.finish();
      process?.output.destroy(); // the output of an unused sandbox is not read
      process?.stepFiles.close();
    });
    await Promise.all([directories.settled(), shown, outside]);
    const run = {
      folder,
      namespaces,
      directories,
      cgroup,
      isLimited: group !== null,
      user: await namespaces.user,
      stages: [],
      bound: new Map<string, string>(),
    };
    return {
      ...run,
      process: await started,
      refused: async () => (await outside)?.refused() ?? [],
      openDoor: async (door) => (await outside)?.openDoor(door, socketPath(folder, 'door.sock')),
      close,
    };
  } catch (error) {
    await close().catch(() => {}); // the first error is the one to report
    throw error;
  }
}
