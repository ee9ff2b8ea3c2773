import { UnavailableError } from '../db/unavailable.ts';
import { repeatedly } from '../lib/repeatedly.ts';
import { orAborted } from '../lib/or-aborted.ts';

/** How often a transfer checks whether its claim still holds. */
const checkEveryMs = 1000;

/** Passes content on until `check` fails, which is called now and then, also while nothing arrives. */
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
    // Where it is still awaited, it ends with the next piece that arrives, or with the connection.
    pieces.return?.()?.catch(() => {});
  }
}

export class TooLargeError extends Error {}

/** Passes content on, and throws a TooLargeError in the place of what is beyond `most` bytes. */
export async function* atMost(most: number, content: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const piece of content) {
    bytes += piece.length;
    if (bytes > most) throw new TooLargeError();
    yield piece;
  }
}

/**
 * One transfer for each claim at a time, or a claim could have many of the size that one may have. A runner whose
 * connection broke may come again before the server has noticed: so it is told to try again.
 */
export function oneAtATime(): (claim: string) => Disposable {
  const busy = new Set<string>();
  return (claim) => {
    if (busy.has(claim)) throw new UnavailableError('another transfer of this claim is under way');
    busy.add(claim);
    return { [Symbol.dispose]: () => void busy.delete(claim) };
  };
}
