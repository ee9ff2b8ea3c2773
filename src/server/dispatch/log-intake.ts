import { isDatabaseFull, type Database, type Transaction } from '../db/open.ts';
import type { LogRow } from '../db/schema.ts';
import { serviceLog } from '../lifecycle/build-services.ts';
import { DiskFullError, isNoSpace, type DiskReserve } from '../../shared/lib/disk-reserve.ts';
import type { CutReason, LogChunk, Receipt } from '../../shared/protocol/index.ts';
import { jobOf } from '../queue/leases.ts';
import { appendToHeld, findLog } from '../streams/logs.ts';

/**
 * When the disk is full, only short logs are stored. Its reserve is for small writes, so one long log does not end all
 * other work. If there is no room for a short log either, the runner resends it until there is.
 */
const shortLog = 1024 * 1024;

export interface LogIntake {
  take(holder: string, chunk: LogChunk): Promise<Receipt>;
}

export interface LogIntakeParts {
  db: Database;
  disk: DiskReserve;
  limit: number;
  /** Called once the bytes are durable. */
  onStored?: ((bytes: number) => void) | undefined;
}

export function logIntake({ db, disk, limit, onStored = () => {} }: LogIntakeParts): LogIntake {
  /** The chunk's end limits the log's length, whatever offset the runner sends. */
  const hasRoom = async ({ offset, bytes }: LogChunk): Promise<boolean> => {
    try {
      await disk.take(bytes.length, offset + bytes.length <= shortLog ? 'small' : 'large');
      return true;
    } catch (error) {
      if (error instanceof DiskFullError) return false;
      throw error;
    }
  };

  const ownLog = async (trx: Transaction, holder: string, { claim }: LogChunk): Promise<LogRow | undefined> => {
    const claimed = trx
      .selectFrom('jobs')
      .innerJoin('logs', 'logs.id', 'jobs.subject_id')
      .selectAll('logs')
      .select('jobs.holder')
      .where('jobs.claim', '=', claim);
    const found = await db.locked(claimed, 'logs').executeTakeFirst();
    if (found?.holder !== holder) return undefined;
    const { holder: _, ...log } = found;
    return log;
  };

  const logOfService = async (
    trx: Transaction,
    holder: string,
    { claim }: LogChunk,
    name: string,
  ): Promise<LogRow | undefined> => {
    const builds = trx.selectFrom('jobs').innerJoin('builds', 'builds.id', 'jobs.subject_id').select('builds.services');
    const held = builds.where('jobs.claim', '=', claim).where('jobs.holder', '=', holder);
    const build = await held.executeTakeFirst();
    const id = build && serviceLog(build, name);
    if (id === undefined) return undefined;
    return db.locked(trx.selectFrom('logs').selectAll().where('id', '=', id), 'logs').executeTakeFirst();
  };

  const store = (holder: string, chunk: LogChunk, isRoomy: boolean): Promise<Receipt> =>
    db.transaction(async (trx) => {
      const log = await (chunk.service === undefined
        ? ownLog(trx, holder, chunk)
        : logOfService(trx, holder, chunk, chunk.service));
      if (!log) return { gone: true };
      if (!isRoomy) return { refused: 'disk_full', size: Number(log.size) };
      const appended = await appendToHeld(db, trx, log, BigInt(chunk.offset), chunk.bytes, BigInt(limit));
      if ('expected' in appended) return { expected: Number(appended.expected) };
      const end = 'full' in appended ? appended.full : BigInt(chunk.offset + chunk.bytes.length);
      if (end > log.size) db.afterCommit(trx, () => onStored(Number(end - log.size)));
      return 'full' in appended ? { refused: 'log_too_long', size: Number(end) } : { taken: true };
    });

  return {
    async take(holder, chunk) {
      try {
        return await store(holder, chunk, await hasRoom(chunk));
      } catch (error) {
        const isShort = chunk.offset + chunk.bytes.length <= shortLog;
        if (isShort || (!isDatabaseFull(error) && !isNoSpace(error))) throw error;
        const job = await jobOf(db.read, chunk.claim);
        if (job?.holder !== holder) return { gone: true };
        return { refused: 'disk_full', size: Number((await findLog(db.read, job.subject_id))?.size ?? 0n) };
      }
    },
  };
}

export function messageFor(reason: CutReason, limit: number): string {
  if (reason === 'disk_full') {
    return 'The log was cut here and the job was ended, because the disk of the server or of its runner is full. Ask the operator to free space.';
  }
  return `The log was cut here and the job was ended, because a log may have at most ${Math.floor(limit / 1024 / 1024)} MB. Print less, or write long output to a file.`;
}
