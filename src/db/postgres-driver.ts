import type { CompiledQuery, DatabaseConnection, Driver, QueryResult } from 'kysely';
import type { Client, Pool, PoolClient, QueryResult as PgResult } from 'pg';
import { Statements } from './postgres-statements.ts';
import { isPrepared } from './prepared.ts';
import type { Reach } from './reach.ts';
import { isUnavailable, UnavailableError } from './unavailable.ts';

/**
 * PostgreSQL for Kysely, over connections that may break at any moment: somebody restarts it, or a network in between.
 * What was not begun yet is simply done on another connection; it waits for one for `waitLimitMs`. What was lost in the
 * middle of a transaction is undone, and who began the transaction may begin it again. Only of a commit nobody knows.
 *
 * A transaction takes as few round trips as it can do with. What nobody waits for is sent and not waited for: its
 * beginning, and changes whose outcome is not asked about (`later`). PostgreSQL does them in the order in which they were
 * sent, so whatever comes after finds them done. When one of them fails, everything after it in the transaction fails as
 * well, and what is thrown is why the first one did.
 *
 * The driver's errors hold the driver: the client, with the keys to its connection. Nothing of that leaves this file.
 */
export class PostgresDriver implements Driver {
  readonly #pool: Pool;
  readonly #reach: Reach;
  readonly #waitLimitMs: number;
  readonly #statements = new Statements();

  constructor(pool: Pool, reach: Reach, waitLimitMs: number) {
    this.#pool = pool;
    this.#reach = reach;
    this.#waitLimitMs = waitLimitMs;
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<PostgresConnection> {
    const giveUpAt = (): number => performance.now() + this.#waitLimitMs;
    const client = await this.#connect(giveUpAt());
    return new PostgresConnection(client, (until) => this.#connect(until), giveUpAt, this.#statements);
  }

  async beginTransaction(connection: DatabaseConnection): Promise<void> {
    (connection as PostgresConnection).begin();
  }

  async commitTransaction(connection: DatabaseConnection): Promise<void> {
    await (connection as PostgresConnection).commit();
  }

  async rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    await (connection as PostgresConnection).rollback();
  }

  async releaseConnection(connection: DatabaseConnection): Promise<void> {
    (connection as PostgresConnection).release();
  }

  async destroy(): Promise<void> {
    this.#reach.close();
    await this.#pool.end();
  }

  async #connect(giveUpAt: number): Promise<PoolClient> {
    for (;;) {
      await this.#reach.within(giveUpAt);
      try {
        const client = await this.#pool.connect();
        if (this.#statements.areCurrentIn(client)) return client;
        client.release(true);
      } catch (error) {
        if (this.#reach.isClosed) throw plain(error);
        void this.#reach.lost(messageOf(error)).catch(() => {});
      }
    }
  }
}

type Query = Pick<CompiledQuery, 'sql' | 'parameters'>;

/** An earlier statement of the transaction has failed. */
const alreadyFailed = '25P02';
/** A statement was prepared before somebody changed the tables that it reads. */
const changedTables = '0A000';

/** A connection, from when it is taken out of the pool until it is given back. */
export class PostgresConnection implements DatabaseConnection {
  readonly #connect: (giveUpAt: number) => Promise<PoolClient>;
  readonly #giveUpAt: () => number;
  readonly #statements: Statements;
  #client: PoolClient;
  #isTransaction = false;
  #isLost = false;
  #isReleased = false;
  /** Why the first thing failed that nobody waited for. */
  #failure: Error | undefined;

  constructor(
    client: PoolClient,
    connect: (giveUpAt: number) => Promise<PoolClient>,
    giveUpAt: () => number,
    statements: Statements,
  ) {
    this.#client = client;
    this.#connect = connect;
    this.#giveUpAt = giveUpAt;
    this.#statements = statements;
  }

  begin(): void {
    this.#isTransaction = true;
    this.#failure = undefined;
    this.later({ sql: 'begin', parameters: [] });
  }

  async commit(): Promise<void> {
    if (isBroken(this.#client)) this.#isLost = true;
    if (this.#isLost) throw new UnavailableError('the connection was lost before the commit');
    try {
      await this.#ask({ sql: 'commit', parameters: [] }); // which undoes a transaction that has failed, and calls that a success
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      throw new UnavailableError('the connection was lost during the commit', { mayBeDone: true });
    }
    this.#isTransaction = false;
    if (this.#failure) throw this.#failure;
  }

  /** With the connection its transaction is gone: there is nothing left to be undone. */
  async rollback(): Promise<void> {
    try {
      if (this.#isTransaction && !this.#isLost) await this.#ask({ sql: 'rollback', parameters: [] });
    } catch (error) {
      if (!isUnavailable(error)) throw error;
    }
    this.#isTransaction = false;
  }

  async executeQuery<R>(query: Query): Promise<QueryResult<R>> {
    let giveUpAt: number | undefined;
    for (;;) {
      try {
        return resultOf<R>(await this.#ask(query));
      } catch (error) {
        const isStale = codeOf(error) === changedTables && !this.#isTransaction;
        if (!isStale && (this.#isTransaction || !isUnavailable(error))) throw error;
      }
      giveUpAt ??= this.#giveUpAt();
      if (performance.now() > giveUpAt) throw new UnavailableError('the connection was lost again and again');
      this.release();
      this.#client = await this.#connect(giveUpAt);
      this.#isLost = false;
      this.#isReleased = false;
    }
  }

  execute<R>(query: CompiledQuery<R>): Promise<QueryResult<R>> {
    return this.executeQuery<R>(query);
  }

  /** Sends it, and does not wait for what comes of it. In a transaction only, which it ends when it fails. */
  later(query: Query): void {
    this.#ask(query).catch((error: Error) => {
      this.#failure ??= error;
    });
  }

  streamQuery(): never {
    throw new Error('rows are read a page at a time');
  }

  release(): void {
    if (this.#isReleased) return; // no other came in its place
    this.#isReleased = true;
    this.#client.release(this.#isLost || !this.#statements.areCurrentIn(this.#client));
  }

  /** Everything that is thrown here is an `UnavailableError` or a `QueryError`. */
  async #ask(asked: Query): Promise<PgResult> {
    const client = this.#client;
    const { sql: text, parameters } = asked;
    // Others are planned for their values: of a list, whether its project has ten rows or a million makes the plan.
    const name = isPrepared(asked) ? this.#statements.nameOf(text) : undefined;
    try {
      return await client.query({ text, values: [...parameters], ...(name === undefined ? {} : { name }) });
    } catch (error) {
      if (isBroken(client) || isEndOfConnection(error)) {
        this.#isLost = true;
        throw new UnavailableError(`the connection was lost: ${messageOf(error)}`);
      }
      if (codeOf(error) === changedTables) this.#statements.forget();
      throw codeOf(error) === alreadyFailed && this.#failure ? this.#failure : plain(error);
    }
  }
}

const writing = new Set(['INSERT', 'UPDATE', 'DELETE', 'MERGE']);

function resultOf<R>({ command, rowCount, rows }: PgResult): QueryResult<R> {
  return { ...(writing.has(command) ? { numAffectedRows: BigInt(rowCount ?? 0) } : {}), rows: (rows ?? []) as R[] };
}

const broken = new WeakSet<object>();

/**
 * Notes when a connection breaks. Also one that somebody uses: without a listener that would end the process, and who
 * uses it hears of it from the next query.
 */
export function watchBreaking(client: Pick<Client, 'on'>): void {
  client.on('error', () => void broken.add(client));
}

function isBroken(client: object): boolean {
  return broken.has(client);
}

/** The last words of a server that ends a connection: trouble with it, an end on somebody's order, a crash, a time limit. */
const lastWords = /^(08...|57P0.|25P03)$/;

function isEndOfConnection(error: unknown): boolean {
  return lastWords.test(codeOf(error));
}

/** An error of the database in its own words: what it refused and why, by a code. */
export class QueryError extends Error {
  readonly code: string;

  constructor(message: string, code: string) {
    super(message);
    this.name = 'QueryError';
    this.code = code;
  }
}

/** What the driver threw, without the driver, and without the rows that the database may have put into its details. */
export function plain(error: unknown): Error {
  return new QueryError(messageOf(error), codeOf(error));
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}

/** Where a host has several addresses, the one error of all of them has no words of its own. */
export function messageOf(error: unknown): string {
  if (error instanceof AggregateError && error.message === '') return messageOf(error.errors[0]);
  return error instanceof Error ? error.message : String(error);
}
