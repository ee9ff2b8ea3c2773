/** Takes frames apart: a letter, a length in 32 bits, and so many bytes. session.pl makes them. */
export type Hear = (letter: string, bytes: Buffer) => void | Promise<void>;

const headSize = 5;
/** What session.pl reads at a time: a longer frame is not from there. */
const longest = 65_536;

export class FrameError extends Error {
  override name = 'FrameError';
}

/** Frames are heard one after the other, and no chunk is taken before those of the last one were. */
export function frameReader(hear: Hear): (chunk: Buffer) => Promise<void> {
  let rest: Buffer = Buffer.alloc(0);
  return async (chunk) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    let at = 0;
    while (rest.length - at >= headSize) {
      const size = rest.readUInt32BE(at + 1);
      if (size > longest) throw new FrameError(`a frame of ${size} bytes`);
      const end = at + headSize + size;
      if (rest.length < end) break;
      await hear(rest.toString('latin1', at, at + 1), rest.subarray(at + headSize, end));
      at = end;
    }
    rest = Buffer.from(rest.subarray(at));
  };
}
