import { lstatSync, mkdirSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { run } from '../lib/processes.ts';
import type { Mount } from './sandbox/types.ts';

/**
 * Mounts that keep git's own files as they are while a suite writes to the tree around them. Git runs programs that these
 * files name (hooks, monitors, filters), outside of every sandbox and as the developer; also those of a submodule, whose
 * status it asks for from above.
 *
 * So each `.git`, a folder or the file of a work tree or a submodule, is read-only. The directories on the way to it are
 * mounts too, because these cannot be renamed: else another directory could take their place, with a `.git` of its own. A
 * submodule that is not there yet is a read-only directory, and a tree that is no repository has an empty `.git`.
 */
export interface GuardedGit extends Disposable {
  mounts: Mount[];
}

const mostPlaces = 200;

export async function guardGit(tree: string, workspace: string): Promise<GuardedGit> {
  const submodules = await submodulesIn(tree);
  const found = await run('find', ['-P', tree, '-xdev', '-name', '.git', '-prune', '-printf', String.raw`%P\0`]);
  if (found.status !== 0) throw new Error(`the tree cannot be looked through: ${found.stderr.toString().trim()}`);
  const places = new Set(found.stdout.toString().split('\0').slice(0, -1));
  const isRepository = places.has('.git');
  const mounts = new Map<string, Mount>();
  const put = (path: string, how: Omit<Mount, 'at'>): void => {
    const at = join(workspace, path);
    mounts.set(at, { at, ...how });
    if (mounts.size > mostPlaces) throw new Error(`there are more than ${mostPlaces} places of git in the tree`);
  };
  const holdWayTo = (path: string): void => {
    const parts = path.split('/').slice(0, -1);
    parts.forEach((_, at) => {
      const way = parts.slice(0, at + 1).join('/');
      put(way, { writable: join(tree, way) });
    });
  };
  for (const path of places) {
    const kind = lstatSync(join(tree, path));
    if (kind.isSymbolicLink()) throw new Error(`${path} is a link, which cannot be kept from being changed`);
    holdWayTo(path);
    put(path, kind.isDirectory() ? { layers: [join(tree, path)] } : { file: join(tree, path) });
  }
  for (const path of submodules) {
    if (places.has(join(path, '.git'))) continue;
    mkdirSync(join(tree, path), { recursive: true }); // git has an empty directory there
    holdWayTo(path);
    put(path, { layers: [join(tree, path)] });
  }
  if (!isRepository) {
    mkdirSync(join(tree, '.git'));
    put('.git', { layers: [join(tree, '.git')] });
  }
  return {
    mounts: [...mounts.values()],
    [Symbol.dispose]: () => {
      if (!isRepository) rmdirSync(join(tree, '.git'));
    },
  };
}

/** The places of submodules, also of those inside others. Only the index is read: nothing that git could run is run. */
async function submodulesIn(tree: string, below = ''): Promise<string[]> {
  const place = join(tree, below);
  if (!lstatSync(join(place, '.git'), { throwIfNoEntry: false })) return [];
  const listing = ['-C', place, '-c', 'core.fsmonitor=false', 'ls-files', '--stage', '-z'];
  const { status, stdout, stderr } = await run('git', listing, { maxOutput: Infinity });
  if (status !== 0) throw new Error(`git cannot list the files of ${place}: ${stderr.toString().trim()}`);
  const all: string[] = [];
  for (const [, path = ''] of stdout.toString().matchAll(/(?<=^|\0)160000 [0-9a-f]+ \d\t([^\0]*)\0/g)) {
    const submodule = join(below, path);
    all.push(submodule, ...(await submodulesIn(tree, submodule)));
  }
  return all;
}
