import { orAborted } from '../lib/or-aborted.ts';

/**
 * Of the executors that have nothing to do, one asks for work: each request that is held costs the server a connection.
 * While work comes, all of them ask, so that a runner that gets much at once is busy at once.
 */
export class Askers {
  #asking = 0;
  #isOver = false;
  #called = Promise.withResolvers<void>();

  /** Makes the call. Where nothing came of it and another one still asks, waits until that one got something. */
  async ask<T>(call: () => Promise<T | undefined>, signal: AbortSignal): Promise<T | undefined> {
    this.#asking += 1;
    let answer: T | undefined;
    try {
      answer = await call();
    } catch (error) {
      this.#callAll(); // each finds out for itself that there is nothing to wait for
      throw error;
    } finally {
      this.#asking -= 1;
    }
    if (answer !== undefined) this.#callAll();
    else if (this.#asking > 0 && !this.#isOver) await orAborted(this.#called.promise, signal);
    return answer;
  }

  /** From now on nobody waits for another. */
  end(): void {
    this.#isOver = true;
    this.#callAll();
  }

  #callAll(): void {
    this.#called.resolve();
    this.#called = Promise.withResolvers<void>();
  }
}
