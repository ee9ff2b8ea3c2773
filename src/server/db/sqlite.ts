import { DatabaseSync } from 'node:sqlite';
import {
  ValueNode,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  type LimitNode,
  type QueryResult,
} from 'kysely';
import { createYield } from '../../shared/lib/event-loop.ts';
import { Connection } from './sqlite-connection.ts';
import { openForWriting, busyTimeoutMs } from './sqlite-open.ts';
import { Writer } from './sqlite-writer.ts';

/**
 * The read-only connection is for everything outside a transaction: it sees the last commit and never waits.
 * Transactions take turns on the one writer (sqlite-writer.ts).
 */
export function sqliteDialect(file: string, onRead: (milliseconds: number) => void): Dialect {
  return {
    createAdapter: () => new SqliteAdapter(),
    createDriver: () => new SqliteDriver(file, onRead),
    createIntrospector: (db) => new SqliteIntrospector(db),
    createQueryCompiler: () => new QueryCompiler(),
  };
}

/** SQLite plans by the limit. With a parameter there, it would plan the statement again on each run. */
class QueryCompiler extends SqliteQueryCompiler {
  protected override visitLimit(node: LimitNode): void {
    const rows = ValueNode.is(node.limit) ? node.limit.value : undefined;
    if (typeof rows !== 'number') return super.visitLimit(node);
    this.append('limit ');
    this.appendImmediateValue(rows);
  }
}

class SqliteDriver implements Driver {
  readonly #file: string;
  readonly #onRead: (milliseconds: number) => void;
  /** SQLite responds synchronously: consecutive queries would block the event loop. */
  readonly #turn = createYield();
  #reader: Connection | undefined;
  #writer: Writer | undefined;

  constructor(file: string, onRead: (milliseconds: number) => void) {
    this.#file = file;
    this.#onRead = onRead;
  }

  async init(): Promise<void> {
    const writer = new Writer(new Connection(openForWriting(this.#file)));
    const reader = new DatabaseSync(this.#file, { readBigInts: true, readOnly: true, timeout: busyTimeoutMs });
    this.#writer = writer;
    this.#reader = new Connection(reader);
  }

  async acquireConnection(): Promise<DatabaseConnection> {
    if (!this.#reader || !this.#writer) throw new Error('the database is not open');
    return new Session(this.#reader, this.#writer, this.#turn, this.#onRead);
  }

  async beginTransaction(session: DatabaseConnection): Promise<void> {
    await (session as Session).begin();
  }

  async commitTransaction(session: DatabaseConnection): Promise<void> {
    await (session as Session).commit();
  }

  async rollbackTransaction(session: DatabaseConnection): Promise<void> {
    (session as Session).rollback();
  }

  async releaseConnection(): Promise<void> {}

  async destroy(): Promise<void> {
    this.#reader?.close();
    this.#writer?.close();
  }
}

class Session implements DatabaseConnection {
  readonly #reader: Connection;
  readonly #writer: Writer;
  readonly #turn: () => Promise<void> | undefined;
  readonly #onRead: (milliseconds: number) => void;
  #transaction: 'none' | 'open' | 'over' = 'none';

  constructor(
    reader: Connection,
    writer: Writer,
    turn: () => Promise<void> | undefined,
    onRead: (milliseconds: number) => void,
  ) {
    this.#reader = reader;
    this.#writer = writer;
    this.#turn = turn;
    this.#onRead = onRead;
  }

  async executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    await this.#turn();
    if (this.#transaction === 'open') return this.#writer.connection.execute<R>(query);
    // While this query waited, another query of the transaction may have failed. Then another transaction uses the
    // writer.
    if (this.#transaction === 'over') throw new Error('the transaction is over');
    const beganAt = performance.now();
    const result = this.#reader.execute<R>(query);
    this.#onRead(performance.now() - beganAt);
    return result;
  }

  streamQuery(): never {
    throw new Error('rows are read a page at a time');
  }

  async begin(): Promise<void> {
    await this.#writer.enter();
    this.#transaction = 'open';
  }

  commit(): Promise<void> {
    this.#transaction = 'over';
    return this.#writer.commitTurn();
  }

  /** After a failed commit another transaction already has the turn. */
  rollback(): void {
    if (this.#transaction === 'open') this.#writer.rollBackTurn();
    this.#transaction = 'over';
  }
}
