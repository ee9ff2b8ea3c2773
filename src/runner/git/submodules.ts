import { lstat, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { expectSuccess, git } from './git.ts';
import type { Mirror } from './mirror.ts';
import type { Source } from './obtain.ts';
import { resolveSubmoduleUrl, type RepositoryAddress } from './repository-url.ts';

export interface Submodule {
  path: string;
  /** The commit that the outer repository names. */
  commit: string;
  address: RepositoryAddress;
}

/**
 * The submodules of a commit that may be fetched: over SSH with the project's key, like everything else. The
 * log says which are left out, and why.
 */
export async function submodulesOf(mirror: Mirror, source: Source, sha: string, tree: string): Promise<Submodule[]> {
  const declared = await readGitmodules(mirror, sha);
  if (declared.size === 0) return [];
  const commits = await linkedCommits(mirror, sha, Array.from(declared.keys()));
  const wanted: Submodule[] = [];
  for (const [path, url] of declared) {
    const commit = commits.get(path);
    if (commit === undefined) continue; // declared, but not there
    const address = resolveSubmoduleUrl(source.address, url);
    if (address === undefined) {
      source.narrator.line(
        `Submodule ${path} is left out: ${JSON.stringify(url)} is not an address of the form user@host:path. ` +
          'Submodules are fetched over SSH alone, with the key of the project.',
      );
    } else if (await isPlainFolder(tree, path)) {
      wanted.push({ path, commit, address });
    }
  }
  return wanted;
}

/** Path to URL. The names that `.gitmodules` gives are not used: as folders they have been an attack before. */
async function readGitmodules(mirror: Mirror, sha: string): Promise<Map<string, string>> {
  const args = ['config', `--blob=${sha}:.gitmodules`, '-z', '--get-regexp', String.raw`^submodule\..*\.(path|url)$`];
  const listed = await git(mirror.gitDir, args);
  const modules = new Map<string, { path?: string; url?: string }>();
  if (listed.status !== 0) return new Map(); // no such file, or nothing in it that git can read
  for (const entry of listed.stdout.toString().split('\0').filter(Boolean)) {
    const [key = '', ...value] = entry.split('\n');
    const [, name = '', field = ''] = /^submodule\.(.*)\.(path|url)$/.exec(key) ?? [];
    modules.set(name, { ...modules.get(name), [field]: value.join('\n') });
  }
  const declared = new Map<string, string>();
  for (const { path, url } of modules.values()) {
    if (path !== undefined && url !== undefined && !path.startsWith('-')) declared.set(path.replace(/\/+$/, ''), url);
  }
  return declared;
}

async function linkedCommits(mirror: Mirror, sha: string, paths: readonly string[]): Promise<Map<string, string>> {
  const listed = expectSuccess('listing submodules', await git(mirror.gitDir, ['ls-tree', '-z', sha, ...paths]));
  const entries = listed.stdout.toString().split('\0');
  return new Map(
    entries.flatMap((entry) => {
      const [, commit, path] = /^160000 commit ([0-9a-f]+)\t([\s\S]+)$/.exec(entry) ?? [];
      return commit === undefined || path === undefined ? [] : [[path, commit] as const];
    }),
  );
}

/** git made the folder for us; this makes sure that no link on the way to it leads elsewhere. */
async function isPlainFolder(tree: string, path: string): Promise<boolean> {
  const folder = join(tree, path);
  try {
    const [found, real, root] = await Promise.all([lstat(folder), realpath(folder), realpath(tree)]);
    return found.isDirectory() && real === join(root, path);
  } catch {
    return false;
  }
}
