import { lchownSync, lstatSync, mkdirSync, realpathSync, renameSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';
import { run } from '../../shared/lib/processes.ts';
import { overAccounts } from './etc.ts';
import { rootOfImage } from './identity.ts';
import { imagesOwn, showImage } from './image-overlay.ts';
import type { Machine } from './machine.ts';
import { helperDirectory, ownDirectories, type Owners } from './mount-helper.ts';
import { mapped, type RunDirectory } from './run-directories.ts';
import { inRoot } from './sandbox-root.ts';
import type { Sandbox } from './sandbox.ts';
import { CannotMountError, sandboxPaths, type Job, type Mount } from './types.ts';

/**
 * Mounts a run's workspace and dependencies on the root of its sandbox. Requests are sent at once and answered in
 * order. If one fails, the sandbox is discarded with all its mounts. With `isAgain`, mounts with more layers cover those
 * of an earlier call.
 */
export async function mountAll(
  job: Job,
  sandbox: Sandbox,
  machine: Machine,
  { isAgain = false }: { isAgain?: boolean } = {},
): Promise<void> {
  const { namespaces, directories } = sandbox;
  const owner = machine.users.files;
  const requests: Promise<void>[] = [];
  const mounting = (request: Promise<void>): void => {
    request.catch(() => {}); // thrown when all of them are awaited
    requests.push(request);
  };
  const isCovered = ({ at }: Mount): boolean =>
    isAgain && job.image === undefined && !writtenPlaces.some((place) => isInside(at, place));
  const mounts = withPaths(job, machine).toSorted((a, b) => a.at.length - b.at.length); // outer ones first
  if (job.image !== undefined) await image(job.image);
  if (job.changes) {
    await directories.settled();
    began('changes', job.changes.workspace);
    began('home', job.changes.home);
  }
  if (job.like) {
    like('changes', job.like.workspace);
    like('home', job.like.home);
  }
  await workspace(inRoot(sandboxPaths.workspace));
  if (job.home && job.home.length > 0) mountOverlay(job.home, inRoot(sandboxPaths.home), ['home', 'homeWork']);
  if (job.tmp && job.tmp.length > 0) mountOverlay(job.tmp, inRoot('/tmp'), ['tmp', 'tmpWork']);
  if (needsLayers(mounts)) directories.make('layers');
  await directories.settled();
  for (const [index, mount] of mounts.entries()) {
    if (isCovered(mount)) continue;
    const target = inRoot(mount.at);
    if (mount.file !== undefined) mounting(namespaces.bind(mount.file, target, 'ro', 'files', 'file'));
    else if (mount.isSys) mounting(namespaces.sys(target));
    else if (mount.writable === undefined)
      await layers(mount, target, index, skeleton(mount, mounts, `below-${index}`));
    else if (mount.layers && mount.layers.length > 0) await over(mount.layers, mount.writable, target);
    else writable(mount.writable, target);
  }
  await Promise.all(requests);

  async function image(tree: string): Promise<void> {
    await sandbox.process.settled();
    const { below = [], above = [] } = job.imageLayers ?? {};
    const owner = rootOfImage(machine.users, job.user);
    const own = job.accounts ? [overAccounts(join(sandbox.folder, 'accounts'), job.accounts, owner)] : [];
    const layers = { below: below.map(asImage), above: [...own, ...above].map(asImage) };
    const directories = mounts.filter(({ file }) => file === undefined).map(({ at }) => at);
    const overImages = machine.overImages(owner);
    (await showImage(sandbox, { tree, overImages, owner, layers, directories, isAgain })).forEach(mounting);
  }

  /**
   * Moves the changes to the place of an empty directory. That directory may be mounted already, so it is not removed.
   */
  function began(name: RunDirectory, changes: string | undefined): void {
    if (changes === undefined) return;
    const place = directories.make(name);
    renameSync(place, `${changes}.before`);
    renameSync(changes, place);
  }

  /** Copies the mode and time of `other`. The owner always keeps full access. */
  function like(name: RunDirectory, other: string | undefined): void {
    if (other === undefined) return;
    const { mode, mtimeNs } = lstatSync(other, { bigint: true });
    mounting(namespaces.adjust(directories.make(name), (Number(mode) & 0o7777) | 0o700, mtimeNs));
  }

  async function workspace(target: string): Promise<void> {
    if ('directory' in job.workspace) return writable(job.workspace.directory, target);
    if ('layers' in job.workspace) return layers({ at: sandboxPaths.workspace, ...job.workspace }, target, 0, null);
    if ('checkout' in job.workspace && machine.overlay) {
      const upper = { directory: mapped('changes'), work: mapped('work') };
      const { checkout, over: above = [] } = job.workspace;
      const lower = [checkout, ...above, ...(await pointsOfLent())].map((path) => layer(path));
      return mounting(namespaces.overlay(target, { lower, upper }));
    }
    const copy = directories.make('workspace');
    if ('checkout' in job.workspace) {
      await directories.settled();
      await copyTree(job.workspace.checkout, copy);
    }
    mounting(namespaces.bind(mapped('workspace'), target, 'rw'));
  }

  /**
   * The mount points are in a layer over the checkout. So a file or a link of the checkout is not in the way, and the
   * run's changes do not have them.
   */
  async function pointsOfLent(): Promise<string[]> {
    const [outer] = mounts.filter(({ isLent }) => isLent);
    if (!outer) return [];
    const folder = join(directories.make('layers'), 'points');
    await directories.settled();
    let path = folder;
    for (const part of ['', ...relative(sandboxPaths.workspace, outer.at).split('/')]) {
      path = join(path, part);
      mkdirSync(path, { mode: 0o755 });
      lchownSync(path, owner.uid, owner.gid); // the build may add to the first of them
    }
    return [folder];
  }

  /** A directory of the run's own, over layers. */
  function mountOverlay(below: readonly string[], target: string, [name, work]: [RunDirectory, RunDirectory]): void {
    directories.make(work); // requests are done in their order
    const upper = { directory: mapped(name), work: mapped(work) };
    mounting(namespaces.overlay(target, { lower: below.map((path) => layer(path)), upper }));
  }

  /** Checked like the helper's mounts: a directory, and no link in its path. */
  function give(directory: string): void {
    if (realpathSync.native(directory) !== directory || !lstatSync(directory).isDirectory())
      throw new Error(`${directory} is not a directory`);
    lchownSync(directory, owner.uid, owner.gid);
  }

  function writable(directory: string, target: string): void {
    give(directory);
    mounting(namespaces.bind(directory, target, 'rw', 'files'));
  }

  async function over(lower: string[], directory: string, target: string): Promise<void> {
    give(directory);
    if (machine.overlay) {
      mkdirSync(`${directory}.work`, { recursive: true }); // an overlay needs an empty directory on the same mount
      const both = join(layer(dirname(directory), 'rw'), basename(directory));
      const upper = { directory: both, work: `${both}.work` };
      return mounting(namespaces.overlay(target, { lower: lower.map((path) => layer(path)), upper }));
    }
    for (const path of lower) await copyTree(path, directory);
    mounting(namespaces.bind(directory, target, 'rw', 'files'));
  }

  /**
   * A directory in an overlay, with the owner that the run sees. Its name is short: all names must fit into one page.
   */
  function layer(path: string, mode: 'ro' | 'rw' = 'ro', owners: Owners | undefined = 'files'): string {
    const { folder, stages, bound } = sandbox;
    if (stages.some((stage) => isInside(path, join(folder, stage))))
      return join(owners === 'image' ? imagesOwn : ownDirectories, relative(folder, path));
    const key = `${mode} ${owners} ${path}`;
    const place = bound.get(key) ?? join(helperDirectory, `l${bound.size}`);
    if (!bound.has(key)) mounting(namespaces.bind(path, place, mode, owners));
    bound.set(key, place);
    return place;
  }

  function asImage(path: string): string {
    return layer(path, 'ro', 'image');
  }

  async function layers(mount: Mount, target: string, index: number, below: string | null): Promise<void> {
    const all = [...(below === null ? [] : [below]), ...(mount.layers ?? [])];
    const [only] = all;
    if (only === undefined) throw new Error(`nothing to mount at ${mount.at}`);
    const owners = mount.isOfTheMachine ? undefined : 'files';
    if (all.length === 1) mounting(namespaces.bind(only, target, 'ro', owners));
    else if (machine.overlay)
      mounting(namespaces.overlay(target, { lower: all.map((path) => layer(path, 'ro', owners)) }));
    else {
      const merged = join(directories.make('layers'), `merged-${index}`);
      await mkdir(merged, { recursive: true });
      for (const directory of all) await copyTree(directory, merged);
      mounting(namespaces.bind(merged, target, 'ro', 'files'));
    }
  }

  /** A layer with mount points for inner mounts: the outer mount is read-only and may lack them. */
  function skeleton(mount: Mount, all: readonly Mount[], name: string): string | null {
    const inside = all.filter(({ at }) => at.startsWith(`${mount.at}/`)).map(({ at }) => relative(mount.at, at));
    if (inside.length === 0) return null;
    const folder = join(directories.make('layers'), name);
    for (const path of inside) mkdirSync(join(folder, path), { recursive: true });
    return folder;
  }

  function needsLayers(mounts: readonly Mount[]): boolean {
    if (!machine.overlay) return mounts.length > 0;
    return mounts.some(({ at }) => mounts.some((other) => other.at.startsWith(`${at}/`)));
  }
}

/** Places that are mounted again with more layers. */
const writtenPlaces = [sandboxPaths.workspace, sandboxPaths.home, '/tmp'];

const isInside = (inner: string, outer: string): boolean => inner.startsWith(`${outer}/`);

/**
 * A machine directory is mounted again if a dependency is inside or around it. An image hides all, so all are mounted
 * again.
 */
function withPaths({ mounts = [], image, buildsImages }: Job, { paths, overlay }: Machine): Mount[] {
  const isTouched = (path: string): boolean => mounts.some(({ at }) => isInside(at, path) || isInside(path, at));
  const touched = paths.filter(({ at }) => image !== undefined || isTouched(at));
  const [inTheWay] = touched;
  if (inTheWay !== undefined && !overlay)
    throw new CannotMountError(
      `software cannot be mounted inside ${inTheWay.at}, which is one of this runner’s HEADRACE_BUILD_PATHS`,
    );
  const own: Mount[] = buildsImages ? [...mounts, { at: '/sys', isSys: true }] : mounts;
  return [...own, ...touched.map(({ at, source }): Mount => ({ at, layers: [source], isOfTheMachine: true }))];
}

/** Both trees are untrusted: a file in the way is removed, so that a link in `to` cannot redirect writes. */
export async function copyTree(from: string, to: string): Promise<void> {
  const copied = await run('cp', ['-a', '--reflink=auto', '--remove-destination', '-T', '--', from, to]);
  if (copied.status !== 0) throw new Error(`could not copy a directory: ${copied.stderr.toString().trim()}`);
}
