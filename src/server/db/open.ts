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
import { isUnavailable, UnavailableError, WritesRefusedError } from './unavailable.ts';

export type Queries = Kysely<Schema>;
export type Transaction = KyselyTransaction<Schema> & TransactionState;

interface TransactionState {
  readonly watch: LockWatch | undefined;
  readonly notes: Memo;
  /** Results of `orNotYet`, shared by all runs of a transaction. */
  readonly foundBefore: Map<string, unknown>;
  readonly ends: (() => Promise<void>)[];
  readonly commits: (() => void)[];
  readonly failures: (() => void)[];
  readonly topics: Set<string>;
}

export interface Database extends Idioms {
  readonly kind: 'sqlite' | 'postgres';
  /** Read-only on SQLite: all writes are transactions. */
  readonly read: Queries;
  transaction<T>(work: (trx: Transaction) => Promise<T>): Promise<T>;
  readonly notes: Memo;
  /** Skips rows that are locked. SQLite, with one writer, needs no locks. */
  skipLocked<DB, Tables extends keyof DB, Row>(
    query: SelectQueryBuilder<DB, Tables, Row>,
    table: Tables & string,
  ): SelectQueryBuilder<DB, Tables, Row>;
  /** Waits for rows that are locked. */
  locked<DB, Tables extends keyof DB, Row>(
    query: SelectQueryBuilder<DB, Tables, Row>,
    table: Tables & string,
  ): SelectQueryBuilder<DB, Tables, Row>;
  /** Waits for rows that are locked, and also blocks new references to the rows. Use it before deleting them. */
  lockedForRemoval<DB, Tables extends keyof DB, Row>(
    query: SelectQueryBuilder<DB, Tables, Row>,
    table: Tables & string,
  ): SelectQueryBuilder<DB, Tables, Row>;
  /** Locks rows against changes only. */
  shareLocked<DB, Tables extends keyof DB, Row>(
    query: SelectQueryBuilder<DB, Tables, Row>,
    table: Tables & string,
  ): SelectQueryBuilder<DB, Tables, Row>;
  /** Takes a right until the transaction ends. `of` identifies the object of the right. */
  holdRight(trx: Transaction, right: Right, of: bigint | string): Promise<void>;
  /**
   * Makes queries follow indexes in their order instead of sorting or reading the whole table: the queue may be far
   * longer than the database last counted. Only the queue's query needs that.
   */
  alongIndexes<T>(trx: Transaction, work: () => Promise<T>): Promise<T>;
  holdTable(trx: Transaction, table: keyof Schema, otherwise?: 'give up'): Promise<void>;
  /** Runs `work` after the rest of the transaction and before its commit. */
  atEnd(trx: Transaction, work: () => Promise<void>): void;
  /** Runs `work` once the transaction is durable. Skips it if the transaction was rolled back or runs again. */
  afterCommit(trx: Transaction, work: () => void): void;
  /** Runs `work` if the transaction was rolled back or the result of its commit is unknown. */
  afterFailure(trx: Transaction, work: () => void): void;
  /**
   * Notifies every server that something about `topic` changed, once the transaction is durable. Announcements can be
   * lost, so listeners also poll.
   */
  announce(trx: Transaction, topic: string): Promise<void>;
  /** Announces something that is not stored. Resolves when the announcement was sent or is lost. */
  tellOthers(topic: string): Promise<void>;
  /** `missed` is called if announcements may have been lost. Returns a function that stops listening. */
  listen(onTopic: (topic: string) => void, missed?: () => void): () => void;
  hears(): boolean;
  /** True while the database is unreachable. Queries then wait for a limited time and fail with `UnavailableError`. */
  isAway(): boolean;
  version(): Promise<string>;
  observe(observer: DatabaseObserver): void;
  close(): Promise<void>;
}

export interface DatabaseObserver {
  read(milliseconds: number): void;
  transaction(milliseconds: number): void;
}

export interface DatabaseOptions {
  /** A postgres:// address, or the path of an SQLite file. */
  url: string;
  onLost?: (error: Error) => void;
  waitLimitMs?: number;
}

/** Longer than a usual restart or one failed connection attempt, and shorter than a forge waits for its hook. */
const usualWaitLimitMs = 8000;

/** PostgreSQL rolls back such transactions because of a conflict and expects the client to rerun them. */
const tieBreaks = new Set(['40001', '40P01']);
const longestTiePause = 200;

/**
 * For a result that takes long to compute, so that other transactions would wait. The transaction is rolled back, the
 * result is computed outside, and the transaction reruns. `name` must mean the same result in each run.
 */
export function orNotYet<T>({ foundBefore }: Transaction, name: string, find: () => Promise<T>): T {
  if (foundBefore.has(name)) return foundBefore.get(name) as T;
  throw new NotYetError(async () => void foundBefore.set(name, await find()));
}

/** Call this if the transaction has its locks and finds that its earlier reads are outdated. */
export function runAgain(): never {
  throw new NotYetError(async () => {});
}

class NotYetError extends Error {
  readonly first: () => Promise<void>;

  constructor(first: () => Promise<void>) {
    super('more has to be read first');
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

  const isLocking = isPostgres || report !== undefined; // the watch removes the clauses that SQLite does not understand
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
            throw isTie ? tooBusy(error, onLost) : (asRefusal(error) ?? error);
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
    async alongIndexes(trx, work) {
      if (!isPostgres) return work();
      await setOtherPlans(trx, 'off');
      const result = await work();
      await setOtherPlans(trx, 'on');
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

/** Returns an error if the database refuses all writes and not only this one. */
function asRefusal(error: unknown): WritesRefusedError | undefined {
  if (isDatabaseFull(error)) return new WritesRefusedError('full', messageOf(error));
  return codeOf(error) === '25006' ? new WritesRefusedError('read-only', messageOf(error)) : undefined;
}

function tooBusy(error: unknown, onLost: (error: Error) => void): UnavailableError {
  const why = messageOf(error);
  const busy = new UnavailableError(`a transaction was rolled back repeatedly: ${why}`);
  onLost(busy);
  return busy;
}

/** Applies until the transaction ends. One statement, because each is a round trip. */
function setOtherPlans(trx: Transaction, to: 'on' | 'off'): Promise<unknown> {
  const value = sql.lit(to);
  return sql`select set_config('enable_sort', ${value}, true), set_config('enable_seqscan', ${value}, true)`.execute(
    trx,
  );
}

/** Any other text is the path of an SQLite file. */
export function isPostgresUrl(url: string): boolean {
  return /^postgres(ql)?:/.test(url);
}

export function isUniqueViolation(error: unknown): boolean {
  return codeOf(error) === '23505' || /UNIQUE constraint failed/.test(sqliteMessage(error));
}

/** A new row refers to a missing row, or a row to be deleted is still referred to. */
export function isForeignKeyViolation(error: unknown): boolean {
  return codeOf(error) === '23503' || /FOREIGN KEY constraint failed/.test(sqliteMessage(error));
}

export function isLockTimeout(error: unknown): boolean {
  return codeOf(error) === '55P03';
}

export function isDatabaseFull(error: unknown): boolean {
  if (error instanceof WritesRefusedError) return error.why === 'full';
  return codeOf(error) === '53100' || (sqliteMessage(error) !== '' && sqliteFull.has(sqliteCode(error)));
}

/** SQLITE_FULL, and SQLITE_IOERR_SHMSIZE: no room for the memory shared with readers. */
const sqliteFull = new Set([13, 4874]);

function sqliteCode(error: unknown): number {
  return error instanceof Error && 'errcode' in error ? Number(error.errcode) : 0;
}

function sqliteMessage(error: unknown): string {
  return error instanceof Error && codeOf(error) === 'ERR_SQLITE_ERROR' ? error.message : '';
}
