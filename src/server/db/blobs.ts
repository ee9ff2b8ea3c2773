import { createHash } from 'node:crypto';
import { mkdir, open, readdir, rename, rm, stat, type FileHandle } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { DiskFullError, isNoSpace, type DiskReserve } from '../../shared/lib/disk-reserve.ts';
import { flushFolder } from '../../shared/lib/folders.ts';
import { pathExists } from '../../shared/lib/path-exists.ts';
import { openIncoming, type Incoming } from './incoming.ts';

/** Large files, named by the SHA-256 of their content. A blob is complete or missing. */
export interface Blobs {
  /** Throws DiskFullError if there is no room, WrongDigestError if `expected` differs. Nothing is stored then. */
  put(content: AsyncIterable<Uint8Array>, expected?: string): Promise<{ digest: string; size: number }>;
  /** A missing blob fails with code ENOENT. */
  open(digest: string): Promise<Blob>;
  /**
   * Passes batches of blobs older than `age` to `referredTo` and removes those it does not return. A blob is stored
   * before a row refers to it, so `age` must be longer than that takes.
   */
  collect(age: number, referredTo: (digests: string[]) => Promise<Set<string>>): Promise<number>;
  /**
   * Removes one blob now, unless it is wanted. The file is moved away before the last check, so content stored later
   * under the same name is another file. By then a caller that stores a blob must count as wanting it, or refer to it
   * within `age`. A blob stored less than `age` ago is `young` and stays.
   */
  remove(
    digest: string,
    isWanted: () => Promise<boolean>,
    age?: number,
  ): Promise<'removed' | 'missing' | 'wanted' | 'young'>;
  list(): AsyncIterable<{ digest: string; size: number }>;
  /** How many more bytes fit; missing if unknown. */
  room?(): Promise<number>;
  /** Rejects with the reason in words if blobs cannot be stored or read now. */
  prove(): Promise<void>;
  close(): Promise<void>;
}

export class WrongDigestError extends Error {
  override name = 'WrongDigestError';

  constructor(expected: string) {
    super(`the bytes of blob ${expected} have another digest`);
  }
}

export interface Blob extends AsyncDisposable {
  size: number;
  read(offset: number, length: number): Promise<Buffer>;
  /**
   * A web address of the blob, valid for some minutes. It is a secret: give it only to readers of the blob, and
   * never log it. Undefined if the store has none, or for a browser's download if browsers cannot reach the store.
   */
  address?(download?: Download): Promise<string | undefined>;
}

export interface Download {
  contentType: string;
  contentEncoding: string;
  fileName: string;
}

const pieceSize = 1024 * 1024;

export async function* piecesOf(blob: Blob, from = 0, to = blob.size): AsyncGenerator<Buffer> {
  for (let at = from; at < to;) {
    const piece = await blob.read(at, Math.min(pieceSize, to - at));
    if (piece.length === 0) throw new Error('a blob ended before its end');
    yield piece;
    at += piece.length;
  }
}

export async function openFileBlobs(folder: string, disk: Pick<DiskReserve, 'take' | 'room'>): Promise<Blobs> {
  const incoming = openIncoming(incomingFolder(folder));
  await mkdir(incomingFolder(folder), { recursive: true, mode: 0o700 });
  await incoming.sweep();
  /** When this process stored each blob, by its own clock: the machine's clock, which dates files, may be set. */
  const stored = new Map<string, number>();
  const pathOf = (digest: string): string => {
    if (!/^[0-9a-f]{64}$/.test(digest)) throw new Error('a blob is named by a SHA-256');
    return join(folder, digest.slice(0, 2), digest);
  };
  return {
    async put(content, expected) {
      const temporary = await incoming.file();
      try {
        const { digest, size } = await write(temporary, content, disk);
        if (expected !== undefined && digest !== expected) throw new WrongDigestError(expected);
        const path = pathOf(digest);
        await mkdir(dirname(path), { recursive: true, mode: 0o700 });
        await rename(temporary, path);
        stored.set(digest, performance.now());
        await flushFolder(dirname(path));
        return { digest, size };
      } catch (error) {
        throw isNoSpace(error) ? new DiskFullError({ cause: error }) : error;
      } finally {
        await rm(temporary, { force: true });
      }
    },
    async open(digest) {
      const file = await open(pathOf(digest), 'r');
      const { size } = await file.stat();
      return {
        size,
        read: (offset, length) => readAt(file, offset, length),
        [Symbol.asyncDispose]: () => file.close(),
      };
    },
    async collect(age, referredTo) {
      await incoming.sweep();
      for (const [digest, at] of stored) if (performance.now() - at > age) stored.delete(digest);
      let removed = 0;
      for (const group of await readdir(folder)) {
        if (!/^[0-9a-f]{2}$/.test(group)) continue;
        const before = Date.now() - age;
        const old: string[] = [];
        for (const digest of await readdir(join(folder, group)))
          if (!stored.has(digest) && (await isOlder(join(folder, group, digest), before))) old.push(digest);
        if (old.length === 0) continue;
        const wanted = await referredTo(old);
        for (const digest of old) {
          if (!wanted.has(digest) && (await removeOld(pathOf(digest), incoming, before))) removed += 1;
        }
      }
      return removed;
    },
    async remove(digest, isWanted, age) {
      if (await isWanted()) return 'wanted';
      const isYoung = async (path: string): Promise<boolean> =>
        age !== undefined &&
        (performance.now() - (stored.get(digest) ?? -Infinity) < age || !(await isOlder(path, Date.now() - age)));
      const path = pathOf(digest);
      if (await isYoung(path)) return (await pathExists(path)) ? 'young' : 'missing';
      const aside = await incoming.file();
      try {
        await rename(path, aside);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 'missing';
        throw error;
      }
      const fate = (await isYoung(aside)) ? 'young' : (await isWanted()) ? 'wanted' : 'removed';
      if (fate === 'removed') await rm(aside);
      else await rename(aside, path);
      return fate;
    },
    async *list() {
      for (const group of (await readdir(folder)).toSorted()) {
        if (!/^[0-9a-f]{2}$/.test(group)) continue;
        for (const digest of (await readdir(join(folder, group))).toSorted()) {
          const file = await stat(join(folder, group, digest)).catch(() => undefined); // removed in between
          if (/^[0-9a-f]{64}$/.test(digest) && file?.isFile()) yield { digest, size: file.size };
        }
      }
    },
    room: () => disk.room(),
    prove: async () => {}, // the disk is watched by its reserve
    close: () => incoming.close(),
  };
}

async function isOlder(path: string, moment: number): Promise<boolean> {
  const file = await stat(path).catch(() => undefined); // removed in between
  return file !== undefined && file.mtimeMs < moment;
}

/** Moves the file aside, so that no other process changes it: the same content may be stored again right now. */
async function removeOld(path: string, incoming: Incoming, moment: number): Promise<boolean> {
  const aside = await incoming.file();
  try {
    await rename(path, aside);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false; // another server was first
    throw error;
  }
  const isOld = await isOlder(aside, moment);
  if (isOld) await rm(aside);
  else await rename(aside, path);
  return isOld;
}

export function incomingFolder(folder: string): string {
  return join(folder, 'incoming');
}

/** Batch size of one write: many small writes cost more than the disk does. */
const batchSize = 1024 * 1024;
const mostParts = 512;
/** Flush after this much: one flush at the end would make the sender wait for the disk. */
const flushSize = 32 * 1024 * 1024;

/** While one batch is written and flushed, the next arrives and is hashed. Memory holds only these two. */
async function write(
  path: string,
  content: AsyncIterable<Uint8Array>,
  disk: Pick<DiskReserve, 'take'>,
): Promise<{ digest: string; size: number }> {
  const hash = createHash('sha256');
  await using file = await open(path, 'wx', 0o600);
  let batch: Uint8Array[] = [];
  let held = 0;
  let size = 0;
  let unflushed = 0;
  let writing = Promise.resolve();
  let flushing: Promise<void> | undefined;
  const writeBatch = async (): Promise<void> => {
    const parts = batch;
    const length = held;
    batch = [];
    held = 0;
    await disk.take(length);
    await writing;
    writing = writeParts(file, parts, length);
    writing.catch(() => {}); // the next await gets the error
    unflushed += length;
    if (unflushed < flushSize || flushing) return;
    unflushed = 0;
    flushing = file.datasync().finally(() => (flushing = undefined));
    flushing.catch(() => {}); // the last flush fails in the same way
  };
  try {
    for await (const chunk of content) {
      hash.update(chunk);
      batch.push(chunk);
      held += chunk.length;
      size += chunk.length;
      if (held >= batchSize || batch.length >= mostParts) await writeBatch();
    }
    await writeBatch();
    await writing;
    await flushing;
    await file.sync();
  } finally {
    await Promise.allSettled([writing, flushing]); // the file is closed next, and must not be in use then
  }
  return { digest: hash.digest('hex'), size };
}

async function writeParts(file: FileHandle, parts: Uint8Array[], length: number): Promise<void> {
  if (length === 0) return;
  const { bytesWritten } = await file.writev(parts);
  if (bytesWritten < length) await file.writeFile(Buffer.concat(parts).subarray(bytesWritten));
}

async function readAt(file: FileHandle, offset: number, length: number): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(length);
  const { bytesRead } = await file.read(buffer, 0, length, offset);
  return buffer.subarray(0, bytesRead);
}
