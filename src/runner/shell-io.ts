import { bytes } from '../lib/bounds.ts';
import { orAborted } from '../lib/or-aborted.ts';
import { shellFrame, shellFrameReader, type FrameLetter, type ShellFrame } from '../lib/shell-frames.ts';
import type { Link } from '../protocol/index.ts';
import { untilAnswered } from './retry.ts';

/** The runner's end of the bytes of a shell. */
export interface ShellIo {
  /** What the person's side sends. It ends with the shell. */
  frames(): AsyncGenerator<ShellFrame>;
  /** Settles when there is room for more. */
  say(letter: FrameLetter, content?: Buffer | string): Promise<void>;
  /** Settles when everything that was said has arrived, or nobody takes it any more. */
  flush(ms: number): Promise<void>;
  /** When somebody last typed, or something was shown. */
  readonly activeAt: number;
  /** Aborted when the person's side is gone, or the server. */
  readonly signal: AbortSignal;
  close(): Promise<void>;
}

export const gone = new Error('nobody is at the other end of the shell');

/** So much stays in memory of what was shown, for a person whose connection breaks. */
const keptBytes = 512 * 1024;
/** Whoever shows more than this ahead of the person waits. */
const aheadBytes = 256 * 1024;
/** A server that is away for longer has ended the shell. */
const awayMs = 45_000;
const pingMs = 15_000;

export function openShellIo(link: Pick<Link, 'shellInput' | 'shellOutput'>, id: string, ending: AbortSignal): ShellIo {
  const leaving = new AbortController();
  const signal = AbortSignal.any([ending, leaving.signal]);
  let activeAt = performance.now();
  /** The output from position `base` on; `at` is where the person's side is. */
  let kept: Buffer = Buffer.alloc(0);
  let [base, at] = [0, 0];
  let news = Promise.withResolvers<void>();
  const tell = (): void => {
    news.resolve();
    news = Promise.withResolvers<void>();
  };
  const end = (): number => base + kept.length;

  const answered = async <T>(call: () => Promise<T>): Promise<T> => {
    let heardAt = performance.now();
    const heard = async (): Promise<T> => {
      const answer = await call();
      heardAt = performance.now();
      return answer;
    };
    return untilAnswered(signal, heard, () => {
      if (performance.now() - heardAt > awayMs) leaving.abort(gone);
    });
  };

  const sendOutput = async (): Promise<void> => {
    while (!signal.aborted) {
      if (at >= end()) {
        await orAborted(news.promise, signal);
        continue;
      }
      const piece = { offset: at, bytes: kept.subarray(at - base, at - base + bytes.shellOutput) };
      const answer = await answered(() => link.shellOutput({ shell: id, ...piece }, signal));
      if (!answer) {
        leaving.abort(gone);
        return;
      }
      if (answer.at === null) continue;
      at = Math.max(base, Math.min(answer.at, end()));
      const spare = Math.max(0, at - base - keptBytes);
      [kept, base] = [kept.subarray(spare), base + spare];
      tell();
    }
  };
  const sending = sendOutput().catch(() => leaving.abort(gone));
  const say = async (letter: FrameLetter, content: Buffer | string = ''): Promise<void> => {
    if (letter === 'd') activeAt = performance.now();
    kept = Buffer.concat([kept, shellFrame(letter, content)]);
    tell();
    while (end() - at > aheadBytes && !signal.aborted) await orAborted(news.promise, signal).catch(() => {});
  };
  const pinging = setInterval(() => {
    if (at >= end()) void say('p');
  }, pingMs);

  return {
    signal,
    say,
    get activeAt() {
      return activeAt;
    },
    async *frames() {
      const read = shellFrameReader();
      for (let from = 0; !signal.aborted;) {
        const bytes = await answered(() => link.shellInput({ shell: id, from }, signal)).catch(() => undefined);
        if (bytes === undefined) {
          leaving.abort(gone);
          return;
        }
        from += bytes.length;
        if (bytes.length > 0) activeAt = performance.now();
        yield* read(bytes);
      }
    },
    async flush(ms) {
      const late = AbortSignal.any([signal, AbortSignal.timeout(ms)]);
      while (at < end() && !late.aborted) await orAborted(news.promise, late).catch(() => {});
    },
    async close() {
      clearInterval(pinging);
      leaving.abort(gone);
      await sending;
    },
  };
}
