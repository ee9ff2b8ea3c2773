/*
 * Compressed files with random access to any range of bytes.
 *
 * Each piece of equal size is its own zstd frame. Then comes the seek table with each frame's compressed and raw
 * length. It is in a frame that decompressors skip, so `zstd -d` reads the file too. The layout is zstd's published
 * seekable format, version 0.1:
 *
 * frame … frame | magic, length of the rest | (compressed size, raw size) … | count, descriptor, magic
 *
 * Numbers are little-endian with 32 bits, except the descriptor with 8. The table omits its optional checksums, because
 * each frame has its own.
 */

import { promisify } from 'node:util';
import { constants, zstdCompress, zstdDecompress, zstdDecompressSync } from 'node:zlib';

const skippableMagic = 0x184d2a5e;
const seekableMagic = 0x8f92eab1;
const headerSize = 8;
const entrySize = 8;
const footerSize = 9;

/** Smaller frames compress worse, and larger ones cost more for a small range. */
const usualFrameSize = 256 * 1024;

/** No frame may unpack to more: a damaged or hostile file must not use up the reader's memory. */
const largestFrame = 16 * 1024 * 1024;

/** One read fetches as many neighbouring frames as fit: if a read is a request, few large reads are cheaper. */
const readSize = 1024 * 1024;

const framesAhead = 3;

/** The first read of the file's end. It usually contains the whole table. */
const tailSize = 64 * 1024;

const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);

export class CorruptSeekableError extends Error {
  override name = 'CorruptSeekableError';
}

/** Holds one frame in memory, and the table with 8 bytes per frame. */
export async function* compressSeekable(
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  { frameSize = usualFrameSize } = {},
): AsyncGenerator<Buffer, void, undefined> {
  const sizes: number[] = [];
  for await (const raw of piecesOf(chunks, frameSize)) {
    const frame = await compress(raw, {
      params: { [constants.ZSTD_c_checksumFlag]: 1 },
      pledgedSrcSize: raw.length,
    });
    sizes.push(frame.length, raw.length);
    yield frame;
  }
  yield seekTable(sizes);
}

/** All pieces have `size` bytes, except the last. A piece is valid until the next is requested. */
async function* piecesOf(
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  size: number,
): AsyncGenerator<Buffer, void, undefined> {
  const piece = Buffer.allocUnsafe(size);
  let filled = 0;
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.length;) {
      const part = chunk.subarray(at, at + size - filled);
      piece.set(part, filled);
      filled += part.length;
      at += part.length;
      if (filled < size) continue;
      yield piece;
      filled = 0;
    }
  }
  if (filled > 0) yield piece.subarray(0, filled);
}

function seekTable(sizes: readonly number[]): Buffer {
  const table = Buffer.alloc(headerSize + sizes.length * 4 + footerSize);
  table.writeUInt32LE(skippableMagic, 0);
  table.writeUInt32LE(table.length - headerSize, 4);
  for (const [index, size] of sizes.entries()) table.writeUInt32LE(size, headerSize + index * 4);
  table.writeUInt32LE(sizes.length / 2, table.length - footerSize);
  table.writeUInt32LE(seekableMagic, table.length - 4);
  return table;
}

export type ReadAt = (offset: number, length: number) => Promise<Buffer>;

export interface Seekable {
  /** In raw bytes. */
  readonly size: number;
  /** Without the byte at `to`. Stops at the end of the file. */
  read(from: number, to: number): AsyncIterable<Buffer>;
}

/** Reads only the table. `read` then reads only the frames it needs. */
export async function openSeekable(readAt: ReadAt, size: number): Promise<Seekable> {
  const exactly: ReadAt = async (offset, length) => {
    const bytes = await readAt(offset, length);
    if (bytes.length === length) return bytes;
    throw new CorruptSeekableError(`the file gave ${bytes.length} bytes where ${length} were asked for`);
  };
  const frames = await readTable(exactly, size);
  return {
    size: frames.raw.at(-1) ?? 0,
    read(from, to) {
      if (!(Number.isSafeInteger(from) && Number.isSafeInteger(to) && from >= 0 && to >= from)) {
        throw new RangeError(`${from} to ${to} is not a range of bytes`);
      }
      return readRange(exactly, frames, from, to);
    },
  };
}

/** Unpacks a whole file at once, for a thread that does nothing else. */
export function unpackAll(packed: Buffer): Buffer {
  const { compressed, raw } = framesOf(packed.subarray(-tableLength(packed, packed.length)), packed.length);
  const content = Buffer.allocUnsafe(raw.at(-1) as number);
  for (let frame = 0; frame + 1 < raw.length; frame += 1) {
    const [start, end] = [raw[frame] as number, raw[frame + 1] as number];
    const piece = packed.subarray(compressed[frame], compressed[frame + 1]);
    const unpacked = zstdDecompressSync(piece, unpackOptions(end - start));
    if (unpacked.length !== end - start) throw wrongLength(frame);
    unpacked.copy(content, start);
  }
  return content;
}

/** Where each frame starts, compressed and raw. The last entry is the end of all. */
interface Frames {
  compressed: Float64Array;
  raw: Float64Array;
}

function corrupt(what: string): CorruptSeekableError {
  return new CorruptSeekableError(`not a seekable zstd file: ${what}`);
}

async function readTable(read: ReadAt, size: number): Promise<Frames> {
  let tail = await read(Math.max(0, size - tailSize), Math.min(size, tailSize));
  const length = tableLength(tail, size);
  if (length > tail.length) tail = await read(size - length, length);
  return framesOf(tail.subarray(tail.length - length), size);
}

/** `tail` is the end of the file. */
function tableLength(tail: Buffer, size: number): number {
  if (size < headerSize + footerSize) throw corrupt('it is too short');
  if (tail.readUInt32LE(tail.length - 4) !== seekableMagic) throw corrupt('it does not end with a seek table');
  if (tail.readUInt8(tail.length - 5) !== 0) throw corrupt('its seek table is of an unknown kind');
  const length = headerSize + tail.readUInt32LE(tail.length - footerSize) * entrySize + footerSize;
  if (length > size) throw corrupt('its seek table is longer than the file');
  return length;
}

function framesOf(table: Buffer, size: number): Frames {
  const { length } = table;
  const count = (length - headerSize - footerSize) / entrySize;
  if (table.readUInt32LE(0) !== skippableMagic || table.readUInt32LE(4) !== length - headerSize) {
    throw corrupt('its seek table does not begin where it should');
  }

  const frames = { compressed: new Float64Array(count + 1), raw: new Float64Array(count + 1) };
  for (let index = 0, at = headerSize; index < count; index++, at += entrySize) {
    const rawSize = table.readUInt32LE(at + 4);
    if (rawSize > largestFrame) throw corrupt(`frame ${index} is said to unpack to ${rawSize} bytes`);
    frames.compressed[index + 1] = (frames.compressed[index] as number) + table.readUInt32LE(at);
    frames.raw[index + 1] = (frames.raw[index] as number) + rawSize;
  }
  if (frames.compressed[count] !== size - length) throw corrupt('its frames do not fill it');
  return frames;
}

async function* readRange(
  read: ReadAt,
  { compressed, raw }: Frames,
  from: number,
  to: number,
): AsyncGenerator<Buffer, void, undefined> {
  const end = Math.min(to, raw.at(-1) as number);
  let frame = raw.findLastIndex((start) => start <= from);
  while ((raw[frame] as number) < end) {
    const start = compressed[frame] as number;
    let next = frame + 1;
    while ((raw[next] as number) < end && (compressed[next + 1] as number) - start <= readSize) next++;
    const bytes = await read(start, (compressed[next] as number) - start);
    const unpacked = (of: number): Promise<Buffer> => {
      const piece = bytes.subarray((compressed[of] as number) - start, (compressed[of + 1] as number) - start);
      const content = unpack(piece, (raw[of + 1] as number) - (raw[of] as number), of);
      content.catch(() => {}); // the reader that awaits it gets the error
      return content;
    };
    const coming: Promise<Buffer>[] = [];
    for (let begun = frame; frame < next; frame++) {
      // Several threads unpack: while the caller uses one frame, the next ones are unpacked.
      while (begun < next && begun < frame + framesAhead) coming.push(unpacked(begun++));
      const begin = raw[frame] as number;
      const content = (await coming.shift()) as Buffer;
      const wanted = content.subarray(Math.max(0, from - begin), end - begin);
      if (wanted.length > 0) yield wanted;
    }
  }
}

async function unpack(frame: Buffer, size: number, index: number): Promise<Buffer> {
  const content = await decompress(frame, unpackOptions(size)).catch((cause: unknown) => {
    throw new CorruptSeekableError(`frame ${index} cannot be unpacked`, { cause });
  });
  if (content.length !== size) throw wrongLength(index);
  return content;
}

/** One byte more than in the table reveals a frame that is longer. */
function unpackOptions(size: number): { maxOutputLength: number; chunkSize: number } {
  return { maxOutputLength: size + 1, chunkSize: Math.max(size + 1, constants.Z_MIN_CHUNK) };
}

function wrongLength(frame: number): CorruptSeekableError {
  return new CorruptSeekableError(`frame ${frame} is not as long as its table says`);
}
