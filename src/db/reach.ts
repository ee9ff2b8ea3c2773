import { setTimeout as pause } from 'node:timers/promises';
import { UnavailableError } from './unavailable.ts';

const shortestPause = 50;
const longestPause = 500;

/**
 * Whether a database elsewhere can be reached. While it cannot, one alone knocks, and everybody else waits for that one:
 * hundreds who knock at once would only be in the way of a database that starts.
 */
export class Reach {
  readonly #knock: () => Promise<void>;
  readonly #onLost: (error: Error) => void;
  readonly #closing = new AbortController();
  #back: Promise<void> | undefined;

  /** `knock` resolves when a connection could be made. */
  constructor(knock: () => Promise<void>, onLost: (error: Error) => void) {
    this.#knock = knock;
    this.#onLost = onLost;
  }

  get isAway(): boolean {
    return this.#back !== undefined;
  }

  get isClosed(): boolean {
    return this.#closing.signal.aborted;
  }

  /** A connection could not be made. Resolves when one could be, and rejects when nobody wants one any more. */
  lost(why: string): Promise<void> {
    if (!this.#back) {
      if (!this.isClosed) this.#onLost(new UnavailableError(`the database cannot be reached: ${why}`));
      this.#back = this.#untilBack().finally(() => (this.#back = undefined));
      this.#back.catch(() => {}); // those who wait for it are told
    }
    return this.#back;
  }

  /** Resolves when it is not away, or rejects when that takes longer than until `giveUpAt`. */
  async within(giveUpAt: number): Promise<void> {
    if (!this.#back) return;
    const { promise, reject } = Promise.withResolvers<never>();
    const late = (): void => reject(new UnavailableError('the database cannot be reached'));
    const timer = setTimeout(late, Math.max(giveUpAt - performance.now(), 0));
    try {
      await Promise.race([this.#back, promise]);
    } finally {
      clearTimeout(timer);
    }
  }

  close(): void {
    this.#closing.abort();
  }

  async #untilBack(): Promise<void> {
    const { signal } = this.#closing;
    for (let wait = shortestPause; ; wait = Math.min(2 * wait, longestPause)) {
      await pause(wait, undefined, { signal }).catch(() => {});
      if (signal.aborted) throw new Error('the database was closed');
      try {
        return await this.#knock();
      } catch {
        // Why is known since the first time.
      }
    }
  }
}
