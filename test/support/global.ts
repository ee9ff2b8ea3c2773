import { chmodSync, existsSync, mkdtempSync, rmSync, statfsSync } from 'node:fs';
import { join } from 'node:path';
import { hasty, startPostgres, type Postgres } from './postgres.ts';
import { makeTemplates } from './templates.ts';

/** The folder of all temporary files of the run, where they are kept in memory. */
let inMemory: string | undefined;

/**
 * One real PostgreSQL for the whole run. Test processes find its address in their environment. It is not named
 * HEADRACE_…, because the program refuses unknown settings. Files that need no database do without it.
 */
let postgres: Postgres | undefined;

export async function globalSetup(): Promise<void> {
  keepFilesInMemory();
  if (process.env.TEST_WITHOUT_POSTGRES !== undefined) return;
  postgres = await startPostgres(hasty);
  process.env.TEST_POSTGRES_URL = postgres.url;
  await makeTemplates(postgres);
}

export async function globalTeardown(): Promise<void> {
  await postgres?.close();
  try {
    if (inMemory !== undefined) rmSync(inMemory, { recursive: true, force: true });
  } catch (error) {
    console.error('temporary files of the tests are left:', error); // a mount, for example, of a test that was killed
  }
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
