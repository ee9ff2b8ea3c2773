import { open, rm, type FileHandle } from 'node:fs/promises';
import type { Link } from '../protocol.ts';
import { untilAnswered } from './retry.ts';

/**
 * Brings a log to the server in order and without a gap. What the work says is sent as soon as it is said: while one
 * chunk is on its way, what comes meanwhile gathers for the next. When the server is away or slow, bytes gather in
 * memory up to a bound and then in a file up to another; after that the work has to wait with its output.
 */
const chunkSize = 512 * 1024;
const mostInMemory = 4 * 1024 * 1024;
const mostInFile = 1024 * 1024 * 1024;

export interface LogSender {
  /** Takes output; what it answers is settled when there is room for more. */
  write(bytes: Uint8Array): void | Promise<void>;
  /** Resolves with the size of the whole log when the server has it all. */
  end(): Promise<number>;
  close(): Promise<void>;
}

export interface SenderOptions {
  link: Link;
  claim: string;
  offset: number;
  /** Where bytes gather that memory is too small for. */
  spillFile: string;
  signal: AbortSignal;
  /** The server does not want this work any more. */
  onGone: () => void;
}

export function createLogSender(options: SenderOptions): LogSender {
  const { link, claim, signal } = options;
  const queue: Uint8Array[] = [];
  const spill = createSpill(options.spillFile);
  const at = { sent: options.offset, queued: 0, gone: false };
  let sending: Promise<void> | undefined;
  let roomy: PromiseWithResolvers<void> | undefined;

  const take = async (): Promise<Buffer | undefined> => {
    if (spill.size > 0 && queue.length === 0) return spill.read(chunkSize);
    const parts: Uint8Array[] = [];
    let size = 0;
    while (queue[0] && (size === 0 || size + queue[0].length <= chunkSize)) {
      const part = queue.shift();
      if (!part) break;
      if (part.length > chunkSize) queue.unshift(part.subarray(chunkSize));
      parts.push(part.subarray(0, chunkSize));
      size += Math.min(part.length, chunkSize);
    }
    at.queued -= size;
    return size > 0 ? Buffer.concat(parts) : undefined;
  };

  const sendAll = async (): Promise<void> => {
    for (;;) {
      const bytes = at.gone ? undefined : await take();
      roomy?.resolve();
      roomy = undefined;
      if (!bytes) return;
      await send(bytes);
    }
  };

  const send = async (bytes: Buffer): Promise<void> => {
    const receipt = await untilAnswered(signal, () => link.log({ claim, offset: at.sent, bytes }, signal));
    if ('gone' in receipt) {
      at.gone = true;
      options.onGone();
    } else if ('expected' in receipt && receipt.expected !== at.sent + bytes.length) {
      throw new Error(`the log of ${claim} is at ${at.sent}, but the server expects ${receipt.expected}`);
    }
    at.sent += bytes.length;
  };

  const start = (): void => {
    sending ??= sendAll().finally(() => {
      sending = undefined;
      if (!at.gone && !signal.aborted && (queue.length > 0 || spill.size > 0)) start();
    });
    sending.catch(() => {}); // whoever waits for the end hears of it
  };

  return {
    write(bytes) {
      if (at.gone || bytes.length === 0) return undefined;
      if (at.queued + bytes.length <= mostInMemory && spill.size === 0) {
        queue.push(bytes);
        at.queued += bytes.length;
        start();
        return undefined;
      }
      return spillOrWait(bytes);
    },
    async end() {
      const isLeft = (): boolean => sending !== undefined || (!at.gone && (queue.length > 0 || spill.size > 0));
      while (isLeft()) {
        start();
        await sending;
      }
      return at.sent;
    },
    close: () => spill.close(),
  };

  /** The server keeps up as a rule: it gets a moment before the disk is used. */
  async function spillOrWait(bytes: Uint8Array): Promise<void> {
    start();
    const moment = AbortSignal.timeout(1000);
    while (at.queued + bytes.length > mostInMemory && spill.size === 0 && !moment.aborted && !at.gone)
      await room(moment);
    if (at.gone) return;
    if (at.queued + bytes.length <= mostInMemory && spill.size === 0) {
      queue.push(bytes);
      at.queued += bytes.length;
      start();
      return;
    }
    while (spill.size + bytes.length > mostInFile && !at.gone) await room(signal);
    await spill.write(bytes);
    start();
  }

  async function room(until: AbortSignal): Promise<void> {
    roomy ??= Promise.withResolvers<void>();
    const { promise, resolve } = roomy;
    const stop = (): void => resolve();
    until.addEventListener('abort', stop, { once: true });
    await promise;
    until.removeEventListener('abort', stop);
  }
}

/** A file that is written at its end and read from its start. */
function createSpill(path: string) {
  let file: FileHandle | undefined;
  let written = 0;
  let read = 0;
  return {
    get size(): number {
      return written - read;
    },
    async write(bytes: Uint8Array): Promise<void> {
      file ??= await open(path, 'w+', 0o600);
      await file.write(bytes, 0, bytes.length, written);
      written += bytes.length;
    },
    async read(most: number): Promise<Buffer | undefined> {
      if (!file) return undefined;
      const buffer = Buffer.allocUnsafe(Math.min(most, written - read));
      const { bytesRead } = await file.read(buffer, 0, buffer.length, read);
      read += bytesRead;
      return buffer.subarray(0, bytesRead);
    },
    async close(): Promise<void> {
      await file?.close();
      await rm(path, { force: true });
    },
  };
}
