import { ByteSender } from '../lib/byte-sender.ts';
import { orAborted } from '../lib/or-aborted.ts';
import { shellFrame, shellFrameReader, type ShellFrame } from './shell-frames.ts';

export interface ShellRoutes {
  /** `data` is base64. The answer is the position up to which the shell has the bytes. */
  type: (typed: { offset: string; data: string }) => Promise<{ taken: number }>;
  output: (from: number, signal: AbortSignal) => AsyncIterable<Uint8Array>;
  /** A retry may succeed. */
  isPassing: (error: unknown) => boolean;
}

const awayMs = 45_000;
const pauseMs = 500;
/** A keep-alive: the server gives up a user who is silent for `awayMs`. */
const hereEveryMs = 10_000;
const mostBytes = 32 * 1024;
/** Input that is further ahead of the shell waits. */
const aheadBytes = 256 * 1024;

/**
 * The user's end of a shell, for the command line and pages. An interrupted connection resumes: nothing is typed or
 * shown twice. Bytes are lost only if the server is unreachable for so long that it gives the shell up.
 */
export class ShellConnection {
  readonly #routes: ShellRoutes;
  readonly #over = new AbortController();
  readonly #sender = new ByteSender({
    send: (offset, bytes) => this.#type(offset, bytes),
    mostBytes,
    aheadBytes,
    signal: this.#over.signal,
  });
  /** Errors are ignored: the next call repeats it, and `frames` reports a shell that is over. */
  readonly #keepAlive = setInterval(() => {
    this.#routes.type({ offset: String(this.#sender.at), data: '' }).catch(() => {});
  }, hereEveryMs);

  constructor(routes: ShellRoutes) {
    this.#routes = routes;
    this.#sender.run().catch(() => this.end());
  }

  end(): void {
    clearInterval(this.#keepAlive);
    this.#over.abort();
  }

  /** Settles when there is room for more. */
  async send(frame: Uint8Array): Promise<void> {
    await this.#sender.push(frame);
  }

  type(typed: Uint8Array | string): Promise<void> {
    const bytes = typeof typed === 'string' ? new TextEncoder().encode(typed) : typed;
    let sent = Promise.resolve();
    for (let at = 0; at < bytes.length; at += mostBytes)
      sent = this.send(shellFrame('d', bytes.subarray(at, at + mostBytes)));
    return sent;
  }

  async *frames(): AsyncGenerator<ShellFrame> {
    const { output, isPassing } = this.#routes;
    const { signal } = this.#over;
    const read = shellFrameReader();
    let position = 0;
    for (let heardAt = performance.now(); !signal.aborted; await this.#pause()) {
      // Announces that the user is back, who may have missed output.
      if (position > 0) void this.send(shellFrame('p'));
      try {
        for await (const piece of output(position, signal)) {
          heardAt = performance.now();
          position += piece.length;
          yield* read(piece);
        }
      } catch (error) {
        if (signal.aborted) return;
        if (!isPassing(error) || performance.now() - heardAt > awayMs) throw error;
      }
    }
  }

  async #type(offset: number, bytes: Uint8Array): Promise<number> {
    const typed = { offset: String(offset), data: btoa(String.fromCharCode(...bytes)) };
    for (const since = performance.now(); ; await this.#pause()) {
      try {
        return (await this.#routes.type(typed)).taken;
      } catch (error) {
        const isLate = performance.now() - since > awayMs || this.#over.signal.aborted;
        if (isLate || !this.#routes.isPassing(error)) throw error;
      }
    }
  }

  async #pause(): Promise<void> {
    const paused = new Promise((resolve) => setTimeout(resolve, pauseMs));
    await orAborted(paused, this.#over.signal).catch(() => {});
  }
}
