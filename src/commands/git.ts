import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { parseAddress, type RepositoryAddress } from '../domain/repository-address.ts';

const execute = promisify(execFile);

/** Runs git in the folder. The result is undefined where there is no repository. */
async function git(cwd: string, ...args: string[]): Promise<string | undefined> {
  const ended = await execute('git', args, { cwd, timeout: 10_000 }).catch(() => undefined);
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

/** The top of the work tree. */
export async function topOf(cwd: string): Promise<string | undefined> {
  return (await git(cwd, 'rev-parse', '--show-toplevel')) || undefined;
}

const isOrigin = (line: string): boolean => line.startsWith('remote.origin.url ');

/** The addresses of the remotes, `origin` first. */
export async function remotes(cwd: string): Promise<string[]> {
  const text = await git(cwd, 'config', '--get-regexp', String.raw`^remote\..*\.url$`);
  const pairs = (text ?? '').split('\n').filter((line) => line !== '');
  const sorted = [...pairs.filter(isOrigin), ...pairs.filter((line) => !isOrigin(line))];
  return sorted.map((line) => line.slice(line.indexOf(' ') + 1));
}

/** The host and the path of a repository, whatever the protocol. A path on this machine has no host. */
function addressOf(text: string): RepositoryAddress {
  const { host, path } = parseAddress(text) ?? { host: '', path: text };
  return { host, path: path.replace(/^\/*(?:~\/)?/, '').replace(/\/*(?:\.git)?\/*$/, '') };
}

export function isSameRepository(remote: string, repository: string): boolean {
  const [here, there] = [addressOf(remote), addressOf(repository)];
  return here.path !== '' && here.path === there.path && (here.host === there.host || here.host === '');
}
