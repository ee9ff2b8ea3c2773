import { Kysely, sql, type SelectQueryBuilder, type Transaction as KyselyTransaction } from 'kysely';
import { setTimeout as pause } from 'node:timers/promises';
import { codeOf, messageOf } from '../../shared/lib/error-code.ts';
import type { Schema } from './schema.ts';
import { localAnnouncements } from './announcements.ts';
import { postgresIdioms, sqliteIdioms, type Idioms } from './idioms.ts';
import type { Memo } from './memo.ts';
import { openPostgres } from './postgres.ts';
import { sqliteDialect } from './sqlite.ts';
import type { Right } from './lock-order.ts';
import { LockWatch, lockReport } from './lock-watch.ts';
import { isUnavailable, UnavailableError } from './unavailable.ts';

/** Queries run on it: the database outside a transaction, or a transaction. */
export type Queries = Kysely<Schema>;
export type Transaction = KyselyTransaction<Schema> & TransactionState;

interface TransactionState {
  /** Checks the order of locks, in tests. */
  readonly watch: LockWatch | undefined;
  /** What modules keep for this transaction (memo.ts). */
  readonly notes: Memo;
  /** What was found out for a transaction that is run again; the same for all its runs. */
  readonly foundBefore: Map<string, unknown>;
  /** The work that waits for the end of the transaction, for its commit, and for its failure. */
  readonly ends: (() => Promise<void>)[];
  readonly commits: (() => void)[];
  readonly failures: (() => void)[];
  /** The topics that are announced with it. */
  readonly topics: Set<string>;
}

export interface Database extends Idioms {
  readonly kind: 'sqlite' | 'postgres';
  /** For reading. All writes are transactions: on SQLite this side is read-only. */
  readonly read: Queries;
  /** Resolves when the writes of `work` are durable. */
  transaction<T>(work: (trx: Transaction) => Promise<T>): Promise<T>;
  /** What modules keep for this database (memo.ts). */
  readonly notes: Memo;
  /** Locks the rows that a query of a transaction finds and skips rows that others hold. One writer needs no locks. */
  skipLocked<DB, Tables extends keyof DB, Row>(
    query: SelectQueryBuilder<DB, Tables, Row>,
    table: Tables & string,
  ): SelectQueryBuilder<DB, Tables, Row>;
  /**
   * Locks the rows that a query of a transaction finds, and waits for rows that others hold. One writer needs no locks.
   */
  locked<DB, Tables extends keyof DB, Row>(
    query: SelectQueryBuilder<DB, Tables, Row>,
    table: Tables & string,
  ): SelectQueryBuilder<DB, Tables, Row>;
  /** The same, also against those who refer to the rows: for whoever deletes them. */
  lockedForRemoval<DB, Tables extends keyof DB, Row>(
    query: SelectQueryBuilder<DB, Tables, Row>,
    table: Tables & string,
  ): SelectQueryBuilder<DB, Tables, Row>;
  /** Locks the rows that a query of a transaction finds against changes by others. One writer needs no locks. */
  shareLocked<DB, Tables extends keyof DB, Row>(
    query: SelectQueryBuilder<DB, Tables, Row>,
    table: Tables & string,
  ): SelectQueryBuilder<DB, Tables, Row>;
  /** Has the right until the transaction is over: to what `of` stands for. One writer needs no locks. */
  holdRight(trx: Transaction, right: Right, of: bigint | string): Promise<void>;
  /**
   * Has the queries of `work` find their rows by indexes that have their order, also where PostgreSQL guesses that it
   * were less to sort them: for a table that was empty when it was last counted, and may be long by now.
   */
  unsorted<T>(trx: Transaction, work: () => Promise<T>): Promise<T>;
  /** Locks the table against other writers until the transaction is over. One writer needs no locks. */
  holdTable(trx: Transaction, table: keyof Schema, otherwise?: 'give up'): Promise<void>;
  /** Runs `work` after the rest of the transaction and before its commit. */
  atEnd(trx: Transaction, work: () => Promise<void>): void;
  /** Runs `work` once the transaction is durable, and never when it was rolled back or is run again. */
  afterCommit(trx: Transaction, work: () => void): void;
  /** Runs `work` when the transaction was rolled back, or when nobody knows whether it was committed. */
  afterFailure(trx: Transaction, work: () => void): void;
  /**
   * Tells every server on this database, once the transaction is durable, that something about `topic` has changed. It
   * is a hint that saves waiting and can be lost, so listeners also look in the store now and then.
   */
  announce(trx: Transaction, topic: string): Promise<void>;
  /** Tells the other servers alone, of something that is not stored. */
  tellOthers(topic: string): void;
  /**
   * Calls `heard` on every announcement, and `missed` when some may have been lost, until the returned function is
   * called.
   */
  listen(onTopic: (topic: string) => void, missed?: () => void): () => void;
  /** Whether announcements are received at the moment. */
  hears(): boolean;
  /**
   * Whether the database is unreachable at the moment. Queries then wait for a while, and fail with `UnavailableError`.
   */
  isAway(): boolean;
  /** The name and version of the database, for people. */
  version(): Promise<string>;
  /** From now on this observer is told how long queries outside of transactions, and transactions, take. */
  observe(observer: DatabaseObserver): void;
  close(): Promise<void>;
}

/** Takes milliseconds. */
export interface DatabaseObserver {
  read(milliseconds: number): void;
  /** From its begin until it is durable, or has failed. */
  transaction(milliseconds: number): void;
}

export interface DatabaseOptions {
  /** A postgres:// address, or the path of an SQLite file. */
  url: string;
  /** Called when the database becomes unreachable, or is too busy. */
  onLost?: (error: Error) => void;
  /** How long a query waits for a database that is unreachable or too busy. */
  waitLimitMs?: number;
}

/** Longer than a usual restart, or than one connection that does not open, and shorter than a forge waits for its hook. */
const usualWaitLimitMs = 8000;

/** PostgreSQL rolled these transactions back because of a conflict, and expects the client to run them again. */
const tieBreaks = new Set(['40001', '40P01']);
const longestTiePause = 200;

/**
 * A result that a transaction needs, and that would hold up others while it is computed. So the transaction is rolled
 * back, the result is computed outside of it, and then the transaction is run again. `name`
 * stands for the same thing in each run.
 */
export function orNotYet<T>({ foundBefore }: Transaction, name: string, find: () => Promise<T>): T {
  if (foundBefore.has(name)) return foundBefore.get(name) as T;
  throw new NotYetError(async () => void foundBefore.set(name, await find()));
}

/** For a transaction that found out, when it had its locks, that what it had read before is not so any more. */
export function runAgain(): never {
  throw new NotYetError(async () => {});
}

class NotYetError extends Error {
  readonly first: () => Promise<void>;

  constructor(first: () => Promise<void>) {
    super('something has to be found out first');
    this.first = first;
  }
}

export async function openDatabase({
  url,
  onLost = () => {},
  waitLimitMs = usualWaitLimitMs,
}: DatabaseOptions): Promise<Database> {
  const isPostgres = isPostgresUrl(url);
  const report = lockReport();
  let observer: DatabaseObserver | undefined;
  const onRead = (milliseconds: number): void => observer?.read(milliseconds);
  const postgres = isPostgres ? await openPostgres({ url, waitLimitMs, onLost, onRead }) : undefined;
  const read = new Kysely<Schema>({ dialect: postgres?.dialect ?? sqliteDialect(url, onRead) });
  const announcements = postgres?.announcements ?? localAnnouncements();

  /** One run of a transaction; `begun` is told of its state. */
  const run = <T>(
    work: (trx: Transaction) => Promise<T>,
    foundBefore: Map<string, unknown>,
    begun: (state: TransactionState) => void,
  ): Promise<T> =>
    read.transaction().execute(async (bare) => {
      const watch = report === undefined ? undefined : new LockWatch(isPostgres, report);
      const own = watch ? bare.withPlugin(watch) : bare;
      const state = {
        watch,
        notes: new Map(),
        foundBefore,
        ends: [],
        commits: [],
        failures: [],
        topics: new Set<string>(),
      };
      const trx: Transaction = Object.assign(own, state);
      begun(trx);
      const answer = await work(trx);
      for (let end = trx.ends.shift(); end; end = trx.ends.shift()) await end();
      return answer;
    });

  const isLocking = isPostgres || report !== undefined; // the watch removes what SQLite does not understand
  return {
    kind: isPostgres ? 'postgres' : 'sqlite',
    read,
    notes: new Map(),
    async transaction(work) {
      const beganAt = performance.now();
      let giveUpAt = beganAt + waitLimitMs;
      const foundBefore = new Map<string, unknown>();
      for (let wait = 5; ; wait = Math.min(2 * wait, longestTiePause)) {
        let state: TransactionState | undefined;
        try {
          const result = await run(work, foundBefore, (begun) => (state = begun));
          observer?.transaction(performance.now() - beganAt);
          announcements.committed(state?.topics ?? new Set());
          for (const after of state?.commits ?? []) after();
          return result;
        } catch (error) {
          for (const after of state?.failures ?? []) after();
          if (error instanceof NotYetError && performance.now() < giveUpAt) {
            const pausedAt = performance.now();
            await error.first();
            giveUpAt += performance.now() - pausedAt;
            continue;
          }
          const isTie = tieBreaks.has(codeOf(error));
          const isOver = (!isTie && !(isUnavailable(error) && !error.mayBeDone)) || performance.now() > giveUpAt;
          if (isOver) {
            observer?.transaction(performance.now() - beganAt);
            throw isTie ? tooBusy(error, onLost) : error;
          }
          if (isTie) await pause(Math.random() * wait); // so that the same transactions do not collide again
        }
      }
    },
    ...(isPostgres ? postgresIdioms : sqliteIdioms),
    skipLocked: (query, table) => (isLocking ? query.forUpdate(table as never).skipLocked() : query),
    locked: (query, table) => (isLocking ? query.forNoKeyUpdate(table as never) : query),
    lockedForRemoval: (query, table) => (isLocking ? query.forUpdate(table as never) : query),
    shareLocked: (query, table) => (isLocking ? query.forShare(table as never) : query),
    async holdRight(trx, right, of) {
      trx.watch?.takeRight(right);
      const name = `${right} ${of}`;
      if (isPostgres) await sql`select pg_advisory_xact_lock(hashtextextended(${name}, 0))`.execute(trx);
    },
    async unsorted(trx, work) {
      if (!isPostgres) return work();
      await sql`set local enable_sort = off`.execute(trx);
      const result = await work();
      await sql`set local enable_sort = on`.execute(trx);
      return result;
    },
    async holdTable(trx, table, otherwise) {
      const waiting = sql.raw(otherwise === undefined ? '' : 'nowait');
      if (isPostgres) await sql`lock table ${sql.table(table)} in share row exclusive mode ${waiting}`.execute(trx);
    },
    atEnd: (trx, work) => void trx.ends.push(work),
    afterCommit: (trx, work) => void trx.commits.push(work),
    afterFailure: (trx, work) => void trx.failures.push(work),
    announce: async (trx, topic) => void trx.topics.add(topic),
    tellOthers: (topic) => announcements.tellOthers(topic),
    listen: (onTopic, missed) => announcements.listen(onTopic, missed),
    hears: () => postgres?.hears() ?? true,
    isAway: () => postgres?.isAway() ?? false,
    async version() {
      const asked = isPostgres ? sql`current_setting('server_version')` : sql`sqlite_version()`;
      const { rows } = await sql<{ version: string }>`select ${asked} as version`.execute(read);
      return `${isPostgres ? 'PostgreSQL' : 'SQLite'} ${rows[0]?.version ?? ''}`;
    },
    observe: (one) => void (observer = one),
    async close() {
      await announcements.close();
      postgres?.close();
      await read.destroy();
    },
  };
}

function tooBusy(error: unknown, onLost: (error: Error) => void): UnavailableError {
  const why = messageOf(error);
  const busy = new UnavailableError(`a transaction was rolled back repeatedly: ${why}`);
  onLost(busy);
  return busy;
}

/** Any other text is the path of an SQLite file. */
export function isPostgresUrl(url: string): boolean {
  return /^postgres(ql)?:/.test(url);
}

/** Another row already has a value that must be unique. */
export function isUniqueViolation(error: unknown): boolean {
  return codeOf(error) === '23505' || /UNIQUE constraint failed/.test(sqliteMessage(error));
}

/** The row that a new row refers to is gone, or a row to be deleted is still referred to. */
export function isForeignKeyViolation(error: unknown): boolean {
  return codeOf(error) === '23503' || /FOREIGN KEY constraint failed/.test(sqliteMessage(error));
}

/** Another transaction holds the lock. */
export function isLockTimeout(error: unknown): boolean {
  return codeOf(error) === '55P03';
}

/** The database has no room for the write. */
export function isDatabaseFull(error: unknown): boolean {
  return codeOf(error) === '53100' || (sqliteMessage(error) !== '' && sqliteFull.has(sqliteCode(error)));
}

/** The database is full, or the memory that it shares with its readers is (SQLITE_FULL, SQLITE_IOERR_SHMSIZE). */
const sqliteFull = new Set([13, 4874]);

function sqliteCode(error: unknown): number {
  return error instanceof Error && 'errcode' in error ? Number(error.errcode) : 0;
}

function sqliteMessage(error: unknown): string {
  return error instanceof Error && codeOf(error) === 'ERR_SQLITE_ERROR' ? error.message : '';
}
