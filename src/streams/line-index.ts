import type { Blobs } from '../db/blobs.ts';
import type { Database, Queries, Transaction } from '../db/open.ts';
import type { LogMarkRow, LogRow } from '../db/schema.ts';
import { beginning, packScan, scan, unpackScan, type Scan } from '../lib/line-scan.ts';
import { markEvery } from './log-growth.ts';
import { findLog, readLog } from './logs.ts';
import { origin, packMarks, thinned, unpackMarks, type Mark } from './marks.ts';

/*
 * Finds the lines of logs. While a log grows, each chunk is stored with marks (streams/log-growth.ts); packing joins
 * them into one row (`log_indexes`). A log from before there were marks is read once when its lines are requested, and
 * the marks found are stored if the log is packed.
 */

export interface LineIndex {
  /** The number of lines; text after the last line break counts as one. */
  readonly total: number;
  /** The state of the line scan at the end of the log. */
  readonly end: Scan;
  /** Whether the times of the lines are known. */
  readonly hasTimes: boolean;
  readonly log: Readonly<LogRow>;
  /** The last mark with fewer line breaks before it than these. */
  before(breaks: number): Promise<Mark>;
  /** The marks behind one and up to a position. */
  between(mark: Mark, end: { breaks: number; start: number }): Promise<readonly Mark[]>;
}

export interface LineStorage {
  db: Queries;
  database: Database;
  blobs: Blobs;
}

/** Undefined when there is no such log. */
export async function lineIndex(storage: LineStorage, id: bigint): Promise<LineIndex | undefined> {
  const log = await findLog(storage.db, id);
  if (!log) return undefined;
  if (log.line_breaks === null) return countedNow(storage, log);
  const end = unpackScan(Number(log.line_breaks), log.line_state ?? '');
  if (log.blob === null) return indexOf(log, end, rowsOf(storage, log));
  const packed = await findIndex(storage.db, id);
  return packed ? indexOf(log, end, listed(await unpackMarks(packed))) : countedNow(storage, log);
}

type Marks = Pick<LineIndex, 'before' | 'between'>;

function indexOf(log: Readonly<LogRow>, end: Scan, marks: Marks, hasTimes = log.began_at !== null): LineIndex {
  return { log, end, total: end.breaks + (end.isOpen ? 1 : 0), hasTimes, ...marks };
}

function listed(marks: readonly Mark[]): Marks {
  const firstFrom = (isBehind: (mark: Mark) => boolean): number => {
    let [low, high] = [0, marks.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (isBehind(marks[middle] as Mark)) high = middle;
      else low = middle + 1;
    }
    return low;
  };
  return {
    before: async (breaks) => marks[firstFrom((mark) => mark.breaks >= breaks) - 1] ?? origin,
    between: async (mark, end) =>
      marks.slice(
        firstFrom((one) => one.start > mark.start),
        firstFrom((one) => one.start > end.start),
      ),
  };
}

/** One answer reads at most this many marks; with more, some lines get the time of an earlier line. */
const mostBetween = 20_000;

function rowsOf(storage: LineStorage, { id, size }: Readonly<LogRow>): Marks {
  return {
    async before(breaks) {
      const [row] = await findBefore(storage.db, { id, breaks: BigInt(breaks) });
      if (row) return markOf(row);
      // The log may have been packed in between, together with its marks.
      const index = size > markEvery ? await findIndex(storage.db, id) : undefined;
      return index ? listed(await unpackMarks(index)).before(breaks) : origin;
    },
    async between(mark, end) {
      const from = { breaks: BigInt(mark.breaks), start: BigInt(mark.start) };
      const to = { mostBreaks: BigInt(end.breaks), end: BigInt(end.start) };
      return (await findBetween(storage.db, { id, ...from, ...to })).map(markOf);
    },
  };
}

function markOf({ start, line_breaks: breaks, at, line_state: state }: Readonly<LogMarkRow>): Mark {
  return { start: Number(start), breaks: Number(breaks), at: Number(at), state };
}

const findBefore = (db: Queries, { id, breaks }: { id: bigint; breaks: bigint }): Promise<LogMarkRow[]> =>
  db
    .selectFrom('log_marks')
    .selectAll()
    .where('log_id', '=', id)
    .where('line_breaks', '<', breaks)
    .orderBy('line_breaks', 'desc')
    .orderBy('start', 'desc')
    .limit(1)
    .execute();

type Between = { id: bigint; breaks: bigint; start: bigint; mostBreaks: bigint; end: bigint };
const findBetween = (db: Queries, { id, breaks, mostBreaks, start, end }: Between): Promise<LogMarkRow[]> =>
  db
    .selectFrom('log_marks')
    .selectAll()
    .where('log_id', '=', id)
    .where('line_breaks', '>=', breaks)
    .where('line_breaks', '<=', mostBreaks)
    .where('start', '>', start)
    .where('start', '<=', end)
    .orderBy('line_breaks')
    .orderBy('start')
    .limit(mostBetween)
    .execute();

async function findIndex(db: Queries, id: bigint): Promise<Uint8Array | undefined> {
  const indexes = db.selectFrom('log_indexes').select('bytes').where('log_id', '=', id);
  return (await indexes.executeTakeFirst())?.bytes;
}

/** All marks of a log for packing, from its stored marks. */
export async function packedIndex(db: Queries, blobs: Blobs, log: Readonly<LogRow>): Promise<Counted> {
  if (log.line_breaks === null) return count(readLog(db, blobs, log.id, 0n, log.size));
  const rows = await db
    .selectFrom('log_marks')
    .selectAll()
    .where('log_id', '=', log.id)
    .orderBy('line_breaks')
    .orderBy('start')
    .execute();
  const end = unpackScan(Number(log.line_breaks), log.line_state ?? '');
  return { end, marks: thinned(rows.map(markOf), markEvery) };
}

/** Stores the marks of a packed log, together with its row, which must exist and be unchanged. */
export async function keepIndex(trx: Transaction, id: bigint, { end, bytes }: { end: Scan; bytes: Buffer }) {
  const counted = { line_breaks: BigInt(end.breaks), line_state: packScan(end) };
  await trx.updateTable('logs').set(counted).where('id', '=', id).execute();
  await trx.deleteFrom('log_marks').where('log_id', '=', id).execute();
  await trx
    .insertInto('log_indexes')
    .values({ log_id: id, bytes })
    .onConflict((conflict) => conflict.column('log_id').doUpdateSet({ bytes }))
    .execute();
}

interface Counted {
  end: Scan;
  marks: Mark[];
}

async function countedNow(storage: LineStorage, log: Readonly<LogRow>): Promise<LineIndex> {
  const { end, marks } = await countAndKeep(storage, log);
  return indexOf(log, end, listed(marks), false);
}

async function countAndKeep({ db, database, blobs }: LineStorage, log: Readonly<LogRow>): Promise<Counted> {
  const counted = await count(readLog(db, blobs, log.id, 0n, log.size));
  const { blob } = log;
  if (blob === null) return counted;
  const bytes = await packMarks(counted.marks);
  await database.transaction(async (trx) => {
    const same = trx.selectFrom('logs').select('id').where('id', '=', log.id).where('blob', '=', blob);
    if (await same.executeTakeFirst()) await keepIndex(trx, log.id, { end: counted.end, bytes });
  });
  return counted;
}

async function count(pieces: AsyncIterable<Buffer>): Promise<Counted> {
  const marks: Mark[] = [];
  let end = beginning;
  let start = 0;
  let last = 0;
  for await (const piece of pieces) {
    for (let from = 0; from < piece.length; from += markEvery) {
      const part = piece.subarray(from, from + markEvery);
      if (start + part.length - last > markEvery) {
        marks.push({ start, breaks: end.breaks, at: 0, state: packScan(end) });
        last = start;
      }
      end = scan(end, part);
      start += part.length;
    }
  }
  return { end, marks };
}
