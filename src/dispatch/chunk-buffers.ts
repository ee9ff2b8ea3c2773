import type { Readable } from 'node:stream';
import { unreadable } from '../http/raw.ts';

/**
 * Buffers for chunks of log between the network and the database, used many times. A build with much output sends
 * hundreds of large chunks within a second or two. If each had a new buffer, memory would be requested faster than it
 * is freed, and the server would grow with every such build.
 */
export interface ChunkBuffers {
  /** Reads a body of a known length. The result is valid until it is disposed of. */
  read(body: Readable, length: number): Promise<HeldChunk>;
}

export interface HeldChunk extends Disposable {
  bytes: Buffer;
}

/** Shorter chunks get a new buffer: that is cheaper than keeping one. */
const smallChunk = 16 * 1024;
/** As many are kept as chunks are likely to arrive at the same time. */
const mostKept = 4;

export function createChunkBuffers(largest: number): ChunkBuffers {
  const free: Buffer[] = [];
  return {
    async read(body, length) {
      const isSmall = length <= smallChunk;
      const memory = isSmall ? Buffer.allocUnsafe(length) : (free.pop() ?? Buffer.allocUnsafeSlow(largest));
      const giveBack = (): void => {
        if (!isSmall && free.length < mostKept) free.push(memory);
      };
      try {
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
    throw unreadable(); // the sender went away in the middle
  }
  if (filled !== memory.length) throw unreadable();
  return memory;
}
