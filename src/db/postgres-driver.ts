import {
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  type QueryResult,
} from 'kysely';
import type { Pool, PoolClient, QueryResult as PgResult } from 'pg';

/**
 * PostgreSQL for Kysely, with as few round trips as a transaction can do with. What nobody waits for is sent and not
 * waited for: the beginning of a transaction, and changes whose outcome is not asked about (`later`). PostgreSQL does
 * them in the order in which they were sent, so whatever comes after finds them done. When one of them fails, everything
 * after it in the transaction fails as well, and what is thrown is why the first one did.
 *
 * Statements that come again are prepared: planning one takes longer than running it.
 */
export function pipelinedDialect(pool: Pool): Dialect {
  return {
    createAdapter: () => new PostgresAdapter(),
    createDriver: () => new PipelinedDriver(pool),
    createIntrospector: (db) => new PostgresIntrospector(db),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  };
}

class PipelinedDriver implements Driver {
  readonly #pool: Pool;
  readonly #statements = new Statements();

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<PostgresSession> {
    for (;;) {
      const client = await this.#pool.connect();
      if (this.#statements.areCurrentIn(client)) return new PostgresSession(client, this.#statements);
      client.release(true);
    }
  }

  async beginTransaction(session: DatabaseConnection): Promise<void> {
    (session as PostgresSession).begin();
  }

  async commitTransaction(session: DatabaseConnection): Promise<void> {
    await (session as PostgresSession).commit();
  }

  async rollbackTransaction(session: DatabaseConnection): Promise<void> {
    await (session as PostgresSession).rollback();
  }

  async releaseConnection(session: DatabaseConnection): Promise<void> {
    (session as PostgresSession).release();
  }

  async destroy(): Promise<void> {
    await this.#pool.end();
  }
}

/** An earlier statement of the transaction has failed. */
const alreadyFailed = '25P02';
/** A statement was prepared before another server changed the tables that it reads. */
const changedTables = '0A000';

/** One connection, from when it is taken out of the pool until it is given back. */
export class PostgresSession implements DatabaseConnection {
  readonly #client: PoolClient;
  readonly #statements: Statements;
  /** Why the first thing failed that nobody waited for. */
  #failure: unknown;
  #isInTransaction = false;

  constructor(client: PoolClient, statements: Statements) {
    this.#client = client;
    this.#statements = statements;
  }

  execute<R>(query: CompiledQuery<R>): Promise<QueryResult<R>> {
    return this.executeQuery<R>(query);
  }

  async executeQuery<R>({ sql, parameters }: CompiledQuery): Promise<QueryResult<R>> {
    try {
      return resultOf<R>(await this.#send(sql, parameters));
    } catch (error) {
      const cause = this.#cause(error);
      if (codeOf(cause) !== changedTables || this.#isInTransaction) throw cause;
      return resultOf<R>(await this.#client.query({ text: sql, values: [...parameters] }));
    }
  }

  /** Sends it, and does not wait for what comes of it. */
  later({ sql, parameters }: Pick<CompiledQuery, 'sql' | 'parameters'>): void {
    this.#send(sql, parameters).catch((error: unknown) => {
      this.#failure ??= this.#cause(error);
    });
  }

  begin(): void {
    this.#isInTransaction = true;
    this.later({ sql: 'begin', parameters: [] });
  }

  async commit(): Promise<void> {
    try {
      await this.#send('commit', []); // which undoes a transaction that has failed, and calls that a success
    } catch (error) {
      throw this.#cause(error);
    }
    if (this.#failure !== undefined) throw this.#failure;
  }

  async rollback(): Promise<void> {
    await this.#send('rollback', []);
  }

  release(): void {
    this.#client.release(this.#statements.areCurrentIn(this.#client) ? undefined : true);
  }

  // oxlint-disable-next-line require-yield
  async *streamQuery<R>(): AsyncIterableIterator<QueryResult<R>> {
    throw new Error('nothing here is read in streams');
  }

  #send(text: string, parameters: readonly unknown[]): Promise<PgResult> {
    const values = parameters as unknown[];
    const name = values.length === 0 ? undefined : this.#statements.nameOf(text);
    return this.#client.query(name === undefined ? { text, values } : { name, text, values });
  }

  #cause(error: unknown): unknown {
    if (codeOf(error) === changedTables) this.#statements.forget();
    return codeOf(error) === alreadyFailed && this.#failure !== undefined ? this.#failure : error;
  }
}

const writing = new Set(['INSERT', 'UPDATE', 'DELETE', 'MERGE']);

function resultOf<R>({ command, rowCount, rows }: PgResult): QueryResult<R> {
  return writing.has(command) ? { numAffectedRows: BigInt(rowCount ?? 0), rows } : { rows };
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}

/** PostgreSQL keeps the plans of every connection: so many, and only of statements that come again. */
const mostPrepared = 500;
const mostSeen = 1000;

class Statements {
  readonly #names = new Map<string, string>();
  readonly #seen = new Set<string>();
  readonly #since = new WeakMap<PoolClient, number>();
  #generation = 0;
  #made = 0;

  /** What a statement is prepared under; undefined for one that was not seen before. */
  nameOf(text: string): string | undefined {
    const known = this.#names.get(text);
    if (known !== undefined || this.#names.size >= mostPrepared) return known;
    if (!this.#seen.delete(text)) {
      if (this.#seen.size >= mostSeen) this.#seen.clear();
      this.#seen.add(text);
      return undefined;
    }
    const name = `headrace_${(this.#made += 1)}`;
    this.#names.set(text, name);
    return name;
  }

  /** False for a connection that may have statements from before the tables were changed: another takes its place. */
  areCurrentIn(client: PoolClient): boolean {
    const since = this.#since.get(client);
    if (since === undefined) this.#since.set(client, this.#generation);
    return since === undefined || since === this.#generation;
  }

  /** The tables have changed: everything is prepared anew, on other connections. */
  forget(): void {
    this.#generation += 1;
    this.#names.clear();
  }
}
