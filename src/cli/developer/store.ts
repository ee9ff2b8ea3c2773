import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { Failure } from '../client/failure.ts';
import { codeOf } from '../../shared/lib/error-code.ts';
import type { ServerAddress } from '../client/server.ts';

/** Only the user can read the file, because it contains tokens. */
export interface SignedIn extends ServerAddress {
  token: string;
  email: string;
}

interface Stored {
  /** The server of commands without an address: the last one signed in to. */
  current: string | undefined;
  servers: SignedIn[];
}

/** The user has no HOME and no account, as in some containers. */
class Homeless extends Failure {}

/** As in XDG: for settings, or for files that can be fetched again. */
export function folderOf(env: NodeJS.ProcessEnv, kind: 'config' | 'cache'): string {
  const variable = `XDG_${kind.toUpperCase()}_HOME`;
  const { [variable]: chosen = '', HOME: home = '' } = env;
  // XDG: a relative path is ignored.
  if (chosen.startsWith('/')) return join(chosen, 'headrace');
  try {
    return join(home === '' ? userInfo().homedir : home, `.${kind}`, 'headrace');
  } catch {
    throw new Homeless('refused', `This user has no home folder. Set HOME or ${variable} to a folder.`);
  }
}

function fileOf(env: NodeJS.ProcessEnv): string {
  return join(folderOf(env, 'config'), 'servers.json');
}

export function readStore(env: NodeJS.ProcessEnv): Stored {
  let text: string;
  try {
    text = readFileSync(fileOf(env), 'utf8');
  } catch (error) {
    if (error instanceof Homeless || ['ENOENT', 'ENOTDIR'].includes(codeOf(error)))
      return { current: undefined, servers: [] };
    throw new Failure('refused', `Cannot read ${fileOf(env)}: ${(error as Error).message}`);
  }
  try {
    const { current, servers } = JSON.parse(text) as Stored;
    if (!Array.isArray(servers)) throw new Error('it has no servers');
    return { current, servers };
  } catch {
    throw new Failure('refused', `${fileOf(env)} cannot be read. Remove it and sign in again: headrace login`);
  }
}

/** Written under another name and renamed, so that no reader gets half of it. Never readable by other users. */
function writeStore(env: NodeJS.ProcessEnv, stored: Stored): void {
  mkdirSync(folderOf(env, 'config'), { recursive: true, mode: 0o700 });
  const file = fileOf(env);
  const fresh = `${file}.${process.pid}`;
  rmSync(fresh, { force: true });
  writeFileSync(fresh, `${JSON.stringify(stored, undefined, 2)}\n`, { mode: 0o600, flag: 'wx' });
  renameSync(fresh, file);
}

export function remember(env: NodeJS.ProcessEnv, server: SignedIn): void {
  const { servers } = readStore(env);
  writeStore(env, { current: server.url, servers: [...servers.filter(({ url }) => url !== server.url), server] });
}

export function forget(env: NodeJS.ProcessEnv, url: string): void {
  const { current, servers } = readStore(env);
  const left = servers.filter((server) => server.url !== url);
  writeStore(env, { current: current === url ? left.at(-1)?.url : current, servers: left });
}
