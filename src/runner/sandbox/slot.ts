import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { openArea, removeTree, type Area } from './area.ts';
import { holdBubblewrap, makePipes, type Bubblewrap } from './bubblewrap.ts';
import type { Cgroup } from './cgroups.ts';
import type { Machine } from './machine.ts';
import { connectOutside, type Outside } from './network.ts';
import type { Command, Identity } from './types.ts';
import { BENCH, openWorkbench, SLOT_ON_BENCH, type Workbench } from './workbench.ts';

/**
 * A slot: everything for one run at a time that can be made before the run.
 *
 * It holds a workbench with its mount namespace, in `internet` mode a network namespace that is connected to the
 * outside, a control group, a folder and a waiting sandbox. It serves one run after the other. Between two
 * runs it is tidied, and it is tidy only once every process of the first is dead; a slot that cannot be tidied is
 * closed, and another takes its place.
 *
 * All of it is tied to the life of the runner: the namespaces live as long as the workbench, which ends when the
 * runner does. Only the folder and the control group outlive a `kill -9`; both are noted down for the sweep.
 */
export interface Slot {
  readonly folder: string;
  readonly bench: Workbench;
  /** The area for one run; the next gets the other one. */
  takeArea(): Area;
  /** Whom files must belong to, in the words of the bench. */
  readonly owner: Identity;
  readonly cgroup: Cgroup | null;
  /** The sandbox that waits for the run that took the area; one is opened if none does. */
  take(): Promise<Bubblewrap>;
  /** Opens the next one ahead of its run. */
  prepare(): Promise<void>;
  close(): Promise<void>;
}

export async function openSlot(machine: Machine, number: number): Promise<Slot> {
  const { root, owner, network } = machine;
  const undo: (() => Promise<void>)[] = [];
  const close = async (): Promise<void> => {
    for (const step of undo.splice(0).toReversed()) await step();
  };
  try {
    const folder = join(machine.stateDir, 'slots', String(number));
    await removeTree(folder);
    await mkdir(folder, { recursive: true, mode: 0o711 });
    undo.push(() => removeTree(folder));
    const cgroup = await machine.makeCgroup(number);
    if (cgroup) undo.push(() => cgroup.remove());
    const ownNetwork = network === 'internet';
    const bench = await openWorkbench({ root, ownNetwork, entrances: cgroup?.entrances ?? [] });
    undo.push(() => bench.close());
    await bench.bind(folder, SLOT_ON_BENCH, 'rw');
    await bench.bind(machine.etc, join(BENCH, 'etc'), 'ro');
    // An ordinary user's files are the build's already, and have no other name in the bench's namespace.
    const fileOwner = root ? owner : { uid: -1, gid: -1 };
    const areas = await Promise.all(
      (['even', 'odd'] as const).map((name) => openArea({ folder, name, bench, owner: fileOwner })),
    );
    undo.push(async () => areas.forEach((area) => area.close()));
    let runs = 0;
    await makePipes(folder, bench, fileOwner);
    if (ownNetwork) {
      const outside: Outside = await connectOutside({ pid: bench.pid, root, enter: entrance(bench.pid, root) });
      undo.push(() => outside.close());
    }
    const areaOf = (run: number): Area => areas[run % areas.length] as Area;
    const hold = ({ stage }: Area): Promise<Bubblewrap> =>
      holdBubblewrap({ folder, bench, owner: fileOwner, stage, arguments: machine.arguments });
    let next: Promise<Bubblewrap> | undefined;
    undo.push(async () => {
      const held = await next?.catch(() => undefined);
      held?.kill();
      await held?.ended;
      await cgroup?.empty();
      await held?.closed;
    });
    return {
      folder,
      bench,
      takeArea: () => {
        runs += 1;
        return areaOf(runs);
      },
      owner: fileOwner,
      cgroup,
      take: async () => {
        const ready = await next;
        next = undefined;
        return ready?.isWaiting() ? ready : hold(areaOf(runs));
      },
      prepare: async () => {
        next ??= hold(areaOf(runs + 1));
        await next;
      },
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

function entrance(pid: number, root: boolean): Command {
  const namespaces = [`--mount=/proc/${pid}/ns/mnt`, `--net=/proc/${pid}/ns/net`];
  if (!root) namespaces.push(`--user=/proc/${pid}/ns/user`, '--preserve-credentials');
  return ['nsenter', ...namespaces];
}
