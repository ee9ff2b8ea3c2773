import { UnavailableError } from '../db/unavailable.ts';
import { repeatedly } from '../../shared/lib/repeatedly.ts';
import { orAborted } from '../../shared/lib/or-aborted.ts';

const checkEveryMs = 1000;

/** Passes content on until `check` throws. The check also runs while nothing arrives. */
export async function* whileHeld<T>(content: AsyncIterable<T>, check: () => Promise<void>): AsyncGenerator<T> {
  const ended = new AbortController();
  const checking = repeatedly(checkEveryMs, check, (error) => ended.abort(error));
  const pieces = content[Symbol.asyncIterator]();
  try {
    for (;;) {
      const piece = await orAborted(pieces.next(), ended.signal);
      if (piece.done === true) return;
      yield piece.value;
    }
  } finally {
    void checking.stop();
    // A pending piece ends the iterator when it arrives, or when the connection ends.
    pieces.return?.()?.catch(() => {});
  }
}

export class TooLargeError extends Error {}

/** Throws a TooLargeError instead of passing more than `most` bytes. */
export async function* atMost(most: number, content: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const piece of content) {
    bytes += piece.length;
    if (bytes > most) throw new TooLargeError();
    yield piece;
  }
}

/**
 * Allows one transfer per claim at a time. Otherwise a claim could store many times its limit. After an interrupted
 * connection, a runner may call again before the server notices. Then the response makes the runner retry.
 */
export function oneAtATime(): (claim: string) => Disposable {
  const busy = new Set<string>();
  return (claim) => {
    if (busy.has(claim)) throw new UnavailableError('another transfer of this claim is under way');
    busy.add(claim);
    return { [Symbol.dispose]: () => void busy.delete(claim) };
  };
}
