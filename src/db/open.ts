import { Kysely, sql, type RawBuilder, type SelectQueryBuilder, type Transaction as KyselyTransaction } from 'kysely';
import type { Schema } from './schema.ts';
import { localAnnouncements } from './announcements.ts';
import { openPostgres } from './postgres.ts';
import { noMemory, type Memory } from './memory.ts';
import { endDirectWay, executeDirectly } from './prepared.ts';
import { sqliteDialect } from './sqlite.ts';

/** Something that queries can be run on: the database outside a transaction, or a transaction. */
export type Queries = Kysely<Schema>;
export type Transaction = KyselyTransaction<Schema>;

export interface Database {
  readonly kind: 'sqlite' | 'postgres';
  /** For reading. Everything that writes is a transaction: on SQLite this side is read-only. */
  readonly read: Queries;
  /** Resolves once what `work` wrote is durable. */
  transaction<T>(work: (trx: Transaction) => Promise<T>): Promise<T>;
  /** Whether transactions are done one after the other, in the order in which they were begun. */
  readonly inTurns: boolean;
  /** What was worked out from the store and still holds. */
  readonly memory: Memory;
  /** The database's own clock in milliseconds: the one that servers who share it agree on. */
  readonly clock: RawBuilder<bigint>;
  /** Locks the rows that a query of a transaction finds and passes over those that others hold. One writer needs no locks. */
  skipLocked<DB, Tables extends keyof DB, Row>(
    query: SelectQueryBuilder<DB, Tables, Row>,
    table: Tables & string,
  ): SelectQueryBuilder<DB, Tables, Row>;
  /** Locks the rows that a query of a transaction finds against changes by others. One writer needs no locks. */
  shareLocked<DB, Tables extends keyof DB, Row>(
    query: SelectQueryBuilder<DB, Tables, Row>,
    table: Tables & string,
  ): SelectQueryBuilder<DB, Tables, Row>;
  /** Nobody else writes to the table until the transaction is over. One writer needs no locks. */
  holdTable(trx: Transaction, table: keyof Schema): Promise<void>;
  /**
   * Says, once the transaction is durable, that something about `topic` has changed, to every server on this
   * database. A hint that saves waiting: it can be lost, so whoever listens also looks by itself now and then.
   */
  announce(trx: Transaction, topic: string): Promise<void>;
  /** Calls back on every announcement until the answer is called. */
  listen(heard: (topic: string) => void): () => void;
  /** The same, but before the transaction is over, where others can still join its commit; see db/announcements.ts. */
  listenEarly(heard: (topic: string) => void): () => void;
  close(): Promise<void>;
}

export interface DatabaseOptions {
  /** A postgres:// address, or the path of an SQLite file. */
  url: string;
  onLost?: (error: Error) => void;
}

/** PostgreSQL ended these to break a tie; running them again is what it asks for. */
const tieBreaks = new Set(['40001', '40P01']);
const tieBreakTries = 5;

export async function openDatabase({ url, onLost = () => {} }: DatabaseOptions): Promise<Database> {
  const isPostgres = isPostgresUrl(url);
  const sqlite = isPostgres ? undefined : sqliteDialect(url);
  const postgres = sqlite ? undefined : await openPostgres(url, onLost);
  const read = new Kysely<Schema>({ dialect: sqlite?.dialect ?? postgres?.dialect ?? unreachable() });
  if (sqlite) executeDirectly(read, sqlite.readNow);
  const announcements = postgres?.announcements ?? localAnnouncements();
  return {
    kind: isPostgres ? 'postgres' : 'sqlite',
    read,
    inTurns: !isPostgres,
    get memory() {
      return sqlite?.memory() ?? noMemory;
    },
    clock: isPostgres
      ? sql<bigint>`(extract(epoch from clock_timestamp()) * 1000)::bigint`
      : sql<bigint>`cast(unixepoch('subsec') * 1000 as integer)`,
    async transaction(work) {
      for (let attempt = 1; ; attempt += 1) {
        try {
          let transaction: Transaction | undefined;
          const result = await read.transaction().execute(async (trx) => {
            transaction = trx;
            if (sqlite) executeDirectly(trx, sqlite.writeNow);
            try {
              return await work(trx);
            } finally {
              endDirectWay(trx);
            }
          });
          if (transaction) announcements.committed(transaction);
          return result;
        } catch (error) {
          if (attempt === tieBreakTries || !tieBreaks.has(codeOf(error))) throw error;
        }
      }
    },
    skipLocked: (query, table) => (isPostgres ? query.forUpdate(table as never).skipLocked() : query),
    shareLocked: (query, table) => (isPostgres ? query.forShare(table as never) : query),
    async holdTable(trx, table) {
      if (isPostgres) await sql`lock table ${sql.table(table)} in share row exclusive mode`.execute(trx);
    },
    announce: (trx, topic) => announcements.announce(trx, topic),
    listen: (heard) => announcements.listen(heard),
    listenEarly: (heard) => announcements.listenEarly(heard),
    async close() {
      await announcements.close();
      await read.destroy();
    },
  };
}

function unreachable(): never {
  throw new Error('there is one database or the other');
}

/** Everything that is no PostgreSQL address is the path of an SQLite file. */
export function isPostgresUrl(url: string): boolean {
  return /^postgres(ql)?:/.test(url);
}

/** Another row already has a value that must be unique. */
export function isUniqueViolation(error: unknown): boolean {
  return codeOf(error) === '23505' || /UNIQUE constraint failed/.test(sqliteMessage(error));
}

/** The row that a new one belongs to is gone, or one that must stay is still referred to. */
export function isForeignKeyViolation(error: unknown): boolean {
  return codeOf(error) === '23503' || /FOREIGN KEY constraint failed/.test(sqliteMessage(error));
}

/** There is no room for what was to be written. */
export function isDatabaseFull(error: unknown): boolean {
  return codeOf(error) === '53100' || (sqliteMessage(error) !== '' && sqliteFull.has(sqliteCode(error)));
}

/** The database has no room, or what it shares with its readers has none (SQLITE_FULL, SQLITE_IOERR_SHMSIZE). */
const sqliteFull = new Set([13, 4874]);

function sqliteCode(error: unknown): number {
  return error instanceof Error && 'errcode' in error ? Number(error.errcode) : 0;
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}

function sqliteMessage(error: unknown): string {
  return error instanceof Error && codeOf(error) === 'ERR_SQLITE_ERROR' ? error.message : '';
}
