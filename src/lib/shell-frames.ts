/**
 * What the two ends of a shell say to each other, as frames: a letter, a length of 32 bits, and the content. Servers pass
 * them on and do not read them.
 *
 * To the shell: `h` begins it (JSON, `Hello`), `d` is what was typed, `w` the size of the window, `e` the end of the input.
 * `p` asks whether the other end is there.
 * From the shell: `d` is what it shows, `m` a message about it, `p` nothing (the other end is there), `x` its end (the exit
 * status in decimal).
 */
export type FrameLetter = 'h' | 'd' | 'w' | 'e' | 'm' | 'p' | 'x';

export interface ShellFrame {
  letter: string;
  content: Buffer;
}

export interface Hello {
  /** The type and size of the person's terminal; without them, what is sent is a script. */
  terminal?: { type: string; rows: number; columns: number };
}

const headerSize = 5;
/** The largest content of a frame. */
export const largestFrame = 1024 * 1024;

export function shellFrame(letter: FrameLetter, content: Buffer | string = ''): Buffer {
  const bytes = Buffer.from(content);
  const header = Buffer.alloc(headerSize);
  header.write(letter, 'latin1');
  header.writeUInt32BE(bytes.length, 1);
  return Buffer.concat([header, bytes]);
}

export function windowFrame(rows: number, columns: number): Buffer {
  const content = Buffer.alloc(4);
  content.writeUInt16BE(bounded(rows), 0);
  content.writeUInt16BE(bounded(columns), 2);
  return shellFrame('w', content);
}

export function readWindow(content: Buffer): { rows: number; columns: number } | undefined {
  if (content.length !== 4) return undefined;
  return { rows: bounded(content.readUInt16BE(0)), columns: bounded(content.readUInt16BE(2)) };
}

export const bounded = (size: number): number => Math.max(1, Math.min(Math.trunc(size) || 1, 1000));

export class BrokenShellFramesError extends Error {}

/** Puts frames together from pieces of a stream. */
export function shellFrameReader(): (piece: Buffer) => ShellFrame[] {
  let rest: Buffer = Buffer.alloc(0);
  return (piece) => {
    rest = rest.length === 0 ? piece : Buffer.concat([rest, piece]);
    const frames: ShellFrame[] = [];
    while (rest.length >= headerSize) {
      const length = rest.readUInt32BE(1);
      if (length > largestFrame) throw new BrokenShellFramesError('a frame of a shell is too large');
      if (rest.length < headerSize + length) break;
      frames.push({ letter: rest.toString('latin1', 0, 1), content: rest.subarray(headerSize, headerSize + length) });
      rest = rest.subarray(headerSize + length);
    }
    return frames;
  };
}
