/**
 * Frames between the two ends of a shell: a letter, a length of 32 bits, and the content. Servers relay them unread.
 * Pages use this too, so it needs nothing of Node.
 *
 * To the shell: `h` begins it (JSON, `Hello`), `d` typed bytes, `w` the window's size, `e` the end of the input.
 * From the shell: `d` output, `m` a message about it, `x` its end (the exit status in decimal).
 */
export type FrameLetter = 'h' | 'd' | 'w' | 'e' | 'm' | 'x';

export interface ShellFrame {
  letter: string;
  content: Uint8Array;
}

export interface WindowSize {
  rows: number;
  columns: number;
}

export interface Hello {
  /** The user's terminal. Without one, the input is a script. */
  terminal?: WindowSize & { type: string };
}

const headerSize = 5;
const largestFrame = 1024 * 1024;

export function shellFrame(letter: FrameLetter, content: Uint8Array | string = ''): Uint8Array {
  const bytes = typeof content === 'string' ? new TextEncoder().encode(content) : content;
  const frame = new Uint8Array(headerSize + bytes.length);
  frame[0] = letter.charCodeAt(0);
  viewOf(frame).setUint32(1, bytes.length);
  frame.set(bytes, headerSize);
  return frame;
}

export function writeWindow({ rows, columns }: WindowSize): Uint8Array {
  const content = new Uint8Array(4);
  viewOf(content).setUint16(0, bounded(rows));
  viewOf(content).setUint16(2, bounded(columns));
  return content;
}

export function readWindow(content: Uint8Array): WindowSize | undefined {
  if (content.length !== 4) return undefined;
  return { rows: bounded(viewOf(content).getUint16(0)), columns: bounded(viewOf(content).getUint16(2)) };
}

export const bounded = (size: number): number => Math.max(1, Math.min(Math.trunc(size) || 1, 1000));

export function textOf(content: Uint8Array): string {
  return new TextDecoder().decode(content);
}

export function shellFrameReader(): (piece: Uint8Array) => ShellFrame[] {
  let rest = new Uint8Array();
  return (piece) => {
    const bytes = new Uint8Array(rest.length + piece.length);
    bytes.set(rest);
    bytes.set(piece, rest.length);
    rest = bytes;
    const frames: ShellFrame[] = [];
    while (rest.length >= headerSize) {
      const end = headerSize + viewOf(rest).getUint32(1);
      if (end > headerSize + largestFrame) throw new Error('a frame is too large');
      if (rest.length < end) break;
      frames.push({ letter: String.fromCharCode(rest[0] ?? 0), content: rest.subarray(headerSize, end) });
      rest = rest.subarray(end);
    }
    return frames;
  };
}

function viewOf({ buffer, byteOffset, length }: Uint8Array): DataView {
  return new DataView(buffer, byteOffset, length);
}
