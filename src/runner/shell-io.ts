import { bytes } from '../shared/domain/bounds.ts';
import { ByteSender } from '../shared/lib/byte-sender.ts';
import { shellFrame, shellFrameReader, type FrameLetter, type ShellFrame } from '../shared/domain/shell-frames.ts';
import type { Link } from '../shared/protocol/index.ts';
import { untilAnswered } from './retry.ts';

export interface ShellIo {
  /** The user's frames. They end with the shell. */
  frames(): AsyncGenerator<ShellFrame>;
  sendFrame(letter: FrameLetter, content?: Uint8Array | string): Promise<void>;
  /** Settles when everything sent has arrived, or no longer can. */
  flush(ms: number): Promise<void>;
  /** The time of the last input or output. */
  readonly activeAt: number;
  /** Aborted when the user or the server is gone. */
  readonly signal: AbortSignal;
  close(): Promise<void>;
}

export const gone = new Error('nobody is at the other end of the shell');

/** The last output in memory, for a user whose connection breaks. */
const keptBytes = 512 * 1024;
/** Output that is this far ahead of the user waits. */
const aheadBytes = 256 * 1024;
/** A server that was unreachable for longer has ended the shell. */
const awayMs = 45_000;
const pingMs = 15_000;

export function openShellIo(link: Pick<Link, 'shellInput' | 'shellOutput'>, id: string, ending: AbortSignal): ShellIo {
  const leaving = new AbortController();
  const signal = AbortSignal.any([ending, leaving.signal]);
  let activeAt = performance.now();
  const answered = async <T>(call: () => Promise<T>): Promise<T> => {
    let answeredAt = performance.now();
    const attempt = async (): Promise<T> => {
      const answer = await call();
      answeredAt = performance.now();
      return answer;
    };
    return untilAnswered(signal, attempt, () => {
      if (performance.now() - answeredAt > awayMs) leaving.abort(gone);
    });
  };

  const sender = new ByteSender({
    async send(offset, piece) {
      const answer = await answered(() => link.shellOutput({ shell: id, offset, bytes: piece }, signal));
      if (!answer) leaving.abort(gone);
      return answer?.at ?? undefined;
    },
    mostBytes: bytes.shellOutput,
    aheadBytes,
    keptBytes,
    signal,
  });
  const sending = sender.run().catch(() => leaving.abort(gone));
  const sendFrame = async (letter: FrameLetter, content: Uint8Array | string = ''): Promise<void> => {
    if (letter === 'd') activeAt = performance.now();
    await sender.push(shellFrame(letter, content));
  };
  const pinging = setInterval(() => {
    if (sender.isDone) void sendFrame('p');
  }, pingMs);

  return {
    signal,
    sendFrame,
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
    flush: (ms) => sender.flush(AbortSignal.any([signal, AbortSignal.timeout(ms)])),
    async close() {
      clearInterval(pinging);
      leaving.abort(gone);
      await sending;
    },
  };
}
