import { setTimeout as pause } from 'node:timers/promises';
import { UnavailableError } from './unavailable.ts';

const shortestPause = 50;
const longestPause = 500;

/**
 * While a database is unreachable, one caller tries to connect for all: hundreds of attempts would slow down its start.
 */
export class Reach {
  readonly #knock: () => Promise<void>;
  readonly #onLost: (error: Error) => void;
  readonly #closing = new AbortController();
  #back: Promise<void> | undefined;

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

  /** Call this if no connection opens. Resolves once a connection opens, rejects when the database was closed. */
  lost(why: string): Promise<void> {
    if (!this.#back) {
      if (!this.isClosed) this.#onLost(new UnavailableError(`the database cannot be reached: ${why}`));
      this.#back = this.#untilBack().finally(() => (this.#back = undefined));
      this.#back.catch(() => {}); // the callers that wait for it get the error
    }
    return this.#back;
  }

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
