import { memoized } from '../db/memo.ts';
import type { Database } from '../db/open.ts';
import type { ImportAnswer, ImportTask } from '../../shared/imports/worker.ts';
import { BusyThreadError, createWorkerThread, type WorkerThread } from '../../shared/lib/worker-thread.ts';
import { UnavailableError } from '../db/unavailable.ts';

/* Files of other CI systems are read in a thread, because a hostile one could take minutes. */

const makeThread = (): WorkerThread<ImportTask, ImportAnswer> =>
  createWorkerThread('shared/imports/worker.ts', { mostOfOne: 4, mostOfAll: 64, timeoutMs: 10_000 });

export const closeImportThread = (db: Database): Promise<void> => memoized(db, makeThread).close();

const tooMuch = 'The files are nested too deeply, or are too large.';

export async function askImporter(db: Database, account: bigint, task: ImportTask): Promise<ImportAnswer> {
  try {
    return await memoized(db, makeThread).ask(account, task);
  } catch (error) {
    if (error instanceof BusyThreadError) throw new UnavailableError('too many files have to be read at once');
    return { refused: [tooMuch] };
  }
}
