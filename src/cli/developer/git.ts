import { execFile } from 'node:child_process';
import { realpath } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { isSameRepository, locationOf, repositoryKey } from '../../shared/domain/git-address.ts';
import { pathExists } from '../../shared/lib/path-exists.ts';

const execute = promisify(execFile);

/**
 * Runs git in the folder. The result is undefined where there is no repository. A folder of a clone can look like a bare
 * repository, with a configuration of a stranger, so only one that is in `.git` counts.
 */
async function git(cwd: string, ...args: string[]): Promise<string | undefined> {
  const how = ['-c', 'safe.bareRepository=explicit', '-c', 'core.fsmonitor=false'];
  const ended = await execute('git', [...how, ...args], { cwd, timeout: 10_000 }).catch(() => undefined);
  return ended?.stdout.trim();
}

/** The branch that is checked out, or the commit where there is no branch. */
export async function currentRef(cwd: string): Promise<string | undefined> {
  return (await git(cwd, 'symbolic-ref', '--quiet', '--short', 'HEAD')) ?? git(cwd, 'rev-parse', '--verify', 'HEAD');
}

/** The commit that is checked out. */
export async function currentCommit(cwd: string): Promise<string | undefined> {
  return git(cwd, 'rev-parse', '--verify', 'HEAD');
}

/**
 * The top of the work tree: the nearest folder with a `.git`. A repository's own configuration may name another folder,
 * whose files are none of its own.
 */
export async function topOf(cwd: string): Promise<string | undefined> {
  const top = await git(cwd, 'rev-parse', '--show-toplevel');
  let nearest = await realpath(cwd);
  while (!(await pathExists(join(nearest, '.git')))) {
    if (nearest === dirname(nearest)) return undefined;
    nearest = dirname(nearest);
  }
  return top === nearest ? top : undefined;
}

const isOrigin = (line: string): boolean => line.startsWith('remote.origin.url ');

/** The addresses of the remotes, `origin` first. */
export async function remotes(cwd: string): Promise<string[]> {
  const text = await git(cwd, 'config', '--get-regexp', String.raw`^remote\..*\.url$`);
  const pairs = (text ?? '').split('\n').filter((line) => line !== '');
  const sorted = [...pairs.filter(isOrigin), ...pairs.filter((line) => !isOrigin(line))];
  return sorted.map((line) => line.slice(line.indexOf(' ') + 1));
}

/** Whether a remote is this repository, whatever the protocol. A path on this machine has no host. */
export function isRemoteOf(remote: string, repository: string): boolean {
  if (isSameRepository(remote, repository)) return true;
  const [here, there] = [repositoryKey(remote), repositoryKey(repository)];
  return locationOf(remote) === undefined && here !== '/' && there.slice(there.indexOf('/')) === here;
}
