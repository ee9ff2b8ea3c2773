import type { Blobs } from '../db/blobs.ts';
import { insertRows } from '../db/insert.ts';
import type { Database, Queries, Transaction } from '../db/open.ts';
import type { LogChunkRow, LogRow } from '../db/schema.ts';
import { openSeekable } from '../../shared/lib/seekable-zstd.ts';
import { grow, markEvery } from './log-growth.ts';

/**
 * A growing log is stored as rows of bytes. When the work is over, the rows are packed into one blob. It is compressed
 * so that any range can be read without the rest. Only this file knows where the bytes are stored.
 */

export const logTopic = (id: bigint): string => `log:${id}`;

/** A log known to stay empty is complete from the beginning. */
export async function beginLog(
  trx: Transaction,
  id: bigint,
  projectId: bigint | null,
  { isComplete = false } = {},
): Promise<void> {
  const completed = isComplete ? BigInt(Date.now()) : null;
  await trx
    .insertInto('logs')
    .values({ ...emptyLog(id, projectId), complete: Number(isComplete), completed_at: completed })
    .onConflict((conflict) => conflict.column('id').doNothing())
    .execute();
}

function emptyLog(id: bigint, projectId: bigint | null): LogRow {
  const noLines = { line_breaks: 0n, line_state: null, began_at: null, said_at: null };
  return { id, project_id: projectId, size: 0n, complete: 0, blob: null, completed_at: null, ...noLines };
}

export async function beginLogs(trx: Transaction, ids: readonly bigint[], projectId: bigint): Promise<void> {
  await insertRows(
    trx,
    'logs',
    ids.map((id) => emptyLog(id, projectId)),
  );
}

export async function findLog(db: Queries, id: bigint): Promise<LogRow | undefined> {
  return db.selectFrom('logs').selectAll().where('id', '=', id).executeTakeFirst();
}

/**
 * `stored`: now or earlier. `expected`: not stored, because the log is complete or missing, or the chunk leaves a gap
 * after this size. `full`: the log has reached its limit, with part of the chunk or none.
 */
export type Appended = { stored: true } | { expected: bigint } | { full: bigint };

/** If two servers have the same chunk, the second reads the log once the first is done. */
export async function appendLog(
  db: Database,
  trx: Transaction,
  id: bigint,
  offset: bigint,
  bytes: Uint8Array,
  limit?: bigint,
): Promise<Appended> {
  const log = await db.locked(trx.selectFrom('logs').selectAll().where('id', '=', id), 'logs').executeTakeFirst();
  return log ? appendToHeld(db, trx, log, offset, bytes, limit) : { expected: 0n };
}

export async function appendToHeld(
  db: Database,
  trx: Transaction,
  log: LogRow,
  offset: bigint,
  bytes: Uint8Array,
  limit?: bigint,
): Promise<Appended> {
  const { id } = log;
  if (log.complete) return { expected: log.size };
  const known = log.size - offset;
  if (known < 0n) return { expected: log.size };
  const unknown = bytes.subarray(Number(known));
  if (unknown.length === 0) return { stored: true };
  const fresh = limit === undefined ? unknown : unknown.subarray(0, Math.max(0, Number(limit - log.size)));
  if (fresh.length === 0) return { full: log.size };
  const { grown, marks } = grow(log, Buffer.from(fresh.buffer, fresh.byteOffset, fresh.length), BigInt(Date.now()));
  const { size } = grown;
  await trx.updateTable('logs').set(grown).where('id', '=', id).execute();
  await insertRows(trx, 'log_chunks', rowsOf(id, log.size, fresh));
  await insertRows(trx, 'log_marks', marks);
  await db.announce(trx, logTopic(id));
  return fresh.length < unknown.length ? { full: size } : { stored: true };
}

/** Limit of a row: rows are always read whole. */
const longestRow = markEvery;

function rowsOf(id: bigint, start: bigint, bytes: Uint8Array): LogChunkRow[] {
  const rows: LogChunkRow[] = [];
  for (let at = 0; at < bytes.length; at += longestRow) {
    rows.push({ log_id: id, start: start + BigInt(at), bytes: bytes.subarray(at, at + longestRow) });
  }
  return rows;
}

export async function completeLog(db: Database, trx: Transaction, id: bigint): Promise<void> {
  const over = { complete: 1, completed_at: BigInt(Date.now()) };
  await trx.updateTable('logs').set(over).where('id', '=', id).execute();
  await db.announce(trx, logTopic(id));
}

export async function addLine(db: Database, trx: Transaction, id: bigint, sentence: string): Promise<void> {
  const size = (await findLog(trx, id))?.size ?? 0n;
  const chunks = trx.selectFrom('log_chunks').select('bytes').where('log_id', '=', id).orderBy('start', 'desc');
  const last = (await chunks.limit(1).executeTakeFirst())?.bytes.at(-1);
  const start = last === undefined || last === 10 ? '' : '\n';
  await appendLog(db, trx, id, size, Buffer.from(`${start}${sentence}\n`));
}

/** Only for a log that was not packed. */
export async function reopenLog(trx: Transaction, id: bigint): Promise<void> {
  await trx.updateTable('logs').set({ complete: 0, completed_at: null }).where('id', '=', id).execute();
}

/** Clears a log for new work on the same record. */
export async function restartLog(trx: Transaction, id: bigint): Promise<void> {
  await trx.deleteFrom('logs').where('id', '=', id).execute();
  await beginLog(trx, id, null);
}

export async function removeLog(trx: Transaction, id: bigint): Promise<void> {
  await trx.deleteFrom('logs').where('id', '=', id).execute();
}

/** Reads a log from wherever it is stored. `to` may be beyond the end. */
export async function* readLog(
  db: Queries,
  blobs: Blobs,
  id: bigint,
  from: bigint,
  to: bigint,
): AsyncGenerator<Buffer> {
  let at = from;
  while (at < to) {
    const rows = await findRange(db, { id, at, to });
    const [log] = rows;
    if (!log || at >= log.size) return;
    if (log.blob !== null) {
      yield* readPacked(blobs, log.blob, at, to);
      return;
    }
    for (const { start, bytes } of rows) {
      if (start === null || bytes === null) continue; // it was packed during the read
      const end = Math.min(bytes.length, Number(to - start));
      const piece = Buffer.from(bytes.buffer, bytes.byteOffset + Number(at - start), end - Number(at - start));
      yield piece;
      at += BigInt(piece.length);
    }
  }
}

/** A smaller packed log is not worth another request. */
const worthAnAddress = 1024 * 1024;

/** For a browser that unpacks zstd. Undefined if this server must send the log itself. */
export async function addressOfLog(db: Queries, blobs: Blobs, id: bigint): Promise<string | undefined> {
  const digest = (await findLog(db, id))?.blob ?? undefined;
  if (digest === undefined) return undefined;
  await using blob = await blobs.open(digest);
  if (!blob.address || blob.size < worthAnAddress) return undefined;
  return await blob.address({ contentType: 'text/plain; charset=utf-8', contentEncoding: 'zstd', fileName: 'log.txt' });
}

type ChunkOfLog = Pick<LogRow, 'size' | 'blob'> & { start: bigint | null; bytes: Uint8Array | null };

/** Limits a reader's memory. */
const rowsAtOnce = 8;

const findRange = (db: Queries, { to, id, at }: { id: bigint; at: bigint; to: bigint }): Promise<ChunkOfLog[]> =>
  db
    .selectFrom('logs')
    .leftJoin('log_chunks', (join) =>
      join
        .onRef('log_chunks.log_id', '=', 'logs.id')
        .on('log_chunks.start', '<', to)
        .on('log_chunks.start', '>=', (of) =>
          of
            .selectFrom('log_chunks as first')
            .select((within) => within.fn.max('first.start').as('start'))
            .where('first.log_id', '=', id)
            .where('first.start', '<=', at),
        ),
    )
    .select(['logs.size', 'logs.blob', 'log_chunks.start', 'log_chunks.bytes'])
    .where('logs.id', '=', id)
    .orderBy('log_chunks.start')
    .limit(rowsAtOnce)
    .execute();

async function* readPacked(blobs: Blobs, digest: string, from: bigint, to: bigint): AsyncGenerator<Buffer> {
  await using blob = await blobs.open(digest);
  const packed = await openSeekable((offset, length) => blob.read(offset, length), blob.size);
  yield* packed.read(Number(from), Math.min(Number(to), packed.size));
}
