import { chownSync, mkdirSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { run } from '../../lib/processes.ts';
import type { Area } from './area.ts';
import { PLACES, type Identity, type Job, type Mount } from './types.ts';
import { BENCH, type Workbench } from './workbench.ts';

const FEW_LAYERS = 10;

/**
 * Lays out workspace and mounts on the stage of a run, and says what has to be unmounted afterwards, the last first.
 *
 * Requests are sent at once and answered in order: one round trip for all. When one fails, the slot goes, and
 * with it whatever was mounted.
 */
export async function furnish(
  job: Job,
  slot: { area: Area; bench: Workbench; owner: Identity; overlay: boolean },
): Promise<string[]> {
  const { area, bench, owner } = slot;
  const mounted: string[] = [];
  const requests: Promise<void>[] = [];
  const mounting = (target: string, request: Promise<void>): string => {
    mounted.unshift(target);
    requests.push(request);
    return target;
  };
  area.directory('tmp');
  area.directory('home');
  await workspace(area.stage.at(PLACES.workspace));
  const mounts = (job.mounts ?? []).toSorted((a, b) => a.at.length - b.at.length); // outer ones before those inside them
  if (needsLayers(mounts)) area.directory('layers');
  await area.settled();
  for (const [index, mount] of mounts.entries()) {
    const target = area.stage.at(mount.at);
    if (mount.writable === undefined) await layers(mount, target, index, skeleton(mount, mounts, `below-${index}`));
    else if (mount.layers && mount.layers.length > 0) await over(mount.layers, mount.writable, target, index);
    else writable(mount.writable, target);
  }
  await Promise.all(requests);
  return mounted;

  async function workspace(target: string): Promise<void> {
    if ('checkout' in job.workspace && slot.overlay) return area.overlay(job.workspace.checkout);
    area.noOverlay();
    if ('directory' in job.workspace) return writable(job.workspace.directory, target);
    const own = area.directory('workspace');
    if ('checkout' in job.workspace) {
      await area.settled();
      await copyTree(job.workspace.checkout, own);
    }
    mounting(target, bench.bind(area.onBench('workspace'), target, 'rw'));
  }

  function writable(directory: string, target: string): void {
    chownSync(directory, owner.uid, owner.gid);
    mounting(target, bench.bind(directory, target, 'rw'));
  }

  async function over(lower: string[], directory: string, target: string, index: number): Promise<void> {
    chownSync(directory, owner.uid, owner.gid);
    if (slot.overlay) {
      const work = `${directory}.work`; // an overlay needs an empty directory on the same file system
      mkdirSync(work, { recursive: true });
      const short = briefly(lower, index);
      mounting(target, bench.overlay(target, { lower: short, upper: { directory, work } }));
      return;
    }
    for (const layer of lower) await copyTree(layer, directory);
    mounting(target, bench.bind(directory, target, 'rw'));
  }

  /** All paths of an overlay have to fit into one page: where there are many, each gets a short name first. */
  function briefly(paths: string[], index: number): string[] {
    if (paths.length <= FEW_LAYERS) return paths;
    return paths.map((path, layer) => {
      const brief = join(BENCH, `layer-${index}-${layer}`);
      return mounting(brief, bench.bind(path, brief, 'ro'));
    });
  }

  async function layers(mount: Mount, target: string, index: number, below: string | null): Promise<void> {
    const all = [...(below === null ? [] : [below]), ...(mount.layers ?? [])];
    const [only] = all;
    if (only === undefined) throw new Error(`nothing to mount at ${mount.at}`);
    if (all.length === 1) mounting(target, bench.bind(only, target, 'ro'));
    else if (slot.overlay) {
      const short = briefly(all, index);
      mounting(target, bench.overlay(target, { lower: short }));
    } else {
      const merged = join(area.directory('layers'), `merged-${index}`);
      await mkdir(merged, { recursive: true });
      for (const directory of all) await copyTree(directory, merged);
      mounting(target, bench.bind(merged, target, 'ro'));
    }
  }

  /** Where one mount lies inside another, the outer one is read-only and may lack the place for it: a layer with just that place. */
  function skeleton(mount: Mount, all: readonly Mount[], name: string): string | null {
    const inside = all.filter(({ at }) => at.startsWith(`${mount.at}/`)).map(({ at }) => relative(mount.at, at));
    if (inside.length === 0) return null;
    const folder = join(area.directory('layers'), name);
    for (const path of inside) mkdirSync(join(folder, path), { recursive: true });
    return folder;
  }

  /** Whether something has to be put together that is not mounted as it lies. */
  function needsLayers(mounts: readonly Mount[]): boolean {
    if (!slot.overlay) return mounts.length > 0;
    return mounts.some(({ at }) => mounts.some((other) => other.at.startsWith(`${at}/`)));
  }
}

export async function copyTree(from: string, to: string): Promise<void> {
  const copied = await run('cp', ['-a', '--reflink=auto', '-T', '--', from, to]);
  if (copied.status !== 0) throw new Error(`could not copy a directory: ${copied.stderr.toString().trim()}`);
}
