import { readFileSync } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { userInfo } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { run } from '../../shared/lib/processes.ts';
import { hasMachineNumbers } from '../../runner/sandbox/identity.ts';
import { present } from '../../runner/sandbox/machine.ts';
import { administers, mayGainPrivileges } from '../../runner/sandbox/surroundings.ts';
import { idsOfRun } from '../../runner/sandbox/types.ts';
import { enterOwnNamespace } from './own-namespace.ts';

/*
 * The user IDs that /etc/subuid and /etc/subgid give to a runner's user.
 *
 * Only the setuid programs newuidmap and newgidmap may assign them, and only to a user namespace. So an unprivileged
 * runner enters one as a whole at its start. There it is root over these IDs and its own files, and works mostly like a
 * runner that is root (runner/sandbox/own-ids.ts).
 */

/** A line of /etc/subuid: IDs from `first` on. */
export interface Subordinate {
  first: number;
  count: number;
}

export interface SubordinateIds {
  uids: Subordinate;
  gids: Subordinate;
}

export type IdFiles = Record<'subuid' | 'subgid' | 'passwd' | 'group', string>;

/** More than any machine has runners. A smaller map is faster. */
const mostRanges = 256;

export const noPrivileges = 'newuidmap has no effect here, because this process may not gain privileges (no_new_privs)';

/** Replaces this process with a program in a user namespace with these IDs, or returns why there are none. */
export async function enterOwnIds(): Promise<string | undefined> {
  if (process.getuid?.() === 0) return administers() ? undefined : enterOwnNamespace();
  if (!mayGainPrivileges()) return noPrivileges;
  const found = ownEntries();
  if (typeof found === 'string') return found;
  for (const program of ['newuidmap', 'newgidmap'])
    if (!(await present(program))) return `${program} not found. Install with: apt-get install uidmap`;
  if ((await freeRange(found)) === undefined)
    return 'all user IDs that /etc/subuid gives to this user are in use, by another runner or another program';
  const { uids, gids } = found;
  // The older form, which newer versions of unshare read too.
  const maps = [`--map-users=${uids.first},1,${uids.count}`, `--map-groups=${gids.first},1,${gids.count}`];
  const command = ['unshare', '--user', '--map-root-user', ...maps, '--'];
  const [program = '', ...args] = command;
  const tried = await run(program, [...args, 'true']);
  if (tried.status !== 0) return lastLine(tried.stderr.toString()) || `unshare ended with ${tried.status}`;
  const same = [process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  process.execve?.('/usr/bin/env', ['env', ...command, ...same], process.env);
  return 'this Node cannot replace itself with another program';
}

const text = (name: keyof IdFiles): string => readFileSync(`/etc/${name}`, 'utf8');

export function ownEntries(): SubordinateIds | string {
  try {
    const { username, uid } = account();
    const files = { subuid: text('subuid'), subgid: text('subgid'), passwd: text('passwd'), group: text('group') };
    return subordinateIds({ name: username, id: uid }, files);
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

function account(): { username: string; uid: number } {
  try {
    return userInfo();
  } catch {
    throw new Error(`the user ${process.getuid?.()} has no account here (/etc/passwd)`);
  }
}

/** At least one whole range of IDs, or the reason why there is none. */
export function subordinateIds(user: { name: string; id: number }, files: IdFiles): SubordinateIds | string {
  const uids = entryOf(user, 'subuid', files.subuid, files.passwd);
  if (typeof uids === 'string') return uids;
  const gids = entryOf(user, 'subgid', files.subgid, files.group);
  if (typeof gids === 'string') return gids;
  const count = Math.min(uids.count, gids.count);
  return { uids: { ...uids, count }, gids: { ...gids, count } };
}

/** The first usable entry, or why there is none. An entry is unusable if part of it belongs to another user. */
function entryOf(
  { name, id }: { name: string; id: number },
  file: 'subuid' | 'subgid',
  text: string,
  accounts: string,
): Subordinate | string {
  const lines = text.split('\n').map((line) => /^([^:]+):(\d{1,10}):(\d{1,10})$/.exec(line.trim()));
  const entries = lines.flatMap((found) =>
    found ? [{ whose: found[1] ?? '', first: Number(found[2]), count: Number(found[3]) }] : [],
  );
  const isMine = ({ whose }: { whose: string }): boolean => whose === name || whose === String(id);
  const others = entries.filter((entry) => !isMine(entry));
  const known = accounts.split('\n').map((line) => line.split(':'));
  let why = `/etc/${file} gives no IDs to ${name}`;
  for (const entry of entries.filter(isMine)) {
    const count = Math.min(Math.floor(entry.count / idsOfRun), mostRanges) * idsOfRun;
    const last = entry.first + count - 1;
    const holds = (other: number): boolean => other >= entry.first && other <= last;
    const account = known.find((fields) => /^\d{1,10}$/.test(fields[2] ?? '') && holds(Number(fields[2])));
    const other = others.find(({ first, count: size }) => first <= last && first + size > entry.first);
    const written = `/etc/${file} gives ${name} ${entry.count} IDs from ${entry.first} on`;
    if (count === 0) why = `${written}, and builds need ${idsOfRun}`;
    else if (last >= 2 ** 32 - 1) why = `${written}, and there are no such IDs`;
    else if (account) why = `${written}, and ${account[2]} of them is ${account[0]} on this machine`;
    else if (other) why = `${written}, and some of them to ${other.whose} as well`;
    else if (hasMachineNumbers(entry.first, last)) why = `${written}, which a runner that is root uses`;
    else return { first: entry.first, count };
  }
  return why;
}

export interface Range {
  uid: number;
  gid: number;
}

export function rangesOf({ uids, gids }: SubordinateIds): Range[] {
  const count = Math.floor(Math.min(uids.count, gids.count) / idsOfRun);
  return Array.from({ length: count }, (_, at) => ({
    uid: uids.first + at * idsOfRun,
    gid: gids.first + at * idsOfRun,
  }));
}

/** Undefined if another process has the range. Listening under its name reserves it until this process ends or dies. */
export async function holdRange({ uid }: Range): Promise<Server | undefined> {
  const server = createServer().unref();
  const { promise, resolve } = Promise.withResolvers<Server | undefined>();
  server.once('error', () => resolve(undefined));
  server.listen(`\0headrace-user-ids-${uid}`, () => resolve(server));
  return promise;
}

/** For the processes of a killed runner. */
const endWithinMs = 10_000;

async function freeRange(ids: SubordinateIds): Promise<Range | undefined> {
  for (const range of rangesOf(ids)) {
    const held = await holdRange(range);
    if (!held) continue;
    try {
      const deadline = performance.now() + endWithinMs;
      let isInhabited = await inhabited(range);
      for (; isInhabited && performance.now() < deadline; isInhabited = await inhabited(range)) await pause(50);
      if (!isInhabited) return range;
    } finally {
      held.close();
    }
  }
  return undefined;
}

async function inhabited({ uid: first }: Range): Promise<boolean> {
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    const { uid } = await stat(`/proc/${pid}`).catch(() => ({ uid: -1 })); // it has just ended
    if (uid >= first && uid < first + idsOfRun) return true;
  }
  return false;
}

function lastLine(text: string): string {
  return text.trim().split('\n').at(-1) ?? '';
}
