import { DatabaseSync } from 'node:sqlite';
import {
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  type QueryResult,
} from 'kysely';
import { LoopTurns } from './loop-turns.ts';
import type { SnapshotCache } from './snapshot-cache.ts';
import type { DirectWay } from './prepared.ts';
import { notByKysely, type Session } from './session.ts';
import { SqliteSnapshotCache, Connection } from './sqlite-connection.ts';
import { openForWriting, busyTimeoutMs } from './sqlite-open.ts';

/**
 * SQLite through Node's own binding, for Kysely.
 *
 * Two connections: a read-only one for everything outside a transaction (a reader sees the last commit and never
 * waits), and one writer. Transactions take turns on the writer, and those that arrive together share one commit. Each
 * runs in a savepoint, and all are acknowledged when the batch is on the disk. A commit costs a flush, so sharing it
 * allows many small writes without giving up durability.
 */
export interface SqliteParts {
  dialect: Dialect;
  reading: DirectWay;
  /** Resolves when it is the transaction's turn. */
  begin(): Promise<Session>;
  cache: () => SnapshotCache;
  close(): void;
}

export function sqliteDialect(file: string): SqliteParts {
  const driver = new SqliteDriver(file);
  const dialect: Dialect = {
    createAdapter: () => new SqliteAdapter(),
    createDriver: () => driver,
    createIntrospector: (db) => new SqliteIntrospector(db),
    createQueryCompiler: () => new SqliteQueryCompiler(),
  };
  return {
    dialect,
    reading: { execute: (query) => driver.read(query) },
    begin: () => driver.begin(),
    cache: () => driver.cache(),
    close: () => driver.close(),
  };
}

/** A batch is committed at this many transactions, so that the first in it does not wait for ever. */
const largestBatch = 128;

class SqliteDriver implements Driver {
  readonly #file: string;
  #reader: Connection | undefined;
  #cache: SqliteSnapshotCache | undefined;
  #writer: Writer | undefined;
  readonly #turns = new LoopTurns();

  constructor(file: string) {
    this.#file = file;
  }

  async init(): Promise<void> {
    this.#open();
  }

  #open(): void {
    if (this.#reader) return;
    const writer = openForWriting(this.#file);
    const reader = new DatabaseSync(this.#file, { readBigInts: true, readOnly: true, timeout: busyTimeoutMs });
    this.#reader = new Connection(reader);
    const cache = new SqliteSnapshotCache(reader);
    this.#cache = cache;
    this.#writer = new Writer(new Connection(writer), () => cache.doubt());
  }

  read<R>(query: CompiledQuery<R>): QueryResult<R> | Promise<QueryResult<R>> {
    this.#open();
    const { wait } = this.#turns;
    return wait
      ? wait.then(() => this.#readerConnection().execute<R>(query))
      : this.#readerConnection().execute<R>(query);
  }

  async begin(): Promise<Session> {
    this.#open();
    const writer = this.#openWriter();
    await writer.enter();
    return new Turn(writer, this.#turns);
  }

  cache(): SnapshotCache {
    this.#open();
    if (!this.#cache) throw new Error('the database is not open');
    return this.#cache;
  }

  async acquireConnection(): Promise<DatabaseConnection> {
    return new Reading(this.#readerConnection(), this.#turns);
  }

  readonly beginTransaction = notByKysely;
  readonly commitTransaction = notByKysely;
  readonly rollbackTransaction = notByKysely;

  async releaseConnection(): Promise<void> {}

  async destroy(): Promise<void> {
    this.close();
  }

  close(): void {
    this.#reader?.close();
    this.#writer?.close();
    this.#reader = undefined;
    this.#writer = undefined;
  }

  #readerConnection(): Connection {
    if (!this.#reader) throw new Error('the database is not open');
    return this.#reader;
  }

  #openWriter(): Writer {
    if (!this.#writer) throw new Error('the database is not open');
    return this.#writer;
  }
}

/** Kysely's connection during a query. */
class Reading implements DatabaseConnection {
  readonly #connection: Connection;
  readonly #turns: LoopTurns;

  constructor(connection: Connection, turns: LoopTurns) {
    this.#connection = connection;
    this.#turns = turns;
  }

  async executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    return this.execute<R>(query);
  }

  execute<R>(query: CompiledQuery): QueryResult<R> | Promise<QueryResult<R>> {
    const { wait } = this.#turns;
    return wait ? wait.then(() => this.now<R>(query)) : this.now<R>(query);
  }

  protected now<R>(query: CompiledQuery): QueryResult<R> {
    return this.#connection.execute<R>(query);
  }

  async *streamQuery<R>(query: CompiledQuery): AsyncIterableIterator<QueryResult<R>> {
    for (const row of this.#connection.iterate<R>(query)) yield { rows: [row] };
  }
}

/** A transaction that holds the writer. */
class Turn extends Reading implements Session {
  readonly #writer: Writer;
  #isOver = false;

  constructor(writer: Writer, turns: LoopTurns) {
    super(writer.connection, turns);
    this.#writer = writer;
  }

  /** While a query waited, another one of the same transaction may have failed: the connection is somebody else's then. */
  protected override now<R>(query: CompiledQuery): QueryResult<R> {
    if (this.#isOver) throw new Error('the transaction is over');
    return super.now<R>(query);
  }

  commit(): Promise<void> {
    this.#isOver = true;
    return this.#writer.keep();
  }

  /** After a commit that failed, another transaction already has the turn. */
  async rollback(): Promise<void> {
    if (!this.#isOver) this.#writer.undo();
    this.#isOver = true;
  }

  release(): void {}
}

/** Lets transactions in one at a time and commits them in batches. */
class Writer {
  readonly connection: Connection;
  readonly #waiting: (() => void)[] = [];
  #busy = false;
  #batch: PromiseWithResolvers<void> | undefined;
  #batchSize = 0;

  /** Called after each commit. */
  readonly #committed: () => void;

  constructor(connection: Connection, committed: () => void) {
    this.connection = connection;
    this.#committed = committed;
  }

  async enter(): Promise<void> {
    if (this.#busy) {
      const turn = Promise.withResolvers<void>();
      this.#waiting.push(turn.resolve);
      await turn.promise;
    }
    this.#busy = true;
    try {
      if (this.#batch) this.connection.run('savepoint turn');
      else this.#begin();
      this.#batchSize += 1;
    } catch (error) {
      this.#leave();
      throw error;
    }
  }

  /** The first transaction of a batch needs no savepoint: when it is rolled back, the batch is still empty. */
  #begin(): void {
    this.connection.run('begin immediate');
    this.#batch = Promise.withResolvers<void>();
    this.#batch.promise.catch(() => {}); // if all transactions of the batch rolled back, no caller waits for it
    this.#batchSize = 0;
  }

  async keep(): Promise<void> {
    const committed = this.#batch?.promise;
    this.#endTurn(false);
    await committed;
  }

  undo(): void {
    this.#endTurn(true);
  }

  /** Acknowledged transactions are on the disk; unfinished ones are rolled back by closing. */
  close(): void {
    // A batch may be left in which all transactions rolled back: its commit must not come after the close.
    if (!this.#busy) this.#commit();
    this.#batch?.reject(new Error('the database was closed'));
    this.#batch = undefined;
    this.connection.close();
  }

  #endTurn(undo: boolean): void {
    try {
      const isFirst = this.#batchSize === 1;
      if (undo && isFirst) this.#abandon();
      else if (undo) this.connection.run('rollback to turn');
      if (!isFirst) this.connection.run('release turn');
    } catch (error) {
      // An error such as a full disk makes SQLite drop the whole batch, and with it the earlier transactions.
      if (this.connection.inTransaction) this.connection.run('rollback');
      this.#batch?.reject(error);
      this.#batch = undefined;
    } finally {
      this.#leave();
    }
  }

  #abandon(): void {
    this.connection.run('rollback');
    this.#batch = undefined;
  }

  #leave(): void {
    if (this.#batch && this.#batchSize >= largestBatch) this.#commit();
    const next = this.#waiting.shift();
    if (next) {
      next(); // stays busy: the turn goes to the next without a gap
      return;
    }
    this.#busy = false;
    // Requests that the event loop has already received join before the flush.
    setImmediate(() => {
      if (!this.#busy) this.#commit();
    });
  }

  #commit(): void {
    const batch = this.#batch;
    if (!batch) return;
    this.#batch = undefined;
    try {
      this.connection.run('commit');
      this.#committed();
      batch.resolve();
    } catch (error) {
      if (this.connection.inTransaction) this.connection.run('rollback');
      batch.reject(error);
    }
  }
}
