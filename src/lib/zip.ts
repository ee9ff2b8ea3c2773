import { setImmediate as nextTurn } from 'node:timers/promises';
import { mapByTurns } from './turns.ts';

/**
 * A ZIP archive as a stream, of files whose size and checksum are known before: each entry is complete in its header, so
 * every program can read the archive from its beginning on, and its length is known too. The files are stored as they
 * are: what is large is mostly compressed already. Larger numbers than the old format has get the records of ZIP64.
 */
export interface ZipEntry {
  /** Relative, with slashes. */
  name: string;
  size: number;
  crc32: number;
  modifiedAt: Date;
}

/** Where a number stands that is found in the ZIP64 record. */
const elsewhere = 0xffffffff;
const utf8 = 0x0800;
const unixFile = (0o100644 << 16) >>> 0;
const madeOnUnix = 3 << 8;

interface Options {
  /** Numbers from this one on are written in the records of ZIP64. */
  zip64From?: number;
}

/** How long the archive of these entries is. */
export function zipLength(entries: readonly ZipEntry[], { zip64From = elsewhere }: Options = {}): number {
  let offset = 0;
  let size = 0;
  for (const entry of entries) {
    const isLarge = entry.size >= zip64From;
    const name = Buffer.byteLength(entry.name);
    size += 46 + name + largeLength((isLarge ? 2 : 0) + (offset >= zip64From ? 1 : 0)) + momentLength;
    offset += localLength(name, entry.size, isLarge);
  }
  return offset + size + end(entries.length, size, offset, zip64From).length;
}

/** The length of the ZIP64 record with so many numbers. */
const largeLength = (numbers: number): number => (numbers > 0 ? 4 + 8 * numbers : 0);
const momentLength = 9;

/** The length of a file in the archive, with what stands before it. */
const localLength = (name: number, size: number, isLarge: boolean): number =>
  30 + name + largeLength(isLarge ? 2 : 0) + momentLength + size;

export async function* zip<Entry extends ZipEntry>(
  entries: readonly Entry[],
  contentOf: (entry: Entry) => AsyncIterable<Uint8Array>,
  options: Options = {},
): AsyncGenerator<Uint8Array> {
  for (const entry of entries) {
    yield localHeader(entry, options);
    yield* contentOf(entry);
  }
  yield* directory(entries, options);
}

/**
 * Names for the archive: no path in it leads out of the folder into which it is unpacked, also where a backslash
 * separates folders or a letter and a colon name a disk. Those that would be the same get a number.
 */
export async function zipNames(paths: readonly string[]): Promise<string[]> {
  const taken = new Set<string>();
  /** The last number that each name got: with thousands of the same, nothing is tried twice. */
  const numbers = new Map<string, number>();
  return mapByTurns(paths, (path) => {
    const parts = path.replaceAll('\\', '_').split('/');
    const safe = parts
      .filter((part) => part !== '' && part !== '.')
      .map((part) => (part === '..' ? '__' : part))
      .join('/')
      .replace(/^([A-Za-z]):/, '$1_');
    const base = safe === '' ? '_' : safe;
    let name = base;
    for (let number = numbers.get(base) ?? 1; taken.has(name); numbers.set(base, number)) name = `${base}-${++number}`;
    taken.add(name);
    return name;
  });
}

const fields = (...values: [size: 2 | 4 | 8, value: number][]): Buffer => {
  const bytes = Buffer.alloc(values.reduce((sum, [size]) => sum + size, 0));
  let at = 0;
  for (const [size, value] of values) {
    if (size === 8) bytes.writeBigUInt64LE(BigInt(value), at);
    else bytes.writeUIntLE(value, at, size);
    at += size;
  }
  return bytes;
};

/** The parts that an entry has in both places. */
function common({ size, crc32, modifiedAt }: ZipEntry, name: Buffer, isLarge: boolean, extra: Buffer): Buffer {
  const shown = isLarge ? elsewhere : size;
  return fields(
    [2, isLarge ? 45 : 20],
    [2, utf8],
    [2, 0],
    [4, dosTime(modifiedAt)],
    [4, crc32],
    [4, shown],
    [4, shown],
    [2, name.length],
    [2, extra.length],
  );
}

function localHeader(entry: ZipEntry, { zip64From = elsewhere }: Options): Buffer {
  const name = Buffer.from(entry.name);
  const isLarge = entry.size >= zip64From;
  const large = isLarge ? fields([2, 1], [2, 16], [8, entry.size], [8, entry.size]) : Buffer.alloc(0);
  const extra = Buffer.concat([large, moment(entry)]);
  return Buffer.concat([fields([4, 0x04034b50]), common(entry, name, isLarge, extra), name, extra]);
}

/** So many entries of the directory are written in one go; then others get their turn. */
const entriesAtOnce = 500;

async function* directory(entries: readonly ZipEntry[], { zip64From = elsewhere }: Options): AsyncGenerator<Buffer> {
  let records: Buffer[] = [];
  let [offset, size] = [0, 0];
  for (const [at, entry] of entries.entries()) {
    const name = Buffer.from(entry.name);
    const isLarge = entry.size >= zip64From;
    const isFar = offset >= zip64From;
    const sizes: [8, number][] = isLarge ? [[8, entry.size], [8, entry.size]] : []; // prettier-ignore
    const numbers: [8, number][] = [...sizes, ...(isFar ? [[8, offset] as [8, number]] : [])];
    const large = numbers.length > 0 ? fields([2, 1], [2, 8 * numbers.length], ...numbers) : Buffer.alloc(0);
    const extra = Buffer.concat([large, moment(entry)]);
    records.push(
      fields([4, 0x02014b50], [2, madeOnUnix | 45]),
      common(entry, name, isLarge, extra),
      fields([2, 0], [2, 0], [2, 0], [4, unixFile], [4, isFar ? elsewhere : offset]),
      name,
      extra,
    );
    offset += localLength(name.length, entry.size, isLarge);
    if ((at + 1) % entriesAtOnce > 0 && at + 1 < entries.length) continue;
    const written = Buffer.concat(records);
    records = [];
    size += written.length;
    yield written;
    await nextTurn();
  }
  yield end(entries.length, size, offset, zip64From);
}

function end(count: number, size: number, offset: number, zip64From: number): Buffer {
  const isLarge = count >= Math.min(0xffff, zip64From) || size >= zip64From || offset >= zip64From;
  const large = isLarge
    ? [
        fields([4, 0x06064b50], [8, 44], [2, madeOnUnix | 45], [2, 45], [4, 0], [4, 0]),
        fields([8, count], [8, count], [8, size], [8, offset]),
        fields([4, 0x07064b50], [4, 0], [8, offset + size], [4, 1]),
      ]
    : [];
  const [shownCount, shownSize, shownOffset] = isLarge ? [0xffff, elsewhere, elsewhere] : [count, size, offset];
  const last = fields([4, 0x06054b50], [2, 0], [2, 0], [2, shownCount], [2, shownCount], [4, shownSize], [4, shownOffset], [2, 0]); // prettier-ignore
  return Buffer.concat([...large, last]);
}

/** The time in UTC, in seconds; the old field has no time zone, and counts from 1980 on by two seconds. */
function moment({ modifiedAt }: ZipEntry): Buffer {
  return Buffer.concat([fields([2, 0x5455], [2, 5]), Buffer.from([1]), fields([4, Math.floor(+modifiedAt / 1000)])]);
}

function dosTime(at: Date): number {
  const date = (Math.max(0, at.getUTCFullYear() - 1980) << 9) | ((at.getUTCMonth() + 1) << 5) | at.getUTCDate();
  const time = (at.getUTCHours() << 11) | (at.getUTCMinutes() << 5) | (at.getUTCSeconds() >> 1);
  return ((date << 16) | time) >>> 0;
}
