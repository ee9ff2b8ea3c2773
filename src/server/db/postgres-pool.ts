import type { PostgresPool, PostgresPoolClient } from 'kysely';
import type { Client, ClientConfig, Pool, PoolClient, QueryResult } from 'pg';
import { codeOf, messageOf } from '../../shared/lib/error-code.ts';
import type { Reach } from './reach.ts';
import { isUnavailable, UnavailableError } from './unavailable.ts';

/**
 * Connections may break at any moment. A query outside a transaction reruns on another connection. The broken
 * connection is returned to the pool first: otherwise queries that lost their connections together would wait for each
 * other. A transaction that lost its connection is rolled back, and its caller may begin it again. Only an interrupted
 * commit has an unknown result.
 *
 * The driver's errors refer to the client, with the credentials of its connection. They never leave this file.
 */
export interface PoolParts {
  pool: Pool;
  reach: Reach;
  waitLimitMs: number;
  /** Called when a query got no free connection in time. */
  onBusy: (error: Error) => void;
  onRead: (milliseconds: number) => void;
}

/** The pool's error if no connection became free within its `connectionTimeoutMillis`. */
const noneFree = 'timeout exceeded when trying to connect';

export function lastingPool(parts: PoolParts): PostgresPool {
  const { pool, reach, waitLimitMs, onBusy } = parts;
  const connect = async (giveUpAt: number): Promise<PoolClient> => {
    for (;;) {
      await reach.within(giveUpAt);
      try {
        return await pool.connect();
      } catch (error) {
        if (reach.isClosed) throw plain(error);
        if (messageOf(error) === noneFree) {
          const busy = new UnavailableError('all connections to the database are in use');
          onBusy(busy);
          throw busy;
        }
        void reach.lost(messageOf(error)).catch(() => {});
      }
    }
  };
  return {
    connect: async () =>
      // Rows are never streamed, so a lease takes no cursors.
      new Lease(await connect(performance.now() + waitLimitMs), connect, parts) as unknown as PostgresPoolClient,
    end: () => pool.end(),
  };
}

class Lease {
  #client: PoolClient | undefined;
  readonly #connect: (giveUpAt: number) => Promise<PoolClient>;
  readonly #parts: PoolParts;
  #transaction: 'none' | 'open' | 'over' = 'none';
  #isLost = false;

  constructor(client: PoolClient, connect: (giveUpAt: number) => Promise<PoolClient>, parts: PoolParts) {
    this.#client = client;
    this.#connect = connect;
    this.#parts = parts;
  }

  async query(text: string, values: unknown[] = []): Promise<QueryResult> {
    if (text === 'rollback') return this.#rollback();
    // A query without a waiting caller must not run outside its transaction, or in the next one.
    if (this.#transaction === 'over') throw new Error('the transaction is over');
    if (text === 'commit') return this.#commit();
    if (text === 'begin') this.#transaction = 'open';
    return this.#transaction === 'open' ? this.#ask(text, values) : this.#read(text, values);
  }

  release(): void {
    this.#transaction = 'over';
    this.#giveBack();
  }

  #giveBack(): void {
    this.#client?.release(this.#isLost);
    this.#client = undefined;
  }

  async #read(text: string, values: unknown[]): Promise<QueryResult> {
    const beganAt = performance.now();
    const giveUpAt = beganAt + this.#parts.waitLimitMs;
    for (;;) {
      try {
        return await this.#ask(text, values);
      } catch (error) {
        if (!isUnavailable(error)) throw error;
        if (performance.now() > giveUpAt) throw new UnavailableError('the connection was lost repeatedly');
      } finally {
        this.#parts.onRead(performance.now() - beganAt);
      }
      this.#giveBack();
      this.#client = await this.#connect(giveUpAt);
      this.#isLost = false;
    }
  }

  async #commit(): Promise<QueryResult> {
    this.#transaction = 'over';
    if (this.#client && isBroken(this.#client)) this.#isLost = true;
    if (this.#isLost) throw new UnavailableError('the connection was lost before the commit');
    try {
      const result = await this.#ask('commit', []);
      // PostgreSQL responds to the commit of a failed transaction with a rollback.
      if (result.command === 'ROLLBACK') throw new QueryError('the transaction had failed', alreadyFailed);
      return result;
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      throw new UnavailableError('the connection was lost during the commit', { mayBeDone: true });
    }
  }

  async #rollback(): Promise<QueryResult> {
    this.#transaction = 'over';
    const nothing: QueryResult = { command: 'ROLLBACK', rowCount: 0, oid: 0, fields: [], rows: [] };
    if (this.#isLost) return nothing;
    try {
      return await this.#ask('rollback', []);
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      return nothing;
    }
  }

  /** Throws only an `UnavailableError` or a `QueryError`. */
  async #ask(text: string, values: unknown[]): Promise<QueryResult> {
    const client = this.#client;
    if (!client) throw new UnavailableError('the connection was lost');
    try {
      return await client.query(text, values);
    } catch (error) {
      if (!isBroken(client) && !endOfConnection.test(codeOf(error))) throw plain(error);
      this.#isLost = true;
      throw new UnavailableError(`the connection was lost: ${messageOf(error)}`);
    }
  }
}

const alreadyFailed = '25P02';
/** Connection trouble, an administrator's order, a crash, a time limit. */
const endOfConnection = /^(08...|57P0.|25P03)$/;

/** Without a listener, a connection that breaks while in use would end the process. */
export function watchedClient(Base: typeof Client, connectWithinMs: number): typeof Client {
  return class extends Base {
    isBroken = false;

    constructor(config?: ClientConfig) {
      super({ ...config, connectionTimeoutMillis: connectWithinMs });
      this.on('error', () => (this.isBroken = true));
    }
  };
}

function isBroken(client: object): boolean {
  return 'isBroken' in client && client.isBroken === true;
}

export class QueryError extends Error {
  readonly code: string;

  constructor(message: string, code: string) {
    super(message);
    this.name = 'QueryError';
    this.code = code;
  }
}

/** Without the driver's objects, and without rows that the database may have put into its details. */
export function plain(error: unknown): Error {
  return new QueryError(messageOf(error), codeOf(error));
}
