import { orAborted } from './or-aborted.ts';

export interface ByteSending {
  /** Returns how far the other end has the bytes, or undefined if unknown. */
  send: (offset: number, bytes: Uint8Array) => Promise<number | undefined>;
  mostBytes: number;
  /** A writer that is further ahead of the other end waits. */
  aheadBytes: number;
  /** Received bytes that are kept, because the other end may request them again. */
  keptBytes?: number;
  signal: AbortSignal;
}

/** Lost messages neither lose nor repeat bytes. Pages use it too, so it needs nothing of Node. */
export class ByteSender {
  readonly #sending: ByteSending;
  /** The bytes of the positions from `#base` to `#end`. The first is at `#start`. */
  #room = new Uint8Array();
  #start = 0;
  #base = 0;
  #end = 0;
  #at = 0;
  #news = Promise.withResolvers<void>();

  constructor(sending: ByteSending) {
    this.#sending = sending;
  }

  get at(): number {
    return this.#at;
  }

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
