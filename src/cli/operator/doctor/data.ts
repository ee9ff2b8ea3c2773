import { X509Certificate } from 'node:crypto';
import { accessSync, constants, existsSync, readFileSync, statSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { isSocketPath, type Config } from '../../../shared/config.ts';
import { unknownMigrations } from '../../../server/db/migrate.ts';
import { formatBytes } from '../../../shared/lib/byte-units.ts';
import { codeOf, messageOf } from '../../../shared/lib/error-code.ts';
import { addressOfServer } from '../folder-lock.ts';
import { blobLocation, databaseUrl, masterKeyFile } from '../store.ts';
import { artifactOrigin } from './artifact-origin.ts';
import { missing, ok, warning, type Check } from './check.ts';

const firstStart = 'the first start creates it';

export async function checkData(config: Config): Promise<Check[]> {
  return [
    dataFolder(config),
    await disk(config),
    clock(config),
    await port(config),
    await database(config),
    await blobs(config),
    certificate(config),
    await artifactOrigin(config),
    masterKey(config),
  ];
}

function nearest(folder: string): string {
  return existsSync(folder) || dirname(folder) === folder ? folder : nearest(dirname(folder));
}

function dataFolder({ data_dir: folder }: Config): Check {
  const there = nearest(folder);
  try {
    if (!statSync(there).isDirectory()) throw new Error(`${there} is not a folder`);
    accessSync(there, constants.W_OK | constants.X_OK);
    return ok('data folder', there === folder ? folder : `${folder}: ${firstStart}`);
  } catch (error) {
    return missing('data folder', messageOf(error), 'no server can start on it', 'choose another one with --data-dir');
  }
}

const megabyte = 1024 * 1024;

async function disk({ data_dir: folder, disk_reserve: reserve }: Config): Promise<Check> {
  const { bavail, bsize, blocks } = await statfs(nearest(folder));
  const free = bavail * bsize;
  const kept = reserve === undefined ? Math.min((blocks * bsize) / 20, 1024 * megabyte) : reserve * megabyte;
  const found = `${formatBytes(free)} free of ${formatBytes(blocks * bsize)}`;
  const mend = `free some on the disk of ${nearest(folder)}, or choose another folder with --data-dir`;
  if (free < 32 * megabyte) return missing('disk', found, 'no server can start on it', mend);
  if (free < kept)
    return warning('disk', found, 'it is less than the reserve: logs and files of builds wait for free space', mend);
  return ok('disk', found);
}

/** Asks no other machine: a clock before the newest file's time is wrong. */
function clock({ data_dir: folder }: Config): Check {
  const files = [join(folder, 'headrace.db'), join(folder, 'tls', 'cert.pem'), process.execPath];
  const newest = Math.max(...files.filter((file) => existsSync(file)).map((file) => statSync(file).mtimeMs));
  const now = new Date();
  if (newest <= now.getTime() + 120_000) return ok('clock', now.toISOString());
  const cost = 'certificates, schedules and expiry depend on it';
  const found = `it is ${now.toISOString()}, but there are files of ${new Date(newest).toISOString()}`;
  return warning('clock', found, cost, 'set the clock: timedatectl set-ntp true');
}

async function port({ data_dir: folder, host, port: number }: Config): Promise<Check> {
  const own = addressOfServer(folder);
  if (own !== undefined) return ok('port', `the server of this data folder listens on ${own}`);
  if (isSocketPath(host)) return ok('port', `it listens on ${host}`);
  const server = createServer();
  const { promise, resolve } = Promise.withResolvers<string>();
  server.once('error', (error) => resolve(codeOf(error) || messageOf(error)));
  server.listen(number, host, () => resolve(''));
  const code = await promise;
  server.close();
  const found = `${number} of ${host}`;
  if (code === '') return ok('port', `${found} is free`);
  const mend = code === 'EADDRNOTAVAIL' ? 'choose another address with --host' : 'choose another one with --port';
  return missing('port', `${found} cannot be opened (${code})`, 'no server can start on it', mend);
}

async function database(config: Config): Promise<Check> {
  const url = databaseUrl(config);
  const isFile = url.startsWith('/');
  if (isFile && !existsSync(url)) return ok('database', firstStart);
  try {
    const names = isFile ? migrationsInFile(url) : await migrationsInPostgres(url);
    const unknown = unknownMigrations(names);
    if (unknown.length > 0)
      return missing(
        'database',
        `it is newer than this program: ${unknown.join(', ')}`,
        'no server can start on it',
        'start a newer headrace',
      );
    return ok('database', isFile ? `SQLite, ${formatBytes(statSync(url).size)}` : 'PostgreSQL answers');
  } catch (error) {
    const mend = isFile
      ? 'start as its owner, or restore a backup: headrace restore FILE'
      : 'start it, or correct HEADRACE_DATABASE_URL';
    return missing('database', messageOf(error), 'no server can start', mend);
  }
}

/** An unused file is opened as immutable. Otherwise SQLite would put lock files next to it. */
function migrationsInFile(file: string): string[] {
  const address = pathToFileURL(file);
  if (!existsSync(`${file}-wal`)) address.searchParams.set('immutable', '1');
  const db = new DatabaseSync(address, { readOnly: true });
  try {
    if (!db.prepare("select 1 from sqlite_master where name = 'applied_migrations'").get()) return [];
    return db
      .prepare('select name from applied_migrations')
      .all()
      .map(({ name }) => String(name));
  } finally {
    db.close();
  }
}

async function migrationsInPostgres(connectionString: string): Promise<string[]> {
  const { default: pg } = await import('pg');
  const client = new pg.Client({ connectionString, connectionTimeoutMillis: 10_000, query_timeout: 10_000 });
  client.on('error', () => {}); // the query reports it
  await client.connect();
  try {
    const { rows } = await client.query<{ found: string | null }>("select to_regclass('applied_migrations') as found");
    if ((rows[0]?.found ?? null) === null) return [];
    return (await client.query<{ name: string }>('select name from applied_migrations')).rows.map(({ name }) => name);
  } finally {
    await client.end();
  }
}

async function blobs(config: Config): Promise<Check> {
  const location = blobLocation(config);
  try {
    if (!('folder' in location)) {
      const { openS3Link } = await import('../../../server/db/s3/link.ts');
      const link = openS3Link(location, {});
      await link.prove(10_000).finally(() => link.close());
      return ok('blobs', `the bucket ${location.bucket} answers`);
    }
    if (!existsSync(location.folder)) return ok('blobs', firstStart);
    accessSync(location.folder, constants.R_OK | constants.W_OK | constants.X_OK);
    return ok('blobs', location.folder);
  } catch (error) {
    return missing(
      'blobs',
      messageOf(error),
      'logs and files of builds cannot be stored',
      'correct HEADRACE_BLOB_URL, or start as the owner of the folder',
    );
  }
}

const day = 24 * 60 * 60 * 1000;

function certificate(config: Config): Check {
  if (config.tls === 'off') return ok('certificate', 'a proxy in front has it (HEADRACE_TLS=off)');
  const file = config.tls_cert ?? join(config.data_dir, 'tls', 'cert.pem');
  if (!existsSync(file)) return ok('certificate', firstStart);
  const isOwn = config.tls_cert === undefined;
  try {
    const until = new X509Certificate(readFileSync(file)).validToDate;
    const left = Math.floor((until.getTime() - Date.now()) / day);
    const found = `${file}, until ${until.toISOString().slice(0, 10)}`;
    if (left >= 30 || (isOwn && left >= 0)) return ok('certificate', found);
    const mend = isOwn ? 'restart the server, which creates a new one' : 'replace it, and restart the server';
    return left < 0
      ? missing('certificate', found, 'clients refuse the server', mend)
      : warning('certificate', found, 'clients will refuse the server then', mend);
  } catch (error) {
    return missing(
      'certificate',
      `${file}: ${messageOf(error)}`,
      'no server can start with it',
      'replace it, or start as its owner',
    );
  }
}

function masterKey(config: Config): Check {
  const file = masterKeyFile(config);
  const hasData = config.database_url === undefined && existsSync(databaseUrl(config));
  if (!existsSync(file)) {
    if (!hasData) return ok('master key', firstStart);
    return missing(
      'master key',
      `${file} is not there`,
      'stored secrets cannot be read, and no server starts',
      'restore it from a backup',
    );
  }
  const mode = statSync(file).mode & 0o077;
  if (mode === 0) return ok('master key', file);
  return warning(
    'master key',
    `other users can read ${file}`,
    'anyone with it and the database can read every secret',
    `chmod 600 ${file}`,
  );
}
