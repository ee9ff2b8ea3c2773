import { CompiledQuery, type DatabaseConnection, type Driver, type QueryResult } from 'kysely';
import type { Client, Pool, PoolClient } from 'pg';
import type { Reach } from './reach.ts';
import { isUnavailable, UnavailableError } from './unavailable.ts';

/**
 * PostgreSQL for Kysely, over connections that may break at any moment: somebody restarts it, or a network in between.
 * What was not begun yet is simply done on another connection; it waits for one for `patienceMs`. What was lost in the
 * middle of a transaction is undone, and who began the transaction may begin it again. Only of a commit nobody knows.
 *
 * The driver's errors hold the driver: the client, with the keys to its connection. Nothing of that leaves this file.
 */
export class PostgresDriver implements Driver {
  readonly #pool: Pool;
  readonly #reach: Reach;
  readonly #patienceMs: number;

  constructor(pool: Pool, reach: Reach, patienceMs: number) {
    this.#pool = pool;
    this.#reach = reach;
    this.#patienceMs = patienceMs;
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<DatabaseConnection> {
    const giveUpAt = (): number => performance.now() + this.#patienceMs;
    return new Connection(await this.#connect(giveUpAt()), (until) => this.#connect(until), giveUpAt);
  }

  async beginTransaction(connection: DatabaseConnection): Promise<void> {
    await (connection as Connection).begin();
  }

  async commitTransaction(connection: DatabaseConnection): Promise<void> {
    await (connection as Connection).commit();
  }

  async rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    await (connection as Connection).rollback();
  }

  async releaseConnection(connection: DatabaseConnection): Promise<void> {
    (connection as Connection).release();
  }

  async destroy(): Promise<void> {
    this.#reach.close();
    await this.#pool.end();
  }

  async #connect(giveUpAt: number): Promise<PoolClient> {
    for (;;) {
      await this.#reach.within(giveUpAt);
      try {
        return await this.#pool.connect();
      } catch (error) {
        if (this.#reach.isClosed) throw plain(error);
        void this.#reach.lost(messageOf(error)).catch(() => {});
      }
    }
  }
}

class Connection implements DatabaseConnection {
  readonly #connect: (giveUpAt: number) => Promise<PoolClient>;
  readonly #giveUpAt: () => number;
  #client: PoolClient;
  #isTransaction = false;
  #isLost = false;
  #isReleased = false;

  constructor(client: PoolClient, connect: (giveUpAt: number) => Promise<PoolClient>, giveUpAt: () => number) {
    this.#client = client;
    this.#connect = connect;
    this.#giveUpAt = giveUpAt;
  }

  async begin(): Promise<void> {
    await this.executeQuery(CompiledQuery.raw('begin'));
    this.#isTransaction = true;
  }

  async commit(): Promise<void> {
    if (isBroken(this.#client)) this.#isLost = true;
    if (this.#isLost) throw new UnavailableError('the connection was lost before the commit');
    try {
      await this.executeQuery(CompiledQuery.raw('commit'));
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      throw new UnavailableError('the connection was lost during the commit', { mayBeDone: true });
    }
    this.#isTransaction = false;
  }

  /** With the connection its transaction is gone: there is nothing left to be undone. */
  async rollback(): Promise<void> {
    try {
      if (!this.#isLost) await this.executeQuery(CompiledQuery.raw('rollback'));
    } catch (error) {
      if (!isUnavailable(error)) throw error;
    }
    this.#isTransaction = false;
  }

  async executeQuery<R>({ sql, parameters }: CompiledQuery): Promise<QueryResult<R>> {
    let giveUpAt: number | undefined;
    for (;;) {
      try {
        const { command, rowCount, rows } = await this.#client.query(sql, [...parameters]);
        const hasCount = command === 'INSERT' || command === 'UPDATE' || command === 'DELETE' || command === 'MERGE';
        return { ...(hasCount ? { numAffectedRows: BigInt(rowCount ?? 0) } : {}), rows: (rows ?? []) as R[] };
      } catch (error) {
        if (!isBroken(this.#client) && !isEndOfConnection(error)) throw plain(error);
        this.#isLost = true;
        if (this.#isTransaction) throw new UnavailableError(`the connection was lost: ${messageOf(error)}`);
      }
      giveUpAt ??= this.#giveUpAt();
      if (performance.now() > giveUpAt) throw new UnavailableError('the connection was lost again and again');
      this.release();
      this.#client = await this.#connect(giveUpAt);
      this.#isLost = false;
      this.#isReleased = false;
    }
  }

  streamQuery(): never {
    throw new Error('rows are read a page at a time');
  }

  release(): void {
    if (this.#isReleased) return; // no other came in its place
    this.#isReleased = true;
    this.#client.release(this.#isLost);
  }
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
