import { createPassingBytes } from '../lib/passing-bytes.ts';
import type { DiskReserve } from '../lib/disk-reserve.ts';
import type { CutReason, Link } from '../protocol.ts';
import { untilAnswered } from './retry.ts';
import { createSpill } from './spill.ts';

/**
 * Brings a log to the server in order and without a gap. What the work says is sent as soon as it is said: while one
 * chunk is on its way, what comes meanwhile gathers for the next. When the server is slow, the work waits a moment with
 * its output; when the server is away for longer than that, bytes gather in a file up to a bound, and while the disk has
 * room.
 *
 * At the limit of the log it ends: what was said up to there is sent, and nothing after it.
 *
 * Two pieces of memory take turns, one on its way and one being filled: so a log of any length costs no more than those,
 * and leaves nothing to be cleared away after it.
 */
const chunkSize = 1024 * 1024;
const firstSize = 4 * 1024;
const mostInFile = 1024 * 1024 * 1024;
const nothing = new Uint8Array();

export interface LogSender {
  /** Takes output; what it answers is settled when there is room for more, and never rejects. */
  write(bytes: Uint8Array): void | Promise<void>;
  /** Resolves with the size of the whole log when the server has it all, or does not want it. */
  end(): Promise<number>;
  close(): Promise<void>;
}

export interface SenderOptions {
  link: Link;
  claim: string;
  offset: number;
  /** So long may the whole log become. */
  limit: number;
  /** Where bytes gather that memory is too small for. */
  spillFile: string;
  disk: Pick<DiskReserve, 'allows'>;
  signal: AbortSignal;
  /** The server does not want this work any more. */
  onGone: () => void;
  /** There is more to say than is taken. */
  onCut: (reason: CutReason) => void;
}

export function createLogSender(options: SenderOptions): LogSender {
  const { link, claim, signal } = options;
  const spill = createSpill(options.spillFile, options.disk);
  const passing = createPassingBytes();
  const at = { sent: options.offset, said: options.offset, gathered: 0, over: false };
  let gathering = Buffer.allocUnsafe(firstSize);
  let flying = Buffer.allocUnsafe(firstSize);
  let sending: Promise<void> | undefined;
  /** What waits for room, in order. */
  let waiting: Promise<void> | undefined;
  let roomy: PromiseWithResolvers<void> | undefined;

  const fits = ({ length }: Uint8Array): boolean => spill.size === 0 && at.gathered + length <= chunkSize;
  const gather = (bytes: Uint8Array): void => {
    const needed = at.gathered + bytes.length;
    if (needed > gathering.length) {
      const larger = Buffer.allocUnsafe(Math.min(chunkSize, Math.max(needed, 2 * gathering.length)));
      gathering.copy(larger, 0, 0, at.gathered);
      gathering = larger;
    }
    gathering.set(bytes, at.gathered);
    at.gathered = needed;
    start();
  };

  /** What was gathered is older than what is in the file: nothing is gathered while something is there. */
  const take = async (): Promise<Buffer | undefined> => {
    if (at.gathered === 0 && spill.size === 0) return undefined;
    if (at.gathered === 0) {
      if (flying.length < chunkSize) flying = Buffer.allocUnsafe(chunkSize);
      return flying.subarray(0, await spill.read(flying));
    }
    const bytes = gathering.subarray(0, at.gathered);
    [gathering, flying] = [flying, gathering];
    at.gathered = 0;
    return bytes;
  };

  const sendAll = async (): Promise<void> => {
    for (;;) {
      const bytes = at.over ? undefined : await take();
      roomy?.resolve();
      roomy = undefined;
      if (!bytes) return;
      await send(bytes);
    }
  };

  const send = async (bytes: Buffer): Promise<void> => {
    const end = at.sent + bytes.length;
    const receipt = await untilAnswered(signal, async () => {
      const answer = await link.log({ claim, offset: at.sent, bytes }, signal);
      // An earlier try of the same chunk may be on its way through the server still: the whole of it is sent again.
      if ('expected' in answer && answer.expected >= at.sent && answer.expected < end) throw new Error('out of place');
      return answer;
    });
    passing.passed(bytes.length);
    if ('taken' in receipt || ('expected' in receipt && receipt.expected === end)) {
      at.sent = end;
    } else if ('refused' in receipt) {
      at.over = true;
      at.sent = receipt.size;
      options.onCut(receipt.refused);
    } else {
      at.over = true; // what the server is missing was sent, taken and let go: nobody can bring it any more
      options.onGone();
    }
  };

  const upToLimit = (bytes: Uint8Array): Uint8Array => {
    const left = options.limit - at.said;
    if (bytes.length > left) options.onCut('log_too_long');
    const kept = bytes.length > left ? bytes.subarray(0, Math.max(left, 0)) : bytes;
    at.said += kept.length;
    return kept;
  };

  const isLeft = (): boolean => !at.over && !signal.aborted && (at.gathered > 0 || spill.size > 0);
  const start = (): void => {
    sending ??= sendAll().finally(() => {
      sending = undefined;
      if (isLeft()) start();
    });
    sending.catch(() => {}); // whoever waits for the end hears of it
  };

  return {
    write(output) {
      const bytes = at.over ? nothing : upToLimit(output);
      if (bytes.length === 0) return undefined;
      if (!waiting && fits(bytes)) return gather(bytes);
      const turn = (waiting ?? Promise.resolve())
        .then(() => spillOrWait(bytes))
        .finally(() => {
          if (waiting === turn) waiting = undefined;
        });
      waiting = turn;
      return turn;
    },
    async end() {
      for (;;) {
        if (isLeft()) start();
        const pending = waiting ?? sending;
        if (!pending) break;
        await pending;
      }
      signal.throwIfAborted();
      return at.sent;
    },
    close: () => spill.close().catch(() => {}), // a file that stays is swept with the others at the next start
  };

  /** The server keeps up as a rule: it gets a moment before the disk is used. */
  async function spillOrWait(bytes: Uint8Array): Promise<void> {
    if (bytes.length > chunkSize) {
      for (let from = 0; from < bytes.length; from += chunkSize) {
        const piece = bytes.subarray(from, from + chunkSize);
        await (fits(piece) ? gather(piece) : spillOrWait(piece));
      }
      return;
    }
    start();
    const moment = AbortSignal.any([signal, AbortSignal.timeout(1000)]);
    while (!fits(bytes) && spill.size === 0 && !moment.aborted && !at.over) await room(moment);
    while (!signal.aborted && !at.over) {
      if (fits(bytes)) return gather(bytes);
      if (spill.size + bytes.length <= mostInFile && (await spill.write(bytes))) return start();
      await room(AbortSignal.any([signal, AbortSignal.timeout(1000)])); // the disk may have room again
    }
  }

  async function room(until: AbortSignal): Promise<void> {
    if (until.aborted) return;
    roomy ??= Promise.withResolvers<void>();
    const { promise, resolve } = roomy;
    const stop = (): void => {
      roomy = undefined; // who asks next waits anew
      resolve();
    };
    until.addEventListener('abort', stop, { once: true });
    await promise;
    until.removeEventListener('abort', stop);
  }
}
