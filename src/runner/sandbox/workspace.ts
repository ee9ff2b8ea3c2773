import { chownSync, mkdirSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { basename, join, relative } from 'node:path';
import { run } from '../../lib/processes.ts';
import type { Area } from './area.ts';
import type { Identity, Job, Mount } from './types.ts';
import { BENCH, type Workbench } from './workbench.ts';

export interface Furnished {
  /** Where the directories of the run are, as the bench sees them. */
  tmp: string;
  home: string;
  /** Where the workspace is, as the bench sees it. */
  workspace: string;
  mounts: { from: string; at: string; writable: boolean }[];
  /** What has to be unmounted afterwards. */
  mounted: string[];
}

const FEW_LAYERS = 10;

/**
 * Lays out workspace and mounts on the bench of the slot. Everything passes over the bench, also what could be
 * bound from where it lies: a build's user may not enter the folders that lead there, and need not.
 *
 * Requests are sent at once and answered in order: one round trip for all. When one fails, the slot goes, and
 * with it whatever was mounted.
 */
export async function furnish(
  job: Job,
  slot: { area: Area; bench: Workbench; owner: Identity; overlay: boolean },
): Promise<Furnished> {
  const { area, bench, owner } = slot;
  const [tmp, home] = [join(area.onBench, 'tmp'), join(area.onBench, 'home')];
  const furnished: Furnished = { tmp, home, workspace: '', mounts: [], mounted: [] };
  const requests: Promise<void>[] = [];
  const mounting = (target: string, request: Promise<void>): string => {
    furnished.mounted.unshift(target);
    requests.push(request);
    return target;
  };
  area.directory('tmp');
  area.directory('home');
  furnished.workspace = await workspace();
  const mounts = (job.mounts ?? []).toSorted((a, b) => a.at.length - b.at.length); // outer ones before those inside them
  if (mounts.length > 0) area.directory('layers');
  await area.settled();
  for (const [index, mount] of mounts.entries()) {
    const from = join(BENCH, `mount-${index}`);
    if (mount.writable === undefined) await layers(mount, from, skeleton(mount, mounts, `below-${index}`));
    else if (mount.layers && mount.layers.length > 0) await over(mount.layers, mount.writable, from);
    else writable(mount.writable, from);
    furnished.mounts.push({ from, at: mount.at, writable: mount.writable !== undefined });
  }
  await Promise.all(requests);
  return furnished;

  async function workspace(): Promise<string> {
    if ('directory' in job.workspace) return writable(job.workspace.directory, join(BENCH, 'workspace'));
    if ('checkout' in job.workspace && slot.overlay) return area.overlay(job.workspace.checkout);
    const own = area.directory('workspace');
    if ('checkout' in job.workspace) {
      await area.settled();
      await copyTree(job.workspace.checkout, own);
    }
    return join(area.onBench, 'workspace');
  }

  function writable(directory: string, target: string): string {
    chownSync(directory, owner.uid, owner.gid);
    return mounting(target, bench.bind(directory, target));
  }

  async function over(lower: string[], directory: string, target: string): Promise<void> {
    chownSync(directory, owner.uid, owner.gid);
    if (slot.overlay) {
      const work = `${directory}.work`; // an overlay needs an empty directory on the same file system
      mkdirSync(work, { recursive: true });
      mounting(target, bench.overlay(target, { lower: briefly(lower, target), upper: { directory, work } }));
      return;
    }
    for (const layer of lower) await copyTree(layer, directory);
    mounting(target, bench.bind(directory, target));
  }

  /** All paths of an overlay have to fit into one page: where there are many, each gets a short name first. */
  function briefly(paths: string[], target: string): string[] {
    if (paths.length <= FEW_LAYERS) return paths;
    return paths.map((path, index) => {
      const brief = `${target}-${index}`;
      return mounting(brief, bench.bind(path, brief));
    });
  }

  async function layers(mount: Mount, target: string, below: string | null): Promise<void> {
    const all = [...(below === null ? [] : [below]), ...(mount.layers ?? [])];
    const [only] = all;
    if (only === undefined) throw new Error(`nothing to mount at ${mount.at}`);
    if (all.length === 1) mounting(target, bench.bind(only, target));
    else if (slot.overlay) mounting(target, bench.overlay(target, { lower: briefly(all, target) }));
    else {
      const merged = join(area.directory('layers'), basename(target));
      await mkdir(merged, { recursive: true });
      for (const directory of all) await copyTree(directory, merged);
      mounting(target, bench.bind(merged, target));
    }
  }

  /** Where one mount lies inside another, the outer one is read-only and may lack the place for it: a layer with just that place. */
  function skeleton(mount: Mount, all: readonly Mount[], name: string): string | null {
    const inside = all.filter(({ at }) => at.startsWith(`${mount.at}/`)).map(({ at }) => relative(mount.at, at));
    const folder = join(area.directory('layers'), name);
    for (const path of inside) mkdirSync(join(folder, path), { recursive: true });
    return inside.length > 0 ? folder : null;
  }
}

export async function copyTree(from: string, to: string): Promise<void> {
  const copied = await run('cp', ['-a', '--reflink=auto', '-T', '--', from, to]);
  if (copied.status !== 0) throw new Error(`could not copy a directory: ${copied.stderr.toString().trim()}`);
}
