import {
  Transaction as KyselyTransaction,
  type ConnectionProvider,
  type DatabaseConnection,
  type Dialect,
  type Kysely,
} from 'kysely';
import { endDirectWay, goDirectly, type DirectWay } from './prepared.ts';
import type { Schema } from './schema.ts';

/** The database connection of one running transaction. */
export interface Session extends DatabaseConnection, DirectWay {
  /** Resolves once everything is durable. */
  commit(): Promise<void>;
  /** Also called after a commit that failed. */
  rollback(): Promise<void>;
  release(): void;
}

type Transaction = KyselyTransaction<Schema>;

/**
 * Runs transactions. Kysely's own transactions create a dozen objects and wait as many times, which takes longer than a
 * small change itself.
 */
export function transactionsOn(
  database: Kysely<Schema>,
  dialect: Dialect,
): <T>(session: Session, work: (trx: Transaction) => Promise<T>) => Promise<T> {
  const frame = { config: { dialect }, dialect, driver: dialect.createDriver() };
  const executor = database.getExecutor();
  return async (session, work) => {
    let isOver = false;
    const provider: ConnectionProvider = {
      async provideConnection(consumer) {
        if (isOver) throw new Error('the transaction is over');
        return consumer(session);
      },
    };
    const trx: Transaction = new KyselyTransaction({ ...frame, executor: executor.withConnectionProvider(provider) });
    goDirectly(trx, session);
    try {
      let result;
      try {
        result = await work(trx);
      } finally {
        isOver = true;
        endDirectWay(trx);
      }
      await session.commit();
      return result;
    } catch (error) {
      await session.rollback();
      throw error;
    } finally {
      session.release();
    }
  };
}

/** Kysely must not begin and end transactions. */
export async function notByKysely(this: void): Promise<never> {
  throw new Error('transactions must not begin through Kysely');
}
