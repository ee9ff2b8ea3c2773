import { isDatabaseFull, type Database, type Transaction } from '../db/open.ts';
import { forEachKind, prepared } from '../db/prepared.ts';
import type { JobRow, LogRow } from '../db/schema.ts';
import { DiskFullError, isNoSpace, type DiskReserve } from '../lib/disk-reserve.ts';
import type { CutReason, LogChunk, Receipt } from '../protocol/index.ts';
import { jobOf } from '../queue/queue.ts';
import { appendToHeld, beginWith, findLog } from '../streams/logs.ts';
import type { RecentChunks } from '../streams/recent-chunks.ts';

/**
 * Takes the chunks of logs. Runners know the limit of a log and keep to it; bytes beyond it are not stored. When the
 * disk is full, nothing is stored either, except for short logs. The reserve on the disk is kept for small things like
 * these, so that one long log that fills the disk does not end the work of everybody else.
 */
const shortLog = 1024 * 1024;

/** The log of a claimed job, and the holder of the claim, in one query. */
const holdLogUnder = forEachKind((db) =>
  prepared<{ claim: string }, LogRow & Pick<JobRow, 'holder'>>((queries, value) =>
    db.locked(
      queries
        .selectFrom('jobs')
        .innerJoin('logs', 'logs.id', 'jobs.subject_id')
        .selectAll('logs')
        .select('jobs.holder')
        .where('jobs.claim', '=', value('claim')),
      'logs',
    ),
  ),
);

export interface LogIntake {
  take(holder: string, chunk: LogChunk): Promise<Receipt>;
}

export interface LogIntakeParts {
  db: Database;
  disk: DiskReserve;
  /** The longest log. */
  limit: number;
  recentChunks: RecentChunks;
  /** Told how many bytes were added to a log, once they are durable. */
  onStored?: ((bytes: number) => void) | undefined;
}

export function logIntake({ db, disk, limit, recentChunks, onStored = () => {} }: LogIntakeParts): LogIntake {
  /** Readers are woken by the same commit, and find the bytes noted. */
  const noteAtCommit = (trx: Transaction, log: bigint, start: bigint, bytes: Uint8Array): void =>
    db.afterCommit(trx, () => {
      recentChunks.note(log, start, bytes);
      onStored(bytes.length);
    });

  /** A chunk makes a log no longer than the end of the chunk, whatever offset the runner says. */
  const hasRoom = async ({ offset, bytes }: LogChunk): Promise<boolean> => {
    try {
      await disk.take(bytes.length, offset + bytes.length <= shortLog ? 'small' : 'large');
      return true;
    } catch (error) {
      if (error instanceof DiskFullError) return false;
      throw error;
    }
  };

  /** In one round trip; false where that does not do. */
  const storeFirst = (holder: string, { claim, bytes }: LogChunk): Promise<boolean> =>
    db.transaction(async (trx) => {
      const log = await beginWith(db, trx, { claim, holder, bytes });
      if (log !== undefined) noteAtCommit(trx, log, 0n, bytes);
      return log !== undefined;
    });

  const store = (holder: string, chunk: LogChunk, isRoomy: boolean): Promise<Receipt> =>
    db.transaction(async (trx) => {
      const [found] = await holdLogUnder(db)(trx, { claim: chunk.claim });
      if (found?.holder !== holder) return { gone: true };
      const { holder: _, ...log } = found;
      if (!isRoomy) return { refused: 'disk_full', size: Number(log.size) };
      const appended = await appendToHeld(db, trx, log, BigInt(chunk.offset), chunk.bytes, BigInt(limit));
      const end = 'full' in appended ? appended.full : BigInt(chunk.offset + chunk.bytes.length);
      const start = BigInt(chunk.offset);
      const isLonger = !('expected' in appended) && end > log.size;
      if (isLonger)
        noteAtCommit(trx, log.id, log.size, chunk.bytes.subarray(Number(log.size - start), Number(end - start)));
      if ('stored' in appended) return { taken: true };
      if ('full' in appended) return { refused: 'log_too_long', size: Number(appended.full) };
      return { expected: Number(appended.expected) };
    });

  return {
    async take(holder, chunk) {
      try {
        const isRoomy = await hasRoom(chunk);
        const isFirst = chunk.offset === 0 && isRoomy && chunk.bytes.length <= limit && !db.inTurns;
        if (isFirst && (await storeFirst(holder, chunk))) return { taken: true };
        return await store(holder, chunk, isRoomy);
      } catch (error) {
        if (!isDatabaseFull(error) && !isNoSpace(error)) throw error;
        const job = await jobOf(db.read, chunk.claim);
        if (job?.holder !== holder) return { gone: true };
        return { refused: 'disk_full', size: Number((await findLog(db.read, job.subject_id))?.size ?? 0n) };
      }
    },
  };
}

/** The last words of a log that was cut. */
export function wordsFor(reason: CutReason, limit: number): string {
  if (reason === 'disk_full') {
    return 'The log was cut here and the work was ended, because the disk of the server or of its runner is full. The operator of the service has to free space on it.';
  }
  return `The log was cut here and the work was ended, because a log may have at most ${Math.floor(limit / 1024 / 1024)} MB. Say less, or write what is long into a file.`;
}
