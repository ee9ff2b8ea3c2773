import { setTimeout as pause } from 'node:timers/promises';
import type { Client, Params } from '../client/client.ts';
import { Failure } from '../client/failure.ts';
import { shellFrame, shellFrameReader, type ShellFrame } from '../lib/shell-frames.ts';

/**
 * This end of the bytes of a shell. A connection that breaks is opened again where it broke: nothing is typed or shown twice,
 * and nothing is lost, unless the server is away for so long that it has given the shell up.
 */
const awayMs = 45_000;
const pauseMs = 500;
/** How often the server is told that somebody is there: it gives up who was not heard of for `awayMs`. */
const hereEveryMs = 10_000;
/** One message carries at most so much. */
const mostBytes = 32 * 1024;
/** Whoever types more ahead of the shell waits. */
const mostAhead = 256 * 1024;

export class ShellConnection {
  readonly #client: Client;
  readonly #place: Params;
  readonly #over = new AbortController();
  /** What is still to be sent, from position `#at` on. */
  #unsent: Buffer = Buffer.alloc(0);
  #at = 0;
  #news = Promise.withResolvers<void>();
  #isHereDue = false;
  readonly #saying = setInterval(() => {
    this.#isHereDue = true;
    this.#tell();
  }, hereEveryMs);

  constructor(client: Client, place: Params) {
    this.#client = client;
    this.#place = place;
  }

  get signal(): AbortSignal {
    return this.#over.signal;
  }

  end(): void {
    clearInterval(this.#saying);
    this.#over.abort();
    this.#tell();
  }

  /** Settles when there is room for more. */
  async send(frame: Buffer): Promise<void> {
    this.#unsent = Buffer.concat([this.#unsent, frame]);
    this.#tell();
    while (this.#unsent.length > mostAhead && !this.signal.aborted) await this.#news.promise;
  }

  /** Sends what is to be sent, until the shell is over. */
  async sendAll(): Promise<void> {
    while (!this.signal.aborted) {
      if (this.#unsent.length === 0) {
        if (this.#isHereDue) await this.#sayHere();
        else await this.#news.promise;
        continue;
      }
      const fields = { offset: String(this.#at), data: this.#unsent.subarray(0, mostBytes).toString('base64') };
      const { taken } = await this.#untilAnswered(() => this.#client.call('type', this.#place, fields));
      const done = Math.max(0, Math.min(taken - this.#at, this.#unsent.length));
      this.#unsent = this.#unsent.subarray(done);
      this.#at += done;
      this.#tell();
    }
  }

  /** What the shell sends, until it is over. */
  async *frames(): AsyncGenerator<ShellFrame> {
    const read = shellFrameReader();
    let position = 0;
    for (let heardAt = performance.now(); !this.signal.aborted;) {
      // Says that somebody is back, who may have missed something.
      if (position > 0) void this.send(shellFrame('p'));
      try {
        for await (const piece of this.#client.from('shellOutput', this.#place, position, this.signal)) {
          heardAt = performance.now();
          position += piece.length;
          yield* read(piece);
        }
      } catch (error) {
        if (this.signal.aborted) return;
        if (!isPassing(error) || performance.now() - heardAt > awayMs) throw error;
      }
      await pause(pauseMs, undefined, { signal: this.signal }).catch(() => {});
    }
  }

  /** What goes wrong here, the next one mends, or what is shown tells. */
  async #sayHere(): Promise<void> {
    this.#isHereDue = false;
    await this.#client.call('type', this.#place, { offset: String(this.#at), data: '' }).catch(() => {});
  }

  async #untilAnswered<T>(call: () => Promise<T>): Promise<T> {
    for (const since = performance.now(); ; await pause(pauseMs)) {
      try {
        return await call();
      } catch (error) {
        if (!isPassing(error) || performance.now() - since > awayMs || this.signal.aborted) throw error;
      }
    }
  }

  #tell(): void {
    this.#news.resolve();
    this.#news = Promise.withResolvers<void>();
  }
}

function isPassing(error: unknown): boolean {
  return error instanceof Failure && (error.kind === 'unreachable' || error.kind === 'unavailable');
}
