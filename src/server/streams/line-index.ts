import type { Blobs } from '../db/blobs.ts';
import type { Queries, Transaction } from '../db/open.ts';
import type { LogMarkRow, LogRow } from '../db/schema.ts';
import { unpackScan, type Scan } from './line-scan.ts';
import { markEvery } from './log-growth.ts';
import { findLog } from './logs.ts';
import { origin, thinned, unpackMarks, type Mark } from './marks.ts';

/* A growing log has marks with each chunk (streams/log-growth.ts). Packing joins them into one row. */

export interface LineIndex {
  /** Text after the last line break counts as a line. */
  readonly total: number;
  readonly end: Scan;
  readonly hasTimes: boolean;
  readonly log: Readonly<LogRow>;
  /** The last mark that has fewer than `breaks` line breaks before it. */
  before(breaks: number): Promise<Mark>;
  /** The marks after `mark`, up to and including `end`. */
  between(mark: Mark, end: { breaks: number; start: number }): Promise<readonly Mark[]>;
}

export interface LineStorage {
  db: Queries;
  blobs: Blobs;
}

export async function lineIndex(storage: LineStorage, id: bigint): Promise<LineIndex | undefined> {
  const log = await findLog(storage.db, id);
  if (!log) return undefined;
  const end = unpackScan(Number(log.line_breaks), log.line_state ?? '');
  if (log.blob === null) return indexOf(log, end, rowsOf(storage, log));
  return indexOf(log, end, packedMarks(storage, id));
}

/** Read on demand: a search from the beginning of a log needs none. */
function packedMarks(storage: LineStorage, id: bigint): Marks {
  let reading: Promise<Marks> | undefined;
  const read = async (): Promise<Marks> => {
    const packed = await findIndex(storage.db, id);
    return listed(packed ? await unpackMarks(packed) : []);
  };
  return {
    before: async (breaks) => (await (reading ??= read())).before(breaks),
    between: async (mark, end) => (await (reading ??= read())).between(mark, end),
  };
}

type Marks = Pick<LineIndex, 'before' | 'between'>;

function indexOf(log: Readonly<LogRow>, end: Scan, marks: Marks): LineIndex {
  return { log, end, total: end.breaks + (end.isOpen ? 1 : 0), hasTimes: log.began_at !== null, ...marks };
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

/** Limit per response. With more marks, some lines get the time of an earlier line. */
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

export async function marksOf(db: Queries, id: bigint): Promise<Mark[]> {
  const rows = await db
    .selectFrom('log_marks')
    .selectAll()
    .where('log_id', '=', id)
    .orderBy('line_breaks')
    .orderBy('start')
    .execute();
  return thinned(rows.map(markOf), markEvery);
}

export async function keepIndex(trx: Transaction, id: bigint, bytes: Buffer): Promise<void> {
  await trx.deleteFrom('log_marks').where('log_id', '=', id).execute();
  await trx
    .insertInto('log_indexes')
    .values({ log_id: id, bytes, outline: '', filter: null, annotations: '', line_hashes: null })
    .execute();
}
