import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { removeTree } from '../../lib/remove-tree.ts';
import { bubblewrapCommand, bubblewrapDescriptors, holdBubblewrap, type Bubblewrap } from './bubblewrap.ts';
import type { Cgroup } from './cgroups.ts';
import type { Machine } from './machine.ts';
import { sandboxRoot, type RunNamespaces } from './mount-helper.ts';
import { openRunDirectories, type RunDirectories } from './run-directories.ts';
import { openSandboxRoot, type SandboxRoot } from './sandbox-root.ts';
import type { Limits } from './types.ts';

/**
 * A sandbox: everything for one run, made before the run is known, used by that run and by no other.
 *
 * Single use is what keeps builds apart. A build can keep things alive past its own death (a descriptor that travels in
 * a cycle of sockets, a pipe that the kernel still holds for it), so nothing that a run could name, open or keep may
 * ever meet another run: its pipes, its directories, its user number, its control group, its namespaces, its session
 * keyring and its way to the outside are all made here and thrown away in `close`.
 *
 * All of it is tied to the life of the runner: processes, mounts and networks live as long as the mount helper, which
 * ends when the runner does. Only the folder and the control group outlive a `kill -9`; the sweep finds both.
 */
export interface Sandbox {
  readonly folder: string;
  readonly namespaces: RunNamespaces;
  readonly root: SandboxRoot;
  readonly directories: RunDirectories;
  readonly cgroup: Cgroup | null;
  /** A shell that waits for the script of the run. */
  readonly process: Bubblewrap;
  close(): Promise<void>;
}

/** `limits` are what the run will probably have: set ahead, they cost the run nothing. */
export async function openSandbox(machine: Machine, name: string, limits?: Limits): Promise<Sandbox> {
  const undo: (() => Promise<void>)[] = [];
  const close = async (): Promise<void> => {
    for (const step of undo.splice(0).toReversed()) await step();
  };
  try {
    const folder = join(machine.stateDir, 'runs', name);
    mkdirSync(folder, { mode: 0o711 });
    undo.push(() => machine.mountHelper.removeSmall([folder]).catch(() => removeTree(folder)));
    const cgroup = machine.makeCgroup(name);
    if (cgroup) undo.push(() => cgroup.remove());
    if (limits) cgroup?.limit(limits);
    const user = machine.users.next();
    const namespaces = machine.mountHelper.open({
      ownNetwork: machine.connect !== undefined,
      owners: user.mapped,
      entrances: cgroup?.entrances ?? [],
      as: user.run,
      descriptors: bubblewrapDescriptors(),
      command: bubblewrapCommand(sandboxRoot, machine.arguments),
    });
    undo.push(() => namespaces.close());
    // All requests are made at once, and answered in their order.
    const directories = openRunDirectories({ folder, namespaces, owner: machine.users.files });
    const root = openSandboxRoot(namespaces, machine.paths);
    const started = holdBubblewrap(namespaces);
    const outside = machine.connect && namespaces.paths.then(machine.connect);
    started.catch(() => {}); // told below, after what failed before it
    undo.push(async () => {
      await outside?.then((open) => open.close()).catch(() => {});
      const process = await started.catch(() => undefined);
      process?.kill();
      await process?.ended;
      await cgroup?.empty();
      await process?.finish();
      process?.output.destroy(); // nobody reads what comes out of a sandbox that was not needed
    });
    await Promise.all([directories.settled(), root.made, outside]);
    return { folder, namespaces, root, directories, cgroup, process: await started, close };
  } catch (error) {
    await close().catch(() => {}); // the first error is the one to tell
    throw error;
  }
}
