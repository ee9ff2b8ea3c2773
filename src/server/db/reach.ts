import { setTimeout as pause } from 'node:timers/promises';
import { UnavailableError } from './unavailable.ts';

const shortestPause = 50;
const longestPause = 500;

/**
 * Whether a database can be reached. While it cannot, one caller tries to connect and all others wait for it: hundreds
 * of attempts at once would only slow down a database that starts.
 */
export class Reach {
  readonly #knock: () => Promise<void>;
  readonly #onLost: (error: Error) => void;
  readonly #closing = new AbortController();
  #back: Promise<void> | undefined;

  /** `knock` resolves when a connection was opened. */
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

  /** A connection could not be opened. Resolves when one could, and rejects when the database was closed. */
  lost(why: string): Promise<void> {
    if (!this.#back) {
      if (!this.isClosed) this.#onLost(new UnavailableError(`the database cannot be reached: ${why}`));
      this.#back = this.#untilBack().finally(() => (this.#back = undefined));
      this.#back.catch(() => {}); // the callers that wait for it get the error
    }
    return this.#back;
  }

  /** Resolves when the database can be reached; rejects at `giveUpAt`. */
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
        // The first failure was already reported.
      }
    }
  }
}
