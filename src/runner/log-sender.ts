import type { DiskReserve } from '../shared/lib/disk-reserve.ts';
import type { CutReason, Link } from '../shared/protocol/index.ts';
import { chunkSize, LogBacklog } from './log-backlog.ts';
import { untilAnswered } from './retry.ts';

/**
 * Sends a log to the server in order and without gaps. While one chunk is being sent, further output gathers for the
 * next. If the server is slow, the job's output waits a moment. If the server is unreachable for longer, output gathers
 * in a file, up to a limit and while the disk has room. Output beyond the log's limit is not sent.
 */
const nothing = new Uint8Array();

export interface LogSender {
  /** The result resolves when there is room for more output, and never rejects. */
  write(bytes: Uint8Array): void | Promise<void>;
  readonly size: number;
  /** Resolves with the log's size on the server when the server has everything or accepts no more. */
  end(): Promise<number>;
  close(): Promise<void>;
}

export interface SenderOptions {
  link: Link;
  claim: string;
  offset: number;
  limit: number;
  spillFile: string;
  disk: Pick<DiskReserve, 'allows'>;
  signal: AbortSignal;
  /** How long output waits for a slow server before it goes to the disk, and before a full disk is retried. */
  pauseMs?: number;
  /** The server no longer needs this job. */
  onGone: () => void;
  onCut: (reason: CutReason) => void;
  /** The server rejects the log although it is within the limit, so output is lost. The server still needs the job. */
  onLost: (error: unknown) => void;
}

export function createLogSender(options: SenderOptions): LogSender {
  return new ChunkSender(options);
}

class ChunkSender implements LogSender {
  readonly #options: SenderOptions;
  readonly #backlog: LogBacklog;
  #sent: number;
  #written: number;
  #isOver = false;
  #sending: Promise<void> | undefined;
  /** Writes that wait for room, in order. */
  #waiting: Promise<void> | undefined;
  #roomy: PromiseWithResolvers<void> | undefined;

  constructor(options: SenderOptions) {
    this.#options = options;
    this.#backlog = new LogBacklog(options.spillFile, options.disk);
    this.#sent = options.offset;
    this.#written = options.offset;
  }

  get size(): number {
    return this.#written;
  }

  write(output: Uint8Array): void | Promise<void> {
    const bytes = this.#isOver ? nothing : this.#upToLimit(output);
    if (bytes.length === 0) return undefined;
    if (!this.#waiting && this.#backlog.fits(bytes)) return this.#gather(bytes);
    const turn = (this.#waiting ?? Promise.resolve())
      .then(() => this.#spillOrWait(bytes))
      .finally(() => {
        if (this.#waiting === turn) this.#waiting = undefined;
      });
    this.#waiting = turn;
    return turn;
  }

  async end(): Promise<number> {
    for (;;) {
      if (this.#isLeft()) this.#start();
      const pending = this.#waiting ?? this.#sending;
      if (!pending) break;
      await pending;
    }
    this.#options.signal.throwIfAborted();
    return this.#sent;
  }

  close(): Promise<void> {
    return this.#backlog.close();
  }

  #upToLimit(bytes: Uint8Array): Uint8Array {
    const { limit, onCut } = this.#options;
    const left = limit - this.#written;
    if (bytes.length > left) onCut('log_too_long');
    const fitting = bytes.length > left ? bytes.subarray(0, Math.max(left, 0)) : bytes;
    this.#written += fitting.length;
    return fitting;
  }

  #gather(bytes: Uint8Array): void {
    this.#backlog.gather(bytes);
    this.#start();
  }

  #isLeft(): boolean {
    return !this.#isOver && !this.#options.signal.aborted && !this.#backlog.isEmpty;
  }

  #start(): void {
    this.#sending ??= this.#sendAll()
      .catch((error: unknown) => this.#lose(error))
      .finally(() => {
        this.#sending = undefined;
        if (this.#isLeft()) this.#start();
      });
  }

  #lose(error: unknown): void {
    if (this.#options.signal.aborted) return; // the caller of `end` gets the signal's reason
    this.#isOver = true;
    this.#roomy?.resolve();
    this.#roomy = undefined;
    this.#options.onLost(error);
  }

  async #sendAll(): Promise<void> {
    for (;;) {
      const bytes = this.#isOver ? undefined : await this.#backlog.take();
      this.#roomy?.resolve();
      this.#roomy = undefined;
      if (!bytes) return;
      await this.#send(bytes);
    }
  }

  async #send(bytes: Buffer): Promise<void> {
    const { link, claim, signal, onCut, onGone } = this.#options;
    const offset = this.#sent;
    const end = offset + bytes.length;
    const receipt = await untilAnswered(signal, async () => {
      const answer = await link.log({ claim, offset, bytes }, signal);
      // The server may still be processing an earlier try of the same chunk, so the whole chunk is sent again.
      if ('expected' in answer && answer.expected >= offset && answer.expected < end)
        throw new Error('the chunk has a wrong offset');
      return answer;
    });
    if ('taken' in receipt || ('expected' in receipt && receipt.expected === end)) {
      this.#sent = end;
    } else if ('refused' in receipt) {
      this.#isOver = true;
      this.#sent = receipt.size;
      onCut(receipt.refused);
    } else {
      this.#isOver = true; // the server lacks bytes that it had confirmed, and they are no longer here
      onGone();
    }
  }

  /** Waits a moment before it uses the disk, because usually the server is fast enough. */
  async #spillOrWait(bytes: Uint8Array): Promise<void> {
    if (bytes.length > chunkSize) {
      for (let from = 0; from < bytes.length; from += chunkSize) {
        const piece = bytes.subarray(from, from + chunkSize);
        await (this.#backlog.fits(piece) ? this.#gather(piece) : this.#spillOrWait(piece));
      }
      return;
    }
    const { signal, pauseMs = 1000 } = this.#options;
    this.#start();
    const moment = AbortSignal.any([signal, AbortSignal.timeout(pauseMs)]);
    while (!this.#backlog.fits(bytes) && !this.#backlog.isInFile && !moment.aborted && !this.#isOver) {
      await this.#room(moment);
    }
    while (!signal.aborted && !this.#isOver) {
      if (this.#backlog.fits(bytes)) return this.#gather(bytes);
      if (await this.#backlog.spill(bytes)) return this.#start();
      await this.#room(AbortSignal.any([signal, AbortSignal.timeout(pauseMs)])); // the disk may have room again
    }
  }

  async #room(until: AbortSignal): Promise<void> {
    if (until.aborted) return;
    this.#roomy ??= Promise.withResolvers<void>();
    const { promise, resolve } = this.#roomy;
    const stop = (): void => {
      this.#roomy = undefined; // the next caller waits again
      resolve();
    };
    until.addEventListener('abort', stop, { once: true });
    await promise;
    until.removeEventListener('abort', stop);
  }
}
