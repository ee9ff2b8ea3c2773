import { DatabaseSync } from 'node:sqlite';

/** How long to wait for another process that has locked the file. */
export const busyTimeoutMs = 10_000;

const busy = 5;
const pause = 5;

export function openForWriting(file: string): DatabaseSync {
  const database = new DatabaseSync(file, { readBigInts: true, timeout: busyTimeoutMs });
  try {
    enterWalMode(database);
    database.exec('pragma synchronous = full; pragma foreign_keys = on;');
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

/** Raises a read lock to an exclusive one. SQLite does not wait if another process does the same, so this does. */
function enterWalMode(database: DatabaseSync): void {
  const givenUp = performance.now() + busyTimeoutMs;
  for (;;) {
    try {
      database.exec('pragma journal_mode = wal');
      return;
    } catch (error) {
      if (!isBusy(error) || performance.now() > givenUp) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, pause);
    }
  }
}

function isBusy(error: unknown): boolean {
  return error instanceof Error && 'errcode' in error && Number(error.errcode) % 256 === busy;
}
