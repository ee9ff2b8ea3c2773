import { UnavailableError } from '../db/unavailable.ts';
import { repeatedly } from '../../shared/lib/repeatedly.ts';
import { orAborted } from '../../shared/lib/or-aborted.ts';

/** How often a transfer checks whether its claim still holds. */
const checkEveryMs = 1000;

/** Passes content on until `check` throws. It is called now and then, also while nothing arrives. */
export async function* whileHeld<T>(content: AsyncIterable<T>, check: () => Promise<void>): AsyncGenerator<T> {
  const ended = new AbortController();
  const checking = repeatedly(checkEveryMs, check, (error) => ended.abort(error));
  const pieces = content[Symbol.asyncIterator]();
  try {
    for (;;) {
      const step = await orAborted(pieces.next(), ended.signal);
      if (step.done === true) return;
      yield step.value;
    }
  } finally {
    void checking.stop();
    // If a piece is still awaited, the iterator ends with the next piece that arrives, or with the connection.
    pieces.return?.()?.catch(() => {});
  }
}

export class TooLargeError extends Error {}

/** Passes content on, and throws a TooLargeError instead of what is beyond `most` bytes. */
export async function* atMost(most: number, content: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const piece of content) {
    bytes += piece.length;
    if (bytes > most) throw new TooLargeError();
    yield piece;
  }
}

/**
 * Allows one transfer for each claim at a time. Otherwise a claim could store many times the size that it may. A runner
 * whose connection broke may call again before the server has noticed that, and then gets an answer that makes it try
 * again.
 */
export function oneAtATime(): (claim: string) => Disposable {
  const busy = new Set<string>();
  return (claim) => {
    if (busy.has(claim)) throw new UnavailableError('another transfer of this claim is under way');
    busy.add(claim);
    return { [Symbol.dispose]: () => void busy.delete(claim) };
  };
}
