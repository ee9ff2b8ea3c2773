import { setImmediate as nextTurn } from 'node:timers/promises';

/** For so long one query may follow another, in milliseconds. */
const longestMs = 10;

/**
 * SQLite answers at once, so work that makes one query after the other would never let the event loop turn, and nobody
 * else would be answered while somebody applies a large document. After a while the next query waits for the next turn.
 */
export class LoopTurns {
  #beganAt: number | undefined;

  /** What a query has to wait for; undefined where it may go on. */
  get wait(): Promise<void> | undefined {
    const now = performance.now();
    if (this.#beganAt === undefined) {
      this.#beganAt = now;
      setImmediate(() => (this.#beganAt = undefined));
    }
    return now - this.#beganAt < longestMs ? undefined : nextTurn();
  }
}
