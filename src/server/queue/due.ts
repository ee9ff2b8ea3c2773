import { sql, type Kysely, type RawBuilder, type SqlBool } from 'kysely';
import type { Database, Queries } from '../db/open.ts';
import type { Schema } from '../db/schema.ts';
import { startWorkLoop } from '../db/work-loop.ts';
import { watchForSetBack } from '../../shared/lib/clock-set-back.ts';

/** A table of rows that become due at a time. */
interface Waits {
  table: string;
  id: string;
  due: string;
}

const waits = <Table extends keyof Schema>(
  table: Table,
  id: keyof Schema[Table] & string,
  due: keyof Schema[Table] & string,
): Waits => ({ table, id, due });

export const jobs = waits('jobs', 'id', 'run_after');
export const polls = waits('polls', 'project_id', 'next_poll_at');
export const schedules = waits('schedules', 'id', 'next_run_at');
export const forgeRemovals = waits('forge_removals', 'id', 'run_after');
export const endingTokens = waits('user_tokens', 'id', 'tell_at');
export const identities = waits('identities', 'id', 'look_at');
export const forgeChecks = waits('projects', 'id', 'forge_check_at');

/** For tables whose name is a variable: only the IDs and times are used here. */
const rowsIn = (db: Queries): Kysely<Record<string, Record<string, bigint | null>>> => db as never;

type Which = RawBuilder<SqlBool>;
const all: Which = sql`true`;

/** In milliseconds since 1970; Infinity if none waits. */
export async function nextDue(db: Queries, { table, due }: Waits, which = all): Promise<number> {
  const next = rowsIn(db)
    .selectFrom(table)
    .select(due)
    .where(which)
    .where(due, '>=', 0n) // true for all that wait; makes SQLite use the index with this order
    .orderBy(due)
    .limit(1);
  const row = await next.executeTakeFirst();
  return row ? Number(row[due]) : Infinity;
}

/** Call after the clock was set back. Rows that would wait longer than the longest wait become due now. */
export function makeStrandedDue(
  db: Database,
  { table, id, due }: Waits,
  longestMs: number | RawBuilder<bigint>,
  which = all,
): Promise<void> {
  const now = Date.now();
  const latest =
    typeof longestMs === 'number' ? BigInt(Math.ceil(now + longestMs)) : sql`${BigInt(now)} + ${longestMs}`;
  const isStranded = sql<SqlBool>`${sql.ref(due)} > ${latest} and ${which}`;
  return db.transaction(async (trx) => {
    // All transactions lock several rows in this order. An update would use its own order.
    await db.locked(rowsIn(trx).selectFrom(table).select(id).where(isStranded).orderBy(id), table).execute();
    const stranded = rowsIn(trx)
      .updateTable(table)
      .set({ [due]: BigInt(now) });
    await stranded.where(isStranded).execute();
  });
}

export interface DueWork<One> {
  /** Announced when something is due. */
  topic: string;
  everyMs: number;
  most: number;
  nextAt(): Promise<number>;
  /** Claims some of the due items for this server. */
  claim(room: number): Promise<readonly One[]>;
  serve(one: One, closing: AbortSignal): Promise<void>;
  whenSetBack(): Promise<void>;
  onError: (error: unknown) => void;
}

/**
 * Work that servers do themselves. Each server does at most `most` items at once, and checks for more when one ends.
 */
export function startDueWork<One>(db: Database, work: DueWork<One>): { close(): Promise<void> } {
  const { topic, everyMs, most, onError } = work;
  const closing = new AbortController();
  const underWay = new Set<Promise<void>>();
  const hasBeenSetBack = watchForSetBack();
  const begin = (one: One): void => {
    const serving = work
      .serve(one, closing.signal)
      .catch(onError)
      .finally(() => {
        underWay.delete(serving);
        loop.wake();
      });
    underWay.add(serving);
  };
  const loop = startWorkLoop(
    db,
    topic,
    async (isAnnounced) => {
      if (hasBeenSetBack()) await work.whenSetBack();
      const room = most - underWay.size;
      if (room <= 0) return everyMs; // the first that is done wakes the loop
      // After an announcement, it claims without first querying the next due time.
      const wait = isAnnounced ? 0 : (await work.nextAt()) - Date.now();
      if (wait > 0) return wait;
      const claimed = await work.claim(room);
      for (const one of claimed) begin(one);
      // More may be due, and only now the next due time is known. If none could be claimed, another server has the due
      // items.
      return claimed.length > 0 || isAnnounced ? 0 : everyMs;
    },
    { everyMs, onError },
  );
  return {
    async close() {
      closing.abort();
      await loop.close();
      await Promise.all(underWay);
    },
  };
}
