import { orAborted } from '../shared/lib/or-aborted.ts';

/**
 * Detects that a runner had no job for a time. A slot rests if the server responded after that time and gave no order,
 * so time without a server does not count. The time is over when all slots rest.
 */
export class IdleTime {
  readonly #ms: number;
  readonly #isBusy: () => boolean;
  #slots: number;
  #resting = 0;
  #since = performance.now();
  #decided = Promise.withResolvers<boolean>();

  constructor({ ms, slots, isBusy }: { ms: number; slots: number; isBusy: () => boolean }) {
    this.#ms = ms;
    this.#slots = slots;
    this.#isBusy = isBusy;
  }

  leftMs(): number {
    if (this.#isBusy()) return this.#ms;
    return Math.max(0, Math.ceil(this.#since + this.#ms - performance.now()));
  }

  /** Restarts the time. Resting slots request an order again. */
  restart(): void {
    this.#since = performance.now();
    this.#decide(false);
  }

  /** Called by a slot that got no order. Resolves with false if the slot must request one again. */
  async isOver(signal: AbortSignal): Promise<boolean> {
    if (this.leftMs() > 0) return false;
    const { promise } = this.#decided;
    this.#resting += 1;
    if (this.#resting === this.#slots) this.#decide(true);
    return orAborted(promise, signal);
  }

  /** Called by a slot that requests no more orders. */
  leave(): void {
    this.#slots -= 1;
    if (this.#resting > 0 && this.#resting === this.#slots) this.#decide(true);
  }

  #decide(isOver: boolean): void {
    const { resolve } = this.#decided;
    this.#decided = Promise.withResolvers();
    this.#resting = 0;
    resolve(isOver);
  }
}
