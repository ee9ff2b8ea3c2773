/** Splits frames: a letter, a length in 32 bits, and that many bytes. session.pl makes them. */
export type OnFrame = (letter: string, bytes: Buffer) => void | Promise<void>;

const headSize = 5;
/** session.pl reads this much at a time: it never makes a longer frame. */
const longest = 65_536;

export class FrameError extends Error {
  override name = 'FrameError';
}

/** Frames are processed one after the other; the next chunk is read when all frames of the last one are done. */
export function frameReader(onFrame: OnFrame): (chunk: Buffer) => Promise<void> {
  let rest: Buffer = Buffer.alloc(0);
  return async (chunk) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    let at = 0;
    while (rest.length - at >= headSize) {
      const size = rest.readUInt32BE(at + 1);
      if (size > longest) throw new FrameError(`a frame of ${size} bytes`);
      const end = at + headSize + size;
      if (rest.length < end) break;
      await onFrame(rest.toString('latin1', at, at + 1), rest.subarray(at + headSize, end));
      at = end;
    }
    rest = Buffer.from(rest.subarray(at));
  };
}
