import { Kysely, sql, type RawBuilder, type SelectQueryBuilder, type Transaction as KyselyTransaction } from 'kysely';
import { setTimeout as pause } from 'node:timers/promises';
import { carriedBy } from '../lib/carried.ts';
import { codeOf } from '../lib/error-code.ts';
import type { Schema } from './schema.ts';
import { localAnnouncements } from './announcements.ts';
import { openPostgres } from './postgres.ts';
import type { SnapshotCache } from './snapshot-cache.ts';
import { goDirectly, type DirectWay } from './prepared.ts';
import { transactionsOn } from './session.ts';
import { sqliteDialect } from './sqlite.ts';
import { isUnavailable, UnavailableError } from './unavailable.ts';

/** Queries run on it: the database outside a transaction, or a transaction. */
export type Queries = Kysely<Schema>;
export type Transaction = KyselyTransaction<Schema>;

export interface Database {
  readonly kind: 'sqlite' | 'postgres';
  /** For reading. All writes are transactions: on SQLite this side is read-only. */
  readonly read: Queries;
  /** Resolves when the writes of `work` are durable. */
  transaction<T>(work: (trx: Transaction) => Promise<T>): Promise<T>;
  /** Whether transactions run one after the other, in the order in which they began. */
  readonly inTurns: boolean;
  /** Cached results that are valid for the current state of the store. */
  cache(): SnapshotCache | Promise<SnapshotCache>;
  /** The database's own clock in milliseconds: the one that all servers on it share. */
  readonly clock: RawBuilder<bigint>;
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
  /** Locks the rows that a query of a transaction finds against changes by others. One writer needs no locks. */
  shareLocked<DB, Tables extends keyof DB, Row>(
    query: SelectQueryBuilder<DB, Tables, Row>,
    table: Tables & string,
  ): SelectQueryBuilder<DB, Tables, Row>;
  /** Locks the number until the transaction is over. One writer needs no locks. */
  holdNumber(trx: Transaction, number: bigint): Promise<void>;
  /** Locks the table against other writers until the transaction is over. One writer needs no locks. */
  holdTable(trx: Transaction, table: keyof Schema, otherwise?: 'give up'): Promise<void>;
  /** Runs `work` after the rest of the transaction and before its commit. */
  atEnd(trx: Transaction, work: () => Promise<void>): void;
  /**
   * Runs `added` after the work of the transaction, before everything of `atEnd`: something that fits into the same
   * commit, but on which the transaction must not depend. If the transaction fails with it, it is run again with
   * `otherwise` in its place.
   */
  addAtEnd(trx: Transaction, added: () => Promise<void>, otherwise: () => Promise<void>): void;
  /** Runs `work` once the transaction is durable, and never when it was rolled back or is run again. */
  afterCommit(trx: Transaction, work: () => void): void;
  /** Runs `work` when the transaction was rolled back, or when nobody knows whether it was committed. */
  afterFailure(trx: Transaction, work: () => void): void;
  /**
   * Tells every server on this database, once the transaction is durable, that something about `topic` has changed. It
   * is a hint that saves waiting and can be lost, so listeners also look in the store now and then.
   */
  announce(trx: Transaction, topic: string): Promise<void>;
  /**
   * Calls `heard` on every announcement, and `missed` when some may have been lost, until the returned function is
   * called.
   */
  listen(heard: (topic: string) => void, missed?: () => void): () => void;
  /** The same, but before the transaction is over, while others can still join its commit; see db/announcements.ts. */
  listenEarly(heard: (topic: string) => void): () => void;
  /** Whether announcements are received at the moment. */
  hears(): boolean;
  /**
   * Whether the database is unreachable at the moment. Queries then wait for a while, and fail with `UnavailableError`.
   */
  isAway(): boolean;
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

/** Longer than a usual restart, and shorter than callers wait. */
const usualWaitLimitMs = 5000;

/** PostgreSQL rolled these transactions back because of a conflict, and expects the client to run them again. */
const tieBreaks = new Set(['40001', '40P01', '0A000']); // the last: the tables changed after a statement was planned
const longestTiePause = 200;

/** The work that waits for the end of a transaction, for its commit, and for its failure. */
const endsOf = carriedBy<Transaction, (() => Promise<void>)[]>(() => []);
const additionsOf = carriedBy<Transaction, Addition[]>(() => []);
const commitsOf = carriedBy<Transaction, (() => void)[]>(() => []);
const failuresOf = carriedBy<Transaction, (() => void)[]>(() => []);

/** What was found out for a transaction that is run again; the same for all its runs. */
const foundFor = carriedBy<Transaction, { found: Map<string, unknown> }>(() => ({ found: new Map() }));

export const foundBefore = (trx: Transaction): Map<string, unknown> => foundFor(trx).found;

/**
 * Thrown in a transaction that needs something first which would hold up others: the transaction is rolled back, `first`
 * is done without one, and it is run again. `first` puts what it finds into `foundBefore`.
 */
export class NotYetError extends Error {
  readonly first: () => Promise<void>;

  constructor(first: () => Promise<void>) {
    super('something has to be found out first');
    this.first = first;
  }
}

interface Addition {
  added: () => Promise<void>;
  otherwise: () => Promise<void>;
}

export async function openDatabase({
  url,
  onLost = () => {},
  waitLimitMs = usualWaitLimitMs,
}: DatabaseOptions): Promise<Database> {
  const isPostgres = isPostgresUrl(url);
  const sqlite = isPostgres ? undefined : sqliteDialect(url);
  const postgres = sqlite ? undefined : await openPostgres({ url, waitLimitMs, onLost });
  const parts = sqlite ?? postgres ?? unreachable();
  let observer: DatabaseObserver | undefined;
  const read = new Kysely<Schema>({
    dialect: parts.dialect,
    log: ({ queryDurationMillis }) => observer?.read(queryDurationMillis),
  });
  goDirectly(
    read,
    observedReading(parts.reading, () => observer),
  );
  const runIn = transactionsOn(read, parts.dialect);
  const announcements = postgres?.announcements ?? localAnnouncements();
  return {
    kind: isPostgres ? 'postgres' : 'sqlite',
    read,
    inTurns: !isPostgres,
    cache: () => parts.cache(),
    clock: isPostgres
      ? sql<bigint>`(extract(epoch from clock_timestamp()) * 1000)::bigint`
      : sql<bigint>`cast(unixepoch('subsec') * 1000 as integer)`,
    async transaction(work) {
      const beganAt = performance.now();
      let giveUpAt = beganAt + waitLimitMs;
      let mayAdd = true;
      const found = new Map<string, unknown>();
      for (let wait = 5; ; wait = Math.min(2 * wait, longestTiePause)) {
        let transaction: Transaction | undefined;
        let hasAdded = false;
        try {
          const result = await runIn(await parts.begin(), async (trx) => {
            transaction = trx;
            foundFor(trx).found = found;
            const answer = await work(trx);
            for (const { added, otherwise } of additionsOf(trx)) {
              hasAdded ||= mayAdd;
              await (mayAdd ? added() : otherwise());
            }
            const works = endsOf(trx);
            for (let end = works.shift(); end; end = works.shift()) await end();
            return answer;
          });
          observer?.transaction(performance.now() - beganAt);
          if (transaction) {
            announcements.committed(transaction);
            for (const after of commitsOf(transaction)) after();
          }
          return result;
        } catch (error) {
          for (const after of transaction ? failuresOf(transaction) : []) after();
          if (error instanceof NotYetError && performance.now() < giveUpAt) {
            const pausedAt = performance.now();
            await error.first();
            giveUpAt += performance.now() - pausedAt;
            continue;
          }
          const isTie = tieBreaks.has(codeOf(error));
          if (hasAdded && !isTie && !isUnavailable(error)) {
            mayAdd = false;
            continue;
          }
          const isOver = (!isTie && !(isUnavailable(error) && !error.mayBeDone)) || performance.now() > giveUpAt;
          if (isOver) {
            observer?.transaction(performance.now() - beganAt);
            throw isTie ? tooBusy(error, onLost) : error;
          }
          if (isTie) await pause(Math.random() * wait); // so that the same transactions do not collide again
        }
      }
    },
    skipLocked: (query, table) => (isPostgres ? query.forUpdate(table as never).skipLocked() : query),
    locked: (query, table) => (isPostgres ? query.forNoKeyUpdate(table as never) : query),
    shareLocked: (query, table) => (isPostgres ? query.forShare(table as never) : query),
    async holdNumber(trx, number) {
      if (isPostgres) await sql`select pg_advisory_xact_lock(${number}::bigint)`.execute(trx);
    },
    async holdTable(trx, table, otherwise) {
      const waiting = sql.raw(otherwise === undefined ? '' : 'nowait');
      if (isPostgres) await sql`lock table ${sql.table(table)} in share row exclusive mode ${waiting}`.execute(trx);
    },
    atEnd: (trx, work) => void endsOf(trx).push(work),
    addAtEnd: (trx, added, otherwise) => void additionsOf(trx).push({ added, otherwise }),
    afterCommit: (trx, work) => void commitsOf(trx).push(work),
    afterFailure: (trx, work) => void failuresOf(trx).push(work),
    announce: async (trx, topic) => announcements.announce(trx, topic),
    listen: (heard, missed) => announcements.listen(heard, missed),
    listenEarly: (heard) => announcements.listenEarly(heard),
    hears: () => postgres?.hears() ?? true,
    isAway: () => postgres?.isAway() ?? false,
    observe: (one) => void (observer = one),
    async close() {
      await announcements.close();
      await parts.close();
    },
  };
}

/** The way of prepared queries, with a look at the clock where somebody wants to know. */
function observedReading(reading: DirectWay, observer: () => DatabaseObserver | undefined): DirectWay {
  return {
    ...reading,
    execute(query) {
      const heard = observer();
      if (!heard) return reading.execute(query);
      const beganAt = performance.now();
      const tell = (): void => heard.read(performance.now() - beganAt);
      const result = reading.execute(query);
      if (result instanceof Promise) return result.finally(tell);
      tell();
      return result;
    },
  };
}

function tooBusy(error: unknown, onLost: (error: Error) => void): UnavailableError {
  const why = error instanceof Error ? error.message : String(error);
  const busy = new UnavailableError(`a transaction was rolled back repeatedly: ${why}`);
  onLost(busy);
  return busy;
}

function unreachable(): never {
  throw new Error('no database was opened');
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
