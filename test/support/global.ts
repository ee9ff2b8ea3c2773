import { chmodSync, existsSync, mkdtempSync, readFileSync, statfsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { removeTree } from '../../src/shared/lib/remove-tree.ts';
import { lacks } from './machine.ts';
import { hasty, startPostgres, type Postgres } from './postgres.ts';
import { makeTemplates } from './templates.ts';

/** The folder of all temporary files of the run, where they are kept in memory. */
let inMemory: string | undefined;

/**
 * One real PostgreSQL for the whole run. Test processes find its address in their environment. It is not named
 * HEADRACE_…, because the program refuses unknown settings. The quick run, and files that need no database, do without it.
 */
let postgres: Postgres | undefined;
/** The folder of the templates, and of what is told of locks. */
let copied: string | undefined;

export async function globalSetup(): Promise<void> {
  keepFilesInMemory();
  if (process.env.TEST_WITHOUT_POSTGRES === undefined && lacks('postgres') === false) {
    postgres = await startPostgres(hasty);
    process.env.TEST_POSTGRES_URL = postgres.url;
  }
  copied = mkdtempSync(join(tmpdir(), 'headrace-templates-'));
  chmodSync(copied, 0o755);
  process.env.TEST_LOCK_ORDER = join(copied, 'locks');
  writeFileSync(process.env.TEST_LOCK_ORDER, '');
  chmodSync(process.env.TEST_LOCK_ORDER, 0o666); // for programs that run as others
  if (lacks('openssl') === false) await makeTemplates(copied, postgres);
}

export async function globalTeardown(): Promise<void> {
  await postgres?.close();
  try {
    for (const folder of [copied, inMemory]) if (folder !== undefined) await removeTree(folder);
  } catch (error) {
    console.error('temporary files of the tests are left:', error); // a mount, for example, of a test that was killed
  }
}

/** Where transactions of tests, or of programs that they started, took locks out of order (src/server/db/lock-watch.ts). */
export function locksOutOfOrder(): string {
  const { TEST_LOCK_ORDER } = process.env;
  return TEST_LOCK_ORDER === undefined ? '' : readFileSync(TEST_LOCK_ORDER, 'utf8');
}

const memory = '/dev/shm';
const enough = 8 * 1024 ** 3;

/**
 * A disk takes milliseconds to confirm each transaction, and some look long for a place for each new file when many were
 * removed. Both matter only where a machine may lose its power. So the run's temporary files are in memory, where the
 * machine has room for that.
 */
function keepFilesInMemory(): void {
  if (!existsSync(memory) || process.availableMemory() < enough) return;
  const { bavail, bsize } = statfsSync(memory);
  if (bavail * bsize < enough) return;
  inMemory = mkdtempSync(join(memory, 't-')); // short, because the path of a socket must be
  chmodSync(inMemory, 0o1777); // as /tmp: PostgreSQL and builds have users of their own
  process.env.TMPDIR = inMemory;
}
