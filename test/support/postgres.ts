import { spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { appendFileSync, chownSync, closeSync, mkdtempSync, openSync, readdirSync, readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Client } from 'pg';
import { run } from '../../src/shared/lib/processes.ts';

/** A real PostgreSQL with a socket in its own folder. It ends with the process that started it. */
export interface Postgres {
  url: string;
  /** Removed with the server, however this process ends. */
  folder: string;
  /** The address of a new empty database. */
  emptyUrl(): Promise<string>;
  /**
   * Ends it with this signal: SIGINT ends running statements, SIGQUIT does no clean-up, SIGKILL kills the postmaster
   * only.
   */
  stop(signal: 'SIGINT' | 'SIGQUIT' | 'SIGKILL'): Promise<void>;
  /** Starts it again, on the same data. */
  start(): Promise<void>;
  close(): Promise<void>;
}

/**
 * Faster settings that lose data in a power failure, which no test has. The upkeep of tables is off because it goes
 * through hundreds of databases, one of each test.
 */
export const hasty = ['fsync=off', 'synchronous_commit=off', 'full_page_writes=off', 'autovacuum=off'];

const logName = 'log';

/** What the server of this database has logged. */
export function logOf(url: string): string {
  return readFileSync(join(new URL(url).searchParams.get('host') ?? '', logName), 'utf8');
}

/** Where it runs, if not here, and what it begins with, if not with nothing. */
export interface PostgresPlace {
  /** What a command begins with that runs there; others on its network may connect. */
  within?: readonly string[];
  /** The address of another one there, which it follows as its standby. */
  standbyOf?: string;
}

export async function startPostgres(
  settings: readonly string[] = [],
  { within, standbyOf }: PostgresPlace = {},
): Promise<Postgres> {
  const programs = postgresPrograms();
  const user = await serverUser();
  // The path of a socket must be short.
  const folder = mkdtempSync(join(tmpdir(), 'pg-'));
  if (user.uid !== undefined && user.gid !== undefined) chownSync(folder, user.uid, user.gid);
  const data = join(folder, 'data');
  const initdb = ['initdb', '-D', data, '-U', 'tests', '-A', 'trust', '-E', 'UTF8', '--no-locale', '--no-sync'];
  const copy = ['pg_basebackup', '-D', data, '-U', 'tests', '-h', standbyOf ?? '', '-R', '-c', 'fast', '--no-sync'];
  const commandFor = (name: string, args: readonly string[]): [string, string[]] => {
    const asUser = [`--reuid=${user.uid}`, `--regid=${user.gid}`, '--clear-groups'];
    const [first = '', ...words] = [
      ...(within ? [...within, 'setpriv', ...asUser] : []),
      join(programs, name),
      ...args,
    ];
    return [first, words];
  };
  // Who enters a namespace is root, and becomes the other user there.
  const owner = within ? {} : user;
  const [maker = '', ...making] = standbyOf === undefined ? initdb : copy;
  const { status, stderr } = await run(...commandFor(maker, making), { ...owner, cwd: folder });
  if (status !== 0) throw new Error(`${maker} failed: ${stderr.toString()}`);
  const neighbours = 'host all all samenet trust\nhost replication all samenet trust\n';
  if (within && standbyOf === undefined) appendFileSync(join(data, 'pg_hba.conf'), neighbours);

  // The shell cleans up after this process, however it ended: the shell's input closes then.
  const cleaning =
    'cat >/dev/null; pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null) && kill -INT "$pid" && while kill -0 "$pid"; do sleep 0.05; done; rm -rf "$1"';
  const options = { ...user, cwd: folder, detached: true }; // so that Ctrl-C reaches the tests and not the database
  const cleaner = spawn('sh', ['-c', cleaning, 'sh', folder], { ...options, stdio: ['pipe', 'ignore', 'ignore'] });
  letGo(cleaner);

  const log = join(folder, logName);
  const written = openSync(log, 'a');
  // Which database and which process a line of the log is about.
  const always = [`listen_addresses=${within ? '*' : ''}`, 'max_connections=400', 'log_line_prefix=%d %p '];
  const given = [...always, ...settings].flatMap((setting) => ['-c', setting]);
  let server: ChildProcess | undefined;
  const start = async (): Promise<void> => {
    // After the postmaster was killed, its processes may still be ending. Until then a new postmaster refuses to start.
    for (let tries = 1; !server; tries += 1) {
      const before = readFileSync(log).length;
      const stdio = ['ignore' as const, 'ignore' as const, written];
      const [first, words] = commandFor('postgres', ['-D', data, '-k', folder, ...given]);
      const child = spawn(first, words, { ...options, ...(within && { uid: 0, gid: 0 }), stdio });
      const said = await ready(child, () => readFileSync(log).subarray(before).toString());
      if (said === undefined) server = child;
      else if (tries === 100 || !/is still in use|lock file/.test(said))
        throw new Error(`PostgreSQL did not start: ${said}`);
      else await pause(100);
    }
    letGo(server);
  };
  await start();
  const url = `postgres://tests@localhost/postgres?host=${encodeURIComponent(folder)}`;
  return {
    url,
    folder,
    emptyUrl: () => newDatabase(url),
    async stop(signal) {
      if (!server) return;
      const gone = once(server, 'exit');
      server.kill(signal);
      await gone;
      server = undefined;
    },
    start,
    async close() {
      if (cleaner.exitCode !== null) return;
      closeSync(written);
      const gone = once(cleaner, 'exit');
      cleaner.ref();
      cleaner.stdin?.end();
      await gone;
    },
  };
}

/** The address of a new database, or of a copy of one. It is removed with the server, if not before. */
export async function newDatabase(server: string, original = 'template1'): Promise<string> {
  // A random name and not this process's id: a whole run starts so many processes that ids are reused.
  const name = `test_${randomBytes(8).toString('hex')}`;
  await command(server, `create database ${name} template ${original}`);
  const url = new URL(server);
  url.pathname = `/${name}`;
  return url.href;
}

/** Removes a database, whoever is connected to it. */
export async function dropDatabase(server: string, url: string): Promise<void> {
  await command(server, `drop database if exists ${new URL(url).pathname.slice(1)} with (force)`);
}

async function command(server: string, statement: string): Promise<void> {
  const client = new Client(server);
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end(); // an open connection would keep the test file from ending
  }
}

/** Undefined when it takes connections; its output when it ended instead. */
async function ready(server: ChildProcess, said: () => string): Promise<string | undefined> {
  await once(server, 'spawn');
  for (;;) {
    if (/ready to accept (read-only )?connections/.test(said())) return undefined;
    if (server.exitCode !== null || server.signalCode !== null) return said().slice(-10_000);
    await pause(10);
  }
}

/** The server is stopped when the tests have ended. */
function letGo(child: ChildProcess): void {
  child.unref();
  (child.stdin as Socket | null)?.unref();
}

export function postgresPrograms(): string {
  const root = '/usr/lib/postgresql';
  const newest = readdirSync(root).toSorted((a, b) => Number(b) - Number(a))[0];
  if (newest === undefined) throw new Error(`there is no PostgreSQL under ${root}`);
  return join(root, newest, 'bin');
}

/** PostgreSQL refuses to run as root. */
async function serverUser(): Promise<{ uid?: number; gid?: number }> {
  if (process.getuid?.() !== 0) return {};
  for (const name of ['postgres', 'nobody']) {
    const [uid, gid] = await Promise.all(['-u', '-g'].map((flag) => run('id', [flag, name])));
    if (uid?.status === 0 && gid?.status === 0) return { uid: Number(uid.stdout), gid: Number(gid.stdout) };
  }
  throw new Error('there is no unprivileged user to run PostgreSQL as');
}
