import type { Connection } from './sqlite-connection.ts';

/** Commit after this many transactions, so that the first need not wait for ever. */
const largestBatch = 128;

/**
 * Transactions that arrive together share one commit, because a commit costs a flush. Each has a savepoint. All are
 * acknowledged once it is on the disk.
 */
export class Writer {
  readonly connection: Connection;
  readonly #waiting: (() => void)[] = [];
  #busy = false;
  #batch: PromiseWithResolvers<void> | undefined;
  #batchSize = 0;

  constructor(connection: Connection) {
    this.connection = connection;
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

  async commitTurn(): Promise<void> {
    const committed = this.#batch?.promise;
    this.#endTurn(false);
    await committed;
  }

  rollBackTurn(): void {
    this.#endTurn(true);
  }

  /** Acknowledged transactions are on the disk. Closing rolls back unfinished ones. */
  close(): void {
    // If all transactions of a batch rolled back, the batch may still be open. Its commit must not follow the close.
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
      // An error such as a full disk makes SQLite drop the whole batch, with its earlier transactions.
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
      next(); // stays busy: the next transaction follows without a gap
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
      batch.resolve();
    } catch (error) {
      if (this.connection.inTransaction) this.connection.run('rollback');
      batch.reject(error);
    }
  }
}
