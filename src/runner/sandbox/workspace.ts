import { chownSync, mkdirSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { basename, join, relative } from 'node:path';
import { run } from '../../lib/processes.ts';
import { codeOf } from './cgroup_files.ts';
import type { Identity, Job, Mount } from './types.ts';
import { BENCH, SLOT_ON_BENCH, type Workbench } from './workbench.ts';

/**
 * The directories of one run: `/tmp`, the home, and what the run changes in its workspace. They lie on disk, in
 * the slot's folder, and go when the run is over. Memory would be quicker, but there they would count against the
 * run's limit.
 */
export const RUN_DIRECTORIES = ['tmp', 'home', 'changes', 'work', 'workspace', 'layers'] as const;

/** Removes everything below a folder, whatever modes a run has left on its directories. */
export async function removeTree(folder: string): Promise<void> {
  const options = { recursive: true, force: true } as const;
  try {
    await rm(folder, options);
  } catch (error) {
    const code = codeOf(error);
    if (code !== 'EACCES' && code !== 'EPERM' && code !== 'ENOTEMPTY') throw error;
    await run('chmod', ['-R', 'u+rwX', '--', folder]);
    await rm(folder, options);
  }
}

export async function copyTree(from: string, to: string): Promise<void> {
  const copied = await run('cp', ['-a', '--reflink=auto', '-T', '--', from, to]);
  if (copied.status !== 0) throw new Error(`could not copy the workspace: ${copied.stderr.toString().trim()}`);
}

export interface Furnished {
  /** Where the workspace is, as the bench sees it. */
  workspace: string;
  mounts: { from: string; at: string; writable: boolean }[];
  /** What has to be unmounted afterwards. */
  mounted: string[];
}

/**
 * Lays out workspace and mounts on the bench of the slot. Everything passes over the bench, also what could be
 * bound from where it lies: a build's user may not enter the folders that lead there, and need not.
 */
export async function furnish(
  job: Job,
  slot: { folder: string; bench: Workbench; owner: Identity; overlay: boolean },
): Promise<Furnished> {
  const { bench } = slot;
  // An ordinary user's files are the build's already, and have no other name in the bench's namespace.
  const owner = process.getuid?.() === 0 ? slot.owner : { uid: -1, gid: -1 };
  const furnished: Furnished = { workspace: '', mounts: [], mounted: [] };
  const requests: Promise<void>[] = []; // sent at once, answered in order: one round trip for all
  const own = (name: (typeof RUN_DIRECTORIES)[number], mode = 0o755): string => {
    const path = join(slot.folder, name);
    requests.push(bench.directory(path, mode, owner));
    return path;
  };
  const mounting = (target: string, request: Promise<void>): string => {
    furnished.mounted.unshift(target);
    requests.push(request);
    return target;
  };
  try {
    own('tmp', 0o1777);
    own('home');
    await workspace();
    const mounts = (job.mounts ?? []).toSorted((a, b) => a.at.length - b.at.length); // outer ones before those inside them
    for (const [index, mount] of mounts.entries()) {
      const from = join(BENCH, `mount-${index}`);
      if (mount.writable === undefined)
        await layers(mount, from, skeleton(mount, mounts, join(slot.folder, 'layers', `below-${index}`)));
      else writable(mount.writable, from);
      furnished.mounts.push({ from, at: mount.at, writable: mount.writable !== undefined });
    }
    await Promise.all(requests);
    return furnished;
  } catch (error) {
    await Promise.allSettled(requests);
    for (const target of furnished.mounted) await bench.clear([target]).catch(() => {}); // the one that failed is not there to be cleared
    throw error;
  }

  async function workspace(): Promise<void> {
    const target = join(BENCH, 'workspace');
    if ('directory' in job.workspace) furnished.workspace = writable(job.workspace.directory, target);
    else if ('checkout' in job.workspace && slot.overlay) {
      const upper = { directory: own('changes'), work: own('work') };
      furnished.workspace = mounting(target, bench.overlay(target, { lower: [job.workspace.checkout], upper }));
    } else {
      const copy = join(slot.folder, 'workspace');
      if ('checkout' in job.workspace) await copyTree(job.workspace.checkout, copy);
      else own('workspace');
      furnished.workspace = join(SLOT_ON_BENCH, 'workspace');
    }
  }

  function writable(directory: string, target: string): string {
    chownSync(directory, owner.uid, owner.gid);
    return mounting(target, bench.bind(directory, target));
  }

  async function layers(mount: Mount, target: string, below: string | null): Promise<void> {
    const all = [...(below === null ? [] : [below]), ...(mount.layers ?? [])];
    const [only] = all;
    if (only === undefined) throw new Error(`nothing to mount at ${mount.at}`);
    if (all.length === 1) return void mounting(target, bench.bind(only, target));
    if (slot.overlay) return void mounting(target, bench.overlay(target, { lower: all }));
    const merged = join(slot.folder, 'layers', basename(target));
    await mkdir(merged, { recursive: true });
    for (const directory of all) await copyTree(directory, merged);
    mounting(target, bench.bind(merged, target));
  }
}

/** Unmounts and removes what the run had. */
export async function clearAway(slot: { folder: string; bench: Workbench }, furnished: Furnished): Promise<void> {
  const paths = RUN_DIRECTORIES.map((name) => join(slot.folder, name));
  const [cleared, removed] = await Promise.allSettled([
    slot.bench.clear(furnished.mounted),
    slot.bench.removeSmall(paths),
  ]);
  if (cleared.status === 'rejected') throw cleared.reason as Error;
  if (removed.status === 'rejected') for (const path of paths) await removeTree(path);
}

/** Where one mount lies inside another, the outer one is read-only and may lack the place for it: a layer with just that place. */
function skeleton(mount: Mount, all: readonly Mount[], folder: string): string | null {
  const inside = all.filter(({ at }) => at.startsWith(`${mount.at}/`)).map(({ at }) => relative(mount.at, at));
  for (const path of inside) mkdirSync(join(folder, path), { recursive: true });
  return inside.length > 0 ? folder : null;
}
