import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/**
 * Keeps a process small that passes many bytes on. Node reads into new memory outside V8's heap, and V8 collects that
 * memory only when 64 MB have gathered. A process that passes on a long log would grow by as much, and then pay for a
 * collection of its whole heap. The bytes are garbage within milliseconds; a collection of the youngest objects alone,
 * which takes about a millisecond, frees them.
 */
export interface PassingBytes {
  /** Counts bytes that were read and passed on. */
  passed(bytes: number): void;
}

const lookEvery = 4 * 1024 * 1024;

export function createPassingBytes(): PassingBytes {
  let since = 0;
  return {
    passed(bytes) {
      since += bytes;
      if (since < lookEvery) return;
      since = 0;
      collectYoung();
    },
  };
}

/** The same for a stream of any length. */
export async function* frugally<Piece extends Uint8Array>(pieces: AsyncIterable<Piece>): AsyncGenerator<Piece> {
  const passing = createPassingBytes();
  for await (const piece of pieces) {
    yield piece;
    passing.passed(piece.length);
  }
}

let collect: ((options: { type: 'minor' }) => void) | undefined;

function collectYoung(): void {
  if (!collect) {
    setFlagsFromString('--expose-gc');
    collect = runInNewContext('gc') as typeof collect;
  }
  collect?.({ type: 'minor' });
}
