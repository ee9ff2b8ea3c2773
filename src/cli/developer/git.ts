import { execFile } from 'node:child_process';
import { realpath } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { isSameRepository, locationOf, repositoryKey } from '../../shared/domain/git-address.ts';
import { pathExists } from '../../shared/lib/path-exists.ts';

const execute = promisify(execFile);

/** Undefined outside a repository. A folder of an untrusted clone may pose as a bare one, so only `.git` counts. */
async function git(cwd: string, ...args: string[]): Promise<string | undefined> {
  const how = ['-c', 'safe.bareRepository=explicit', '-c', 'core.fsmonitor=false'];
  const ended = await execute('git', [...how, ...args], { cwd, timeout: 10_000 }).catch(() => undefined);
  return ended?.stdout.trim();
}

/** The branch, or the commit if HEAD is detached. */
export async function currentRef(cwd: string): Promise<string | undefined> {
  return (await git(cwd, 'symbolic-ref', '--quiet', '--short', 'HEAD')) ?? git(cwd, 'rev-parse', '--verify', 'HEAD');
}

/** As `origin` had it when it was cloned. */
export async function defaultBranchOf(cwd: string): Promise<string | undefined> {
  const ref = await git(cwd, 'symbolic-ref', '--quiet', 'refs/remotes/origin/HEAD');
  return ref?.replace(/^refs\/remotes\/origin\//, '');
}

export async function currentCommit(cwd: string): Promise<string | undefined> {
  return git(cwd, 'rev-parse', '--verify', 'HEAD');
}

/** The nearest folder with a `.git`: a repository's configuration may name another folder, with files outside it. */
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

/** `origin` first. */
export async function remotes(cwd: string): Promise<string[]> {
  const text = await git(cwd, 'config', '--get-regexp', String.raw`^remote\..*\.url$`);
  const pairs = (text ?? '').split('\n').filter((line) => line !== '');
  const sorted = [...pairs.filter(isOrigin), ...pairs.filter((line) => !isOrigin(line))];
  return sorted.map((line) => line.slice(line.indexOf(' ') + 1));
}

/** The protocol does not count. A path on this machine has no host. */
export function isRemoteOf(remote: string, repository: string): boolean {
  if (isSameRepository(remote, repository)) return true;
  const [here, there] = [repositoryKey(remote), repositoryKey(repository)];
  return locationOf(remote) === undefined && here !== '/' && there.slice(there.indexOf('/')) === here;
}
