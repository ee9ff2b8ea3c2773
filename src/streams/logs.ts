import { sql } from 'kysely';
import type { Blobs } from '../db/blobs.ts';
import type { Database, Queries, Transaction } from '../db/open.ts';
import { forEachKind, prepared, preparedChange, preparedInsert, preparedLast } from '../db/prepared.ts';
import type { LogChunkRow, LogRow } from '../db/schema.ts';
import { openSeekable } from '../lib/seekable-zstd.ts';
import { grow, markEvery, type Grown } from './log-growth.ts';

/**
 * Logs. While the work runs, a log is rows of bytes in the store, each with the offset of its first byte. When the work
 * is over, the rows are packed into one blob, compressed so that any range can be read without the rest. Only this file
 * knows where the bytes are stored.
 */

/** Announced when a log has grown or is complete. */
export const logTopic = (id: bigint): string => `log:${id}`;

const insertLog = preparedChange<Pick<LogRow, 'id' | 'project_id' | 'complete' | 'completed_at'>>((db, value) =>
  db
    .insertInto('logs')
    .values({
      id: value('id'),
      project_id: value('project_id'),
      size: sql.lit(0n),
      complete: value('complete'),
      blob: sql.lit(null),
      completed_at: value('completed_at'),
      line_breaks: sql.lit(0n),
    })
    .onConflict((conflict) => conflict.column('id').doNothing()),
);

/** A log that is known to stay empty is complete from the beginning. */
export async function beginLog(
  trx: Transaction,
  id: bigint,
  projectId: bigint | null,
  { isComplete = false } = {},
): Promise<void> {
  const completed = isComplete ? BigInt(Date.now()) : null;
  await insertLog(trx, { id, project_id: projectId, complete: Number(isComplete), completed_at: completed });
}

const insertLogs = preparedInsert('logs');
const noLines = { line_breaks: 0n, line_state: null, began_at: null, said_at: null };

/** For new records. */
export async function beginLogs(trx: Transaction, ids: readonly bigint[], projectId: bigint): Promise<void> {
  await insertLogs(
    trx,
    ...ids.map((id) => ({
      id,
      project_id: projectId,
      size: 0n,
      complete: 0,
      blob: null,
      completed_at: null,
      ...noLines,
    })),
  );
}

const findLogs = prepared<{ id: bigint }, LogRow>((db, value) =>
  db.selectFrom('logs').selectAll().where('id', '=', value('id')),
);

export async function findLog(db: Queries, id: bigint): Promise<LogRow | undefined> {
  const [log] = await findLogs(db, { id });
  return log;
}

/**
 * The result of appending a chunk: it is stored (perhaps it was before), it leaves a gap after the stored bytes, or the
 * log is full at this size, with a part of the chunk or without.
 */
export type Appended = { stored: true } | { expected: bigint } | { full: bigint };

/** Two servers may get the same chunk at the same time: the second reads the log when the first is done. */
const holdLog = forEachKind((db) =>
  prepared<{ id: bigint }, LogRow>((queries, value) =>
    db.locked(queries.selectFrom('logs').selectAll().where('id', '=', value('id')), 'logs'),
  ),
);
const growLog = preparedChange<{ id: bigint } & Grown>((db, value) =>
  db
    .updateTable('logs')
    .set({ size: value('size'), line_breaks: value('line_breaks'), line_state: value('line_state') })
    .set({ began_at: value('began_at'), said_at: value('said_at') })
    .where('id', '=', value('id')),
);
const insertChunks = preparedInsert('log_chunks');
const insertMarks = preparedInsert('log_marks');

export async function appendLog(
  db: Database,
  trx: Transaction,
  id: bigint,
  offset: bigint,
  bytes: Uint8Array,
  limit?: bigint,
): Promise<Appended> {
  const [log] = await holdLog(db)(trx, { id });
  return log ? appendToHeld(db, trx, log, offset, bytes, limit) : { expected: 0n };
}

/** The same, for a log that the transaction has read and locked. */
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
  await growLog(trx, { id, ...grown });
  await insertRows(trx, id, log.size, fresh);
  if (marks.length > 0) await insertMarks(trx, ...marks);
  await db.announce(trx, logTopic(id));
  return fresh.length < unknown.length ? { full: size } : { stored: true };
}

interface FirstChunk extends Grown {
  claim: string;
  holder: string;
  bytes: Uint8Array;
}

/**
 * The first chunk of a log, in one statement. It changes nothing where the log is not as it was made, or where the holder
 * does not have the claim: that leaves the decision to who reads the log first.
 */
const insertFirst = preparedLast<FirstChunk, { id: bigint }>((db, value) => ({
  compile: () =>
    sql<{ id: bigint }>`
      with grown as (
        update logs set size = ${value('size')}, line_breaks = ${value('line_breaks')},
          line_state = ${value('line_state')}, began_at = ${value('began_at')}, said_at = ${value('said_at')}
        from jobs
        where jobs.claim = ${value('claim')} and jobs.holder = ${value('holder')} and logs.id = jobs.subject_id
          and logs.size = 0 and logs.complete = 0 and logs.blob is null and logs.line_breaks = 0
          and logs.line_state is null and logs.began_at is null and logs.said_at is null
        returning logs.id
      )
      insert into log_chunks (log_id, start, bytes) select id, 0, cast(${value('bytes')} as bytea) from grown returning log_id as id
    `.compile(db),
}));

/**
 * Stores the first chunk of the log of a claimed job where that is quicker than reading the log before, and ends the
 * transaction; returns the log, or undefined where nothing was stored.
 */
export async function beginWith(
  db: Database,
  trx: Transaction,
  { claim, holder, bytes }: Pick<FirstChunk, 'claim' | 'holder' | 'bytes'>,
): Promise<bigint | undefined> {
  if (db.inTurns || bytes.length === 0 || bytes.length > longestRow) return undefined;
  const made = { id: 0n, project_id: null, size: 0n, complete: 0, blob: null, completed_at: null, ...noLines };
  const { grown } = grow(made, Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length), BigInt(Date.now()));
  const [log] = await insertFirst(trx, { claim, holder, bytes, ...grown });
  if (log) await db.announce(trx, logTopic(log.id));
  return log?.id;
}

/** A row is always read as a whole, also for a part of it. */
const longestRow = markEvery;

async function insertRows(trx: Transaction, id: bigint, start: bigint, bytes: Uint8Array): Promise<void> {
  const rows: LogChunkRow[] = [];
  for (let at = 0; at < bytes.length; at += longestRow) {
    rows.push({ log_id: id, start: start + BigInt(at), bytes: bytes.subarray(at, at + longestRow) });
  }
  await insertChunks(trx, ...rows);
}

const endLog = preparedChange<{ id: bigint; now: bigint }>((db, value) =>
  db
    .updateTable('logs')
    .set({ complete: sql.lit(1), completed_at: value('now') })
    .where('id', '=', value('id')),
);

export async function completeLog(db: Database, trx: Transaction, id: bigint): Promise<void> {
  await endLog(trx, { id, now: BigInt(Date.now()) });
  await db.announce(trx, logTopic(id));
}

/** Adds a line with a message of the server to a log. */
export async function addLine(db: Database, trx: Transaction, id: bigint, sentence: string): Promise<void> {
  const size = (await findLog(trx, id))?.size ?? 0n;
  const last = (await findLastChunk(trx, { id }))[0]?.bytes.at(-1);
  const start = last === undefined || last === 10 ? '' : '\n';
  await appendLog(db, trx, id, size, Buffer.from(`${start}${sentence}\n`));
}

/** Reopens a log that was not packed. */
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

/** Reads a range of a log in pieces, from wherever it is stored; `to` may be beyond the end. */
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

/** A log that is shorter than this, packed, is not worth another request. */
const worthAnAddress = 1024 * 1024;

/** Where a browser that unpacks zstd finds a whole log; undefined where it has to come from here. */
export async function addressOfLog(db: Queries, blobs: Blobs, id: bigint): Promise<string | undefined> {
  const digest = (await findLog(db, id))?.blob ?? undefined;
  if (digest === undefined) return undefined;
  await using blob = await blobs.open(digest);
  if (!blob.address || blob.size < worthAnAddress) return undefined;
  return await blob.address({ contentType: 'text/plain; charset=utf-8', contentEncoding: 'zstd', fileName: 'log.txt' });
}

type Found = Pick<LogRow, 'size' | 'blob'> & { start: bigint | null; bytes: Uint8Array | null };

/** This many rows are read at once, which limits a reader's memory. */
const rowsAtOnce = 8;

/** A log, and the first rows of a range. */
const findRange = prepared<{ id: bigint; at: bigint; to: bigint }, Found>((db, value) =>
  db
    .selectFrom('logs')
    .leftJoin('log_chunks', (join) =>
      join
        .onRef('log_chunks.log_id', '=', 'logs.id')
        .on('log_chunks.start', '<', value('to'))
        .on('log_chunks.start', '>=', (of) =>
          of
            .selectFrom('log_chunks as first')
            .select((within) => within.fn.max('first.start').as('start'))
            .where('first.log_id', '=', value('id'))
            .where('first.start', '<=', value('at')),
        ),
    )
    .select(['logs.size', 'logs.blob', 'log_chunks.start', 'log_chunks.bytes'])
    .where('logs.id', '=', value('id'))
    .orderBy('log_chunks.start')
    .limit(sql.lit(rowsAtOnce)),
);

const findLastChunk = prepared<{ id: bigint }, LogChunkRow>((db, value) =>
  db.selectFrom('log_chunks').selectAll().where('log_id', '=', value('id')).orderBy('start', 'desc').limit(sql.lit(1)),
);

async function* readPacked(blobs: Blobs, digest: string, from: bigint, to: bigint): AsyncGenerator<Buffer> {
  await using blob = await blobs.open(digest);
  const packed = await openSeekable((offset, length) => blob.read(offset, length), blob.size);
  yield* packed.read(Number(from), Math.min(Number(to), packed.size));
}
