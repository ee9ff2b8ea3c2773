import type { Readable } from 'node:stream';
import { unreadable } from '../http/raw.ts';
import { createPassingBytes } from '../lib/passing-bytes.ts';

/**
 * Memory for chunks of log between the wire and the store, used again and again. A build that says a lot sends hundreds
 * of large chunks in a second or two; memory of its own for each would be let go later than it is asked for, and the
 * server would grow with every such build.
 */
export interface ChunkBuffers {
  /** Reads a body of a known length. What it answers may be used until it is disposed of. */
  read(body: Readable, length: number): Promise<HeldChunk>;
}

export interface HeldChunk extends Disposable {
  bytes: Buffer;
}

/** Shorter ones cost less than looking after them. */
const smallChunk = 16 * 1024;
/** As many are kept as are likely to come at once. */
const mostKept = 4;

export function createChunkBuffers(largest: number): ChunkBuffers {
  const free: Buffer[] = [];
  const passing = createPassingBytes();
  return {
    async read(body, length) {
      const isSmall = length <= smallChunk;
      const memory = isSmall ? Buffer.allocUnsafe(length) : (free.pop() ?? Buffer.allocUnsafeSlow(largest));
      const giveBack = (): void => {
        if (!isSmall && free.length < mostKept) free.push(memory);
      };
      try {
        passing.passed(length);
        return { bytes: await fill(memory.subarray(0, length), body), [Symbol.dispose]: giveBack };
      } catch (error) {
        giveBack();
        throw error;
      }
    },
  };
}

async function fill(memory: Buffer, body: Readable): Promise<Buffer> {
  let filled = 0;
  try {
    for await (const piece of body as AsyncIterable<Buffer>) filled += piece.copy(memory, filled);
  } catch {
    throw unreadable(); // who sent it went away in the middle
  }
  if (filled !== memory.length) throw unreadable();
  return memory;
}
