import type { CompiledQuery, DatabaseConnection, Driver, QueryResult } from 'kysely';
import type { Client, Pool, PoolClient } from 'pg';
import { carriedBy } from '../lib/carried.ts';
import { codeOf } from '../lib/error-code.ts';
import type { Answer, ask, Statement } from './postgres-batch.ts';
import { Statements } from './postgres-statements.ts';
import { comesAgain, isPrepared, type DirectWay, type Explain } from './prepared.ts';
import type { Reach } from './reach.ts';
import { notByKysely } from './session.ts';
import { isUnavailable, UnavailableError } from './unavailable.ts';

type Ask = typeof ask;

/**
 * PostgreSQL for Kysely, over connections that may break at any moment, because the database or the network restarts. A
 * query that was not begun runs on another connection; it waits for one for `waitLimitMs`. A transaction that lost its
 * connection is rolled back, and its caller may begin it again. Only a commit that was cut off has an unknown result.
 *
 * A transaction uses as few round trips as possible. Statements without an awaited result are kept back and sent with
 * the next awaited one: the beginning of the transaction, and changes whose result is not read (`later`). PostgreSQL
 * runs them in the order of the calls, so later statements see them. When one of them fails, everything after it in the
 * transaction fails as well, with the error of the first.
 *
 * The driver's errors refer to the client, with the credentials of its connection. None of that leaves this file.
 */
export class PostgresDriver implements Driver {
  readonly #pool: Pool;
  readonly #reach: Reach;
  readonly #waitLimitMs: number;
  readonly #ask: Ask;
  readonly #statements = new Statements();

  constructor(pool: Pool, reach: Reach, waitLimitMs: number, ask: Ask) {
    this.#ask = ask;
    this.#pool = pool;
    this.#reach = reach;
    this.#waitLimitMs = waitLimitMs;
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<PostgresConnection> {
    return this.open();
  }

  open(): PostgresConnection {
    const giveUpAt = (): number => performance.now() + this.#waitLimitMs;
    return new PostgresConnection((until) => this.#connect(until), giveUpAt, this.#statements, this.#ask);
  }

  /** Runs a query outside a transaction. */
  async read<R>(query: Query): Promise<QueryResult<R>> {
    const connection = this.open();
    try {
      return await connection.executeQuery<R>(query);
    } finally {
      connection.release();
    }
  }

  readonly beginTransaction = notByKysely;
  readonly commitTransaction = notByKysely;
  readonly rollbackTransaction = notByKysely;

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

/** A change whose result is not awaited, and how to explain its failure where the database's error says too little. */
interface Change {
  query: Query;
  explain?: Explain | undefined;
}

const begin: Change = { query: comesAgain({ sql: 'begin', parameters: [] }) };
const commit: Change = { query: comesAgain({ sql: 'commit', parameters: [] }) };
const rollback: Change = { query: comesAgain({ sql: 'rollback', parameters: [] }) };

/** An earlier statement of the transaction has failed. */
const alreadyFailed = '25P02';
/** The tables changed after a statement was prepared. */
const changedTables = '0A000';
/** At most this many changes are kept back, so that PostgreSQL begins while more are made. */
const mostUnsent = 32;

/** A connection between taking it from the pool and giving it back. It is taken with the first query. */
export class PostgresConnection implements DatabaseConnection, DirectWay {
  readonly #connect: (giveUpAt: number) => Promise<PoolClient>;
  readonly #giveUpAt: () => number;
  readonly #statements: Statements;
  readonly #ask: Ask;
  #client: PoolClient | undefined;
  #taking: Promise<PoolClient> | undefined;
  #isTransaction = false;
  /** Whether the beginning of the transaction was sent. */
  #isBegun = false;
  #isLost = false;
  /** Whether the last query was sent with the commit. */
  #isCommitted = false;
  #unsent: Change[] = [];
  /** The first error of a change that was not awaited. */
  #failure: Error | undefined;

  constructor(
    connect: (giveUpAt: number) => Promise<PoolClient>,
    giveUpAt: () => number,
    statements: Statements,
    ask: Ask,
  ) {
    this.#connect = connect;
    this.#giveUpAt = giveUpAt;
    this.#statements = statements;
    this.#ask = ask;
  }

  begin(): void {
    this.#isTransaction = true;
  }

  /**
   * A transaction of changes whose results were not read is sent as a whole: PostgreSQL makes one transaction of
   * statements that come together, and commits it when all are done.
   */
  async commit(): Promise<void> {
    if (!this.#isCommitted) await this.#commit();
  }

  /** Sends a query with the commit. Its answer is known when everything is durable. */
  async executeLast<R>(query: Query): Promise<QueryResult<R>> {
    this.#unsent.push({ query });
    const at = this.#isBegun ? -2 : -1; // the answer of a commit comes last
    const answers = await this.#commit();
    this.#isCommitted = true;
    return resultOf<R>(answers.at(at));
  }

  async #commit(): Promise<Answer[]> {
    const changes = this.#isBegun ? this.#takeUnsent(commit) : this.#unsent;
    this.#unsent = [];
    this.#isTransaction = this.#isBegun;
    if (changes.length === 0) return [];
    const client = await this.#taken();
    if (isBroken(client)) this.#isLost = true;
    if (this.#isLost) throw new UnavailableError('the connection was lost before the commit');
    try {
      const answers = await this.#send(client, changes);
      this.#isTransaction = false;
      // PostgreSQL answers the commit of a failed transaction with a rollback.
      if (answers.at(-1)?.command === 'ROLLBACK')
        throw this.#failure ?? new QueryError('the transaction had failed', alreadyFailed);
      return answers;
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      throw new UnavailableError('the connection was lost during the commit', { mayBeDone: true });
    }
  }

  /** A lost connection has already lost its transaction: nothing is left to roll back. */
  async rollback(): Promise<void> {
    this.#unsent = [];
    const client = this.#client;
    try {
      if (client && this.#isTransaction && this.#isBegun && !this.#isLost) await this.#send(client, [rollback]);
    } catch (error) {
      if (!isUnavailable(error)) throw error;
    }
    this.#isTransaction = false;
  }

  async executeQuery<R>(query: Query): Promise<QueryResult<R>> {
    if (this.#isCommitted) throw new Error('the transaction is committed already');
    if (this.#isTransaction) {
      const changes = this.#takeUnsent({ query });
      return resultOf<R>((await this.#send(await this.#taken(), changes)).at(-1));
    }
    let giveUpAt: number | undefined;
    for (;;) {
      try {
        return resultOf<R>((await this.#send(await this.#taken(giveUpAt), [{ query }])).at(-1));
      } catch (error) {
        if (codeOf(error) !== changedTables && !(isUnavailable(error) && this.#isLost)) throw error;
      }
      giveUpAt ??= this.#giveUpAt();
      if (performance.now() > giveUpAt) throw new UnavailableError('the connection was lost repeatedly');
      this.release();
    }
  }

  execute<R>(query: CompiledQuery<R>): Promise<QueryResult<R>> {
    return this.executeQuery<R>(query);
  }

  /** Sends the change with the next query, or with the commit. Only in a transaction, which fails with the change. */
  later(query: Query, explain?: Explain): void {
    if (this.#isCommitted) throw new Error('the transaction is committed already');
    this.#unsent.push({ query, explain });
    if (this.#unsent.length < mostUnsent) return;
    const changes = this.#takeUnsent();
    this.#taken()
      .then((client) => this.#send(client, changes))
      .catch((error: Error) => {
        this.#failure ??= error;
      });
  }

  streamQuery(): never {
    throw new Error('rows are read a page at a time');
  }

  /** Gives the connection back to the pool. */
  release(): void {
    const client = this.#client;
    if (!client) return;
    this.#client = undefined;
    this.#taking = undefined;
    client.release(this.#isLost || !this.#statements.areCurrentIn(client));
    this.#isLost = false;
  }

  /** Concurrent callers get the connection in the order in which they asked. */
  #taken(giveUpAt = this.#giveUpAt()): Promise<PoolClient> {
    this.#taking ??= this.#connect(giveUpAt).then((client) => (this.#client = client));
    return this.#taking;
  }

  #takeUnsent(...more: Change[]): Change[] {
    const changes = this.#isBegun ? [...this.#unsent, ...more] : [begin, ...this.#unsent, ...more];
    this.#isBegun = true;
    this.#unsent = [];
    return changes;
  }

  /** Throws only an `UnavailableError`, a `QueryError`, or the explanation that a change gives for one of these. */
  async #send(client: PoolClient, changes: readonly Change[]): Promise<Answer[]> {
    const statements = changes.map(({ query }) => this.#statementOf(query));
    const outcome = await this.#ask(client, statements);
    if (Array.isArray(outcome)) return outcome;
    const { at, error } = outcome;
    if (isBroken(client) || isEndOfConnection(error)) {
      this.#isLost = true;
      throw new UnavailableError(`the connection was lost: ${messageOf(error)}`);
    }
    if (codeOf(error) === changedTables) this.#statements.forget();
    if (codeOf(error) === alreadyFailed && this.#failure) throw this.#failure;
    const why = plain(error);
    const explained = changes[at]?.explain?.(why) ?? why;
    if (at < changes.length - 1) this.#failure ??= explained;
    throw explained;
  }

  /**
   * Other queries are planned for their values: whether a project has ten rows or a million decides the plan of a list.
   */
  #statementOf(query: Query): Statement {
    const { sql: text, parameters: values } = query;
    return { text, values, name: isPrepared(query) ? this.#statements.nameOf(text) : undefined };
  }
}

const writing = new Set(['INSERT', 'UPDATE', 'DELETE', 'MERGE']);

function resultOf<R>(answer: Answer | undefined): QueryResult<R> {
  const { command = '', count = 0, rows = [] } = answer ?? {};
  return { ...(writing.has(command) ? { numAffectedRows: BigInt(count) } : {}), rows: rows as R[] };
}

const stateOf = carriedBy<object, { isBroken: boolean }>(() => ({ isBroken: false }));

/**
 * Notes when a connection breaks, also while it is in use: without a listener the error would end the process. The user
 * of the connection gets the error with the next query.
 */
export function watchBreaking(client: Pick<Client, 'on'>): void {
  client.on('error', () => void (stateOf(client).isBroken = true));
}

function isBroken(client: object): boolean {
  return stateOf(client).isBroken;
}

/** PostgreSQL ends the connection: connection trouble, an administrator's order, a crash, a time limit. */
const lastWords = /^(08...|57P0.|25P03)$/;

function isEndOfConnection(error: unknown): boolean {
  return lastWords.test(codeOf(error));
}

/** An error of the database: what it refused and why, with its code. */
export class QueryError extends Error {
  readonly code: string;

  constructor(message: string, code: string) {
    super(message);
    this.name = 'QueryError';
    this.code = code;
  }
}

/** The error without the driver's objects, and without the rows that the database may have put into its details. */
export function plain(error: unknown): Error {
  return new QueryError(messageOf(error), codeOf(error));
}

/** Where a host has several addresses, the combined error has no message. */
export function messageOf(error: unknown): string {
  if (error instanceof AggregateError && error.message === '') return messageOf(error.errors[0]);
  return error instanceof Error ? error.message : String(error);
}
