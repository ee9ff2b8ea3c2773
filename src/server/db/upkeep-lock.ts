import { existsSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { isPostgresUrl } from './open.ts';
import { connectPostgres } from './postgres.ts';

/**
 * A backup has the rows and the master key that opens them, so the key must not rotate meanwhile. Two rotations at once
 * would each overwrite the key that the other has begun to use. The lock ends with its database connection, so with its
 * process.
 */
export interface UpkeepLock {
  /** Throws if its connection broke: another process may hold the lock by now. */
  check(): void;
  release(): Promise<void>;
}

export class UpkeepBusyError extends Error {
  constructor() {
    super('a backup or a rotation of the master key is running on this database: try again when it has finished');
    this.name = 'UpkeepBusyError';
  }
}

const lockNumber = 4927716;

export async function lockUpkeep(url: string): Promise<UpkeepLock> {
  return isPostgresUrl(url) ? lockPostgres(url) : lockBeside(url);
}

async function lockPostgres(url: string): Promise<UpkeepLock> {
  const client = await connectPostgres(url);
  const { rows } = await client.query<{ held: boolean }>('select pg_try_advisory_lock($1) as held', [lockNumber]);
  if (rows[0]?.held !== true) {
    await client.end();
    throw new UpkeepBusyError();
  }
  let isLost = false;
  client.on('error', () => (isLost = true));
  return {
    check() {
      if (isLost) throw new Error('the connection to the database was lost: start this again');
    },
    release: () => client.end(),
  };
}

/** On a separate empty database: a lock on the real one would stop the server from writing. */
async function lockBeside(file: string): Promise<UpkeepLock> {
  if (!existsSync(file)) throw new Error(`there is no database at ${file}`);
  const lock = new DatabaseSync(`${file}-upkeep`, { timeout: 0 });
  try {
    lock.exec('begin exclusive');
  } catch (error) {
    lock.close();
    throw /locked/.test(String(error)) ? new UpkeepBusyError() : error;
  }
  return { check: () => {}, release: async () => lock.close() };
}
