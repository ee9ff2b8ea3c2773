import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, mkdtempSync, readdirSync } from 'node:fs';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { run } from '../../src/lib/processes.ts';

/**
 * One real PostgreSQL for the whole run, reached through a socket in its own folder. Test processes find its address
 * in their environment. It is not named HEADRACE_…, because the program refuses settings it does not know.
 */
let keeper: ChildProcess | undefined;

export async function globalSetup(): Promise<void> {
  const programs = postgresPrograms();
  const user = await serverUser();
  // Sockets have short paths: nothing longer than this in front of them.
  const folder = mkdtempSync(join(tmpdir(), 'pg-'));
  if (user.uid !== undefined && user.gid !== undefined) chownSync(folder, user.uid, user.gid);

  const data = join(folder, 'data');
  const initdb = ['-D', data, '-U', 'tests', '-A', 'trust', '-E', 'UTF8', '--no-locale', '--no-sync'];
  const { status, stderr } = await run(join(programs, 'initdb'), initdb, { ...user, cwd: folder });
  if (status !== 0) throw new Error(`initdb failed: ${stderr.toString()}`);

  // The shell outlives this process by the moment it takes to clean up, however this process ended: its input closes.
  const script = '"$1/postgres" -D "$2/data" -k "$2" $3 & cat >/dev/null; kill -INT $!; wait $!; rm -rf "$2"';
  const settings =
    '-c listen_addresses= -c fsync=off -c synchronous_commit=off -c full_page_writes=off -c max_connections=400';
  keeper = spawn('sh', ['-c', script, 'sh', programs, folder, settings], {
    ...user,
    cwd: folder,
    detached: true, // so that Ctrl-C reaches the tests and not the database under them
    stdio: ['pipe', 'ignore', 'pipe'],
  });
  await ready(keeper);
  // The run ends when the tests have; only then is the teardown called.
  keeper.unref();
  for (const stream of [keeper.stdin, keeper.stderr]) (stream as Socket | null)?.unref();
  process.env.TEST_POSTGRES_URL = `postgres://tests@localhost/postgres?host=${encodeURIComponent(folder)}`;
}

export async function globalTeardown(): Promise<void> {
  if (!keeper || keeper.exitCode !== null) return;
  const gone = once(keeper, 'exit');
  keeper.stdin?.end();
  await gone;
}

async function ready(server: ChildProcess): Promise<void> {
  let said = '';
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.stderr?.on('data', (chunk: Buffer) => {
    said = (said + chunk.toString()).slice(-10_000);
    if (said.includes('ready to accept connections')) resolve();
  });
  server.once('exit', () => reject(new Error(`PostgreSQL did not start: ${said}`)));
  server.once('error', reject);
  await promise;
}

function postgresPrograms(): string {
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
