import type { Connection } from './sqlite-connection.ts';

/** A batch is committed at this many transactions, so that the first in it does not wait for ever. */
const largestBatch = 128;

/**
 * Lets transactions in one at a time, each in a savepoint. Those that arrive together share one commit, and all are
 * acknowledged when it is on the disk: a commit costs a flush, so sharing it allows many small writes without giving up
 * durability.
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
      batch.resolve();
    } catch (error) {
      if (this.connection.inTransaction) this.connection.run('rollback');
      batch.reject(error);
    }
  }
}
