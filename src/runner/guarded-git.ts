import { lstatSync, mkdirSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { run } from '../shared/lib/processes.ts';
import type { Mount } from './sandbox/types.ts';

/**
 * Read-only mounts of git's own files while a suite writes to the tree. Outside the sandbox, git later runs programs
 * that these files name (hooks, filters), also for submodules. The directories above each `.git` are mounts too,
 * because a mount cannot be renamed. Otherwise the suite could replace such a directory by one with another `.git`.
 */
export interface GuardedGit extends Disposable {
  mounts: Mount[];
}

const mostMounts = 200;

export async function guardGit(tree: string, workspace: string): Promise<GuardedGit> {
  const submodules = await submodulesIn(tree);
  const found = await run('find', ['-P', tree, '-xdev', '-name', '.git', '-prune', '-printf', String.raw`%P\0`]);
  if (found.status !== 0) throw new Error(`the tree cannot be looked through: ${found.stderr.toString().trim()}`);
  const gitPaths = new Set(found.stdout.toString().split('\0').slice(0, -1));
  const isRepository = gitPaths.has('.git');
  const mounts = new Map<string, Mount>();
  const put = (path: string, how: Omit<Mount, 'at'>): void => {
    const at = join(workspace, path);
    mounts.set(at, { at, ...how });
    if (mounts.size > mostMounts) throw new Error(`there are more than ${mostMounts} places of git in the tree`);
  };
  const mountParentsOf = (path: string): void => {
    const parts = path.split('/').slice(0, -1);
    parts.forEach((_, at) => {
      const parent = parts.slice(0, at + 1).join('/');
      put(parent, { writable: join(tree, parent) });
    });
  };
  for (const path of gitPaths) {
    const kind = lstatSync(join(tree, path));
    if (kind.isSymbolicLink()) throw new Error(`${path} is a link, which cannot be kept from being changed`);
    mountParentsOf(path);
    put(path, kind.isDirectory() ? { layers: [join(tree, path)] } : { file: join(tree, path) });
  }
  for (const path of submodules) {
    if (gitPaths.has(join(path, '.git'))) continue;
    mkdirSync(join(tree, path), { recursive: true }); // git expects an empty directory there
    mountParentsOf(path);
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

/** Includes nested submodules. Only the index is read, so git runs no program that the tree names. */
async function submodulesIn(tree: string, below = ''): Promise<string[]> {
  const repository = join(tree, below);
  if (!lstatSync(join(repository, '.git'), { throwIfNoEntry: false })) return [];
  const listing = ['-C', repository, '-c', 'core.fsmonitor=false', 'ls-files', '--stage', '-z'];
  const { status, stdout, stderr } = await run('git', listing, { maxOutput: Infinity });
  if (status !== 0) throw new Error(`git cannot list the files of ${repository}: ${stderr.toString().trim()}`);
  const all: string[] = [];
  for (const [, path = ''] of stdout.toString().matchAll(/(?<=^|\0)160000 [0-9a-f]+ \d\t([^\0]*)\0/g)) {
    const submodule = join(below, path);
    all.push(submodule, ...(await submodulesIn(tree, submodule)));
  }
  return all;
}
