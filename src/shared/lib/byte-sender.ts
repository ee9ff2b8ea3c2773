import { orAborted } from './or-aborted.ts';

export interface ByteSending {
  /** Sends bytes at a position. Returns how far the other end has them; undefined where that is not known. */
  send: (offset: number, bytes: Uint8Array) => Promise<number | undefined>;
  /** The most in one piece. */
  mostBytes: number;
  /** A writer that is further ahead of the other end waits. */
  aheadBytes: number;
  /** How many bytes are kept that the other end already has: it may ask for them again. */
  keptBytes?: number;
  signal: AbortSignal;
}

/**
 * Sends bytes to another end that says how far it has them. So nothing is lost or sent twice when a message or its
 * answer gets lost. Both ends of a shell use it, in pages too: there is nothing of Node in it.
 */
export class ByteSender {
  readonly #sending: ByteSending;
  /** Holds the bytes of the positions from `#base` to `#end`, the first of them at `#start`. */
  #room = new Uint8Array();
  #start = 0;
  #base = 0;
  #end = 0;
  /** Where the other end is. */
  #at = 0;
  #news = Promise.withResolvers<void>();

  constructor(sending: ByteSending) {
    this.#sending = sending;
  }

  get at(): number {
    return this.#at;
  }

  /** Whether the other end has everything. */
  get isDone(): boolean {
    return this.#at >= this.#end;
  }

  /** Settles when there is room for more. */
  async push(bytes: Uint8Array): Promise<void> {
    const { aheadBytes, signal } = this.#sending;
    const length = this.#end - this.#base;
    if (this.#start + length + bytes.length > this.#room.length) {
      // Twice what is needed, so that over time each byte is copied about once.
      const larger = new Uint8Array(2 * (length + bytes.length));
      larger.set(this.#room.subarray(this.#start, this.#start + length));
      [this.#room, this.#start] = [larger, 0];
    }
    this.#room.set(bytes, this.#start + length);
    this.#end += bytes.length;
    this.#tell();
    while (this.#end - this.#at > aheadBytes && !signal.aborted) await this.#change(signal);
  }

  /** Sends what is pushed, until the signal. */
  async run(): Promise<void> {
    const { send, mostBytes, keptBytes = 0, signal } = this.#sending;
    while (!signal.aborted) {
      if (this.isDone) {
        await this.#change(signal);
        continue;
      }
      const from = this.#start + this.#at - this.#base;
      const to = Math.min(from + mostBytes, this.#start + this.#end - this.#base);
      const taken = await send(this.#at, this.#room.subarray(from, to));
      if (taken === undefined) continue;
      this.#at = Math.max(this.#base, Math.min(taken, this.#end));
      const spare = Math.max(0, this.#at - this.#base - keptBytes);
      this.#start += spare;
      this.#base += spare;
      this.#tell();
    }
  }

  /** Settles when the other end has everything, or with the signal. */
  async flush(signal: AbortSignal): Promise<void> {
    while (!this.isDone && !signal.aborted) await this.#change(signal);
  }

  async #change(signal: AbortSignal): Promise<void> {
    await orAborted(this.#news.promise, signal).catch(() => {});
  }

  #tell(): void {
    this.#news.resolve();
    this.#news = Promise.withResolvers<void>();
  }
}
