/**
 * A stream of frames: a letter, a number and a text, and after a frame with the letter F as many bytes as the number
 * says, the content of a file. So many files of any size travel in one stream.
 */
export interface Frame {
  letter: string;
  number: number;
  text: string;
  /** The bytes of a file. What is not read of them is passed over when the next frame is asked for. */
  content: AsyncIterable<Buffer>;
}

/** The stream does not consist of frames, or ends in the middle of a file. */
export class BrokenFramesError extends Error {}

const headerSize = 13;
const longestText = 4096;

/** The beginning of a frame. */
export function frameHead(letter: string, number: number, text: string): Buffer {
  const bytes = Buffer.from(text);
  const header = Buffer.alloc(headerSize);
  header.write(letter, 'latin1');
  header.writeUInt32BE(bytes.length, 1);
  header.writeBigUInt64BE(BigInt(number), 5);
  return Buffer.concat([header, bytes]);
}

/** Reads frames; undefined at the end of the stream, also where it ends too early. */
export function frameReader(chunks: AsyncIterable<Buffer>): { next(): Promise<Frame | undefined> } {
  const source = chunks[Symbol.asyncIterator]();
  let rest: Buffer = Buffer.alloc(0);
  /** How many bytes of the current file are still to come. */
  let ahead = 0;

  const more = async (): Promise<boolean> => {
    const { done, value } = await source.next();
    if (done) return false;
    rest = rest.length === 0 ? value : Buffer.concat([rest, value]);
    return true;
  };
  const exactly = async (size: number): Promise<Buffer | undefined> => {
    while (rest.length < size) if (!(await more())) return undefined;
    const taken = rest.subarray(0, size);
    rest = rest.subarray(size);
    return taken;
  };
  async function* content(): AsyncGenerator<Buffer> {
    while (ahead > 0) {
      if (rest.length === 0 && !(await more())) throw new BrokenFramesError('a file in a stream ended too early');
      const piece = rest.subarray(0, ahead);
      rest = rest.subarray(piece.length);
      ahead -= piece.length;
      yield piece;
    }
  }
  return {
    async next() {
      for await (const _ of content());
      const header = await exactly(headerSize);
      if (!header) return undefined;
      const [length, number] = [header.readUInt32BE(1), header.readBigUInt64BE(5)];
      if (length > longestText || number > BigInt(Number.MAX_SAFE_INTEGER))
        throw new BrokenFramesError('a frame is too large');
      const letter = header.toString('latin1', 0, 1);
      const text = await exactly(length);
      if (!text) return undefined;
      ahead = letter === 'F' ? Number(number) : 0;
      return { letter, number: Number(number), text: text.toString(), content: content() };
    },
  };
}
