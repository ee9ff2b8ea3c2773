/** A frame is a letter, a number and a text. After F, that number of bytes follows: a file's content. */
export interface Frame {
  letter: string;
  number: number;
  text: string;
  /** Unread bytes are skipped when the next frame is read. */
  content: AsyncIterable<Buffer>;
}

export class BrokenFramesError extends Error {}

const headerSize = 13;
const longestText = 4096;

export function frameHead(letter: string, number: number, text: string): Buffer {
  const bytes = Buffer.from(text);
  const header = Buffer.alloc(headerSize);
  header.write(letter, 'latin1');
  header.writeUInt32BE(bytes.length, 1);
  header.writeBigUInt64BE(BigInt(number), 5);
  return Buffer.concat([header, bytes]);
}

/** Undefined at the end of the stream, even a premature one. */
export function frameReader(chunks: AsyncIterable<Buffer>): { next(): Promise<Frame | undefined> } {
  const source = chunks[Symbol.asyncIterator]();
  let rest: Buffer = Buffer.alloc(0);
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
