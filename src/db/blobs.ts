import { createHash } from 'node:crypto';
import { mkdir, open, readdir, rename, rm, stat, type FileHandle } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { DiskFullError, isNoSpace, type DiskReserve } from '../lib/disk-reserve.ts';
import { openIncoming, type Incoming } from './incoming.ts';

/** Large things, named by the SHA-256 of what they hold. A name is there whole or not at all. */
export interface Blobs {
  /** Stores what comes and answers its name. Throws a DiskFullError when there is no room for it. */
  put(content: AsyncIterable<Uint8Array>): Promise<{ digest: string; size: number }>;
  open(digest: string): Promise<Blob>;
  /**
   * Removes what nobody refers to: asks about the blobs that have lain here for longer than `age`, some at a time, and
   * removes those that are not among the answer. A blob is stored before anything refers to it, so `age` must be longer
   * than that ever takes. Answers how many were removed.
   */
  collect(age: number, referredTo: (digests: string[]) => Promise<Set<string>>): Promise<number>;
  /**
   * Removes one blob at once, unless it is wanted. It is out of the way before the last look: what is stored under the
   * same name from then on is another file. So whoever stores one has to be among those who want it by then.
   */
  remove(digest: string, isWanted: () => Promise<boolean>): Promise<'removed' | 'missing' | 'wanted'>;
  close(): Promise<void>;
}

export interface Blob extends AsyncDisposable {
  size: number;
  read(offset: number, length: number): Promise<Buffer>;
}

/** Blobs as files below a folder, as long as its disk has room. */
export async function openFileBlobs(folder: string, disk: Pick<DiskReserve, 'take'>): Promise<Blobs> {
  const incoming = openIncoming(incomingFolder(folder));
  await mkdir(incomingFolder(folder), { recursive: true, mode: 0o700 });
  await incoming.sweep();
  /** What this process stored, and when by its own clock: the files' own times are by one that may be set. */
  const stored = new Map<string, number>();
  const pathOf = (digest: string): string => {
    if (!/^[0-9a-f]{64}$/.test(digest)) throw new Error('a blob is named by a SHA-256');
    return join(folder, digest.slice(0, 2), digest);
  };
  return {
    async put(content) {
      const temporary = await incoming.file();
      try {
        const { digest, size } = await write(temporary, content, disk);
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
      for (const dependencyCache of await readdir(folder)) {
        if (!/^[0-9a-f]{2}$/.test(dependencyCache)) continue;
        const before = Date.now() - age;
        const old: string[] = [];
        for (const digest of await readdir(join(folder, dependencyCache)))
          if (!stored.has(digest) && (await isOlder(join(folder, dependencyCache, digest), before))) old.push(digest);
        if (old.length === 0) continue;
        const wanted = await referredTo(old);
        for (const digest of old) {
          if (!wanted.has(digest) && (await removeOld(pathOf(digest), incoming, before))) removed += 1;
        }
      }
      return removed;
    },
    async remove(digest, isWanted) {
      if (await isWanted()) return 'wanted';
      const aside = await incoming.file();
      try {
        await rename(pathOf(digest), aside);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 'missing';
        throw error;
      }
      const wanted = await isWanted();
      if (wanted) await rename(aside, pathOf(digest));
      else await rm(aside);
      return wanted ? 'wanted' : 'removed';
    },
    close: () => incoming.close(),
  };
}

async function isOlder(path: string, moment: number): Promise<boolean> {
  const file = await stat(path).catch(() => undefined); // removed in between
  return file !== undefined && file.mtimeMs < moment;
}

/**
 * The same content may be stored anew at this very moment, and must not be removed then. So it is put aside first:
 * what was put aside can be looked at without anybody changing it, and put back.
 */
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

/** Where blobs lie until they are whole. */
export function incomingFolder(folder: string): string {
  return join(folder, 'incoming');
}

/** So much is gathered for one write: many small ones cost more than the disk does. */
const batchSize = 1024 * 1024;
const mostParts = 512;
/** So much is written before the disk is asked to take it: all at the end would make the sender wait for the disk. */
const flushSize = 32 * 1024 * 1024;

/** While one batch is written and flushed, the next arrives and is hashed. No more than these two are held. */
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
    writing.catch(() => {}); // whoever waits for it next is told
    unflushed += length;
    if (unflushed < flushSize || flushing) return;
    unflushed = 0;
    flushing = file.datasync().finally(() => (flushing = undefined));
    flushing.catch(() => {}); // the last flush meets the same trouble
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

/** A new name survives a power cut only once its folder is on the disk too. */
async function flushFolder(folder: string): Promise<void> {
  await using handle = await open(folder, 'r');
  await handle.sync();
}
