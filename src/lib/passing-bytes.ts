import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/**
 * Streams of any length in little memory. Each piece is a small object that holds a large buffer outside the heap. V8
 * looks for garbage when the small objects have filled their space, and by then the buffers of a fast stream take up a
 * hundred megabytes. So it is asked to look more often: among young objects alone, which takes about a millisecond.
 */
const lookEvery = 4 * 1024 * 1024;

let lookForGarbage: ((options: { type: 'minor' }) => void) | undefined;

export async function* frugally<Piece extends Uint8Array>(pieces: AsyncIterable<Piece>): AsyncGenerator<Piece> {
  let passed = 0;
  for await (const piece of pieces) {
    yield piece;
    passed += piece.length;
    if (passed < lookEvery) continue;
    passed = 0;
    lookForGarbage ??= garbageCollector();
    lookForGarbage({ type: 'minor' });
  }
}

function garbageCollector(): (options: { type: 'minor' }) => void {
  setFlagsFromString('--expose-gc');
  return runInNewContext('gc') as (options: { type: 'minor' }) => void;
}
