import { createHash, randomUUID } from 'node:crypto';
import { mkdir, open, readdir, rename, rm, stat, type FileHandle } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/** Large things, named by the SHA-256 of what they hold. A name is there whole or not at all. */
export interface Blobs {
  /** Stores what comes and answers its name. */
  put(content: AsyncIterable<Uint8Array>): Promise<{ digest: string; size: number }>;
  open(digest: string): Promise<Blob>;
  remove(digest: string): Promise<void>;
}

export interface Blob extends AsyncDisposable {
  size: number;
  read(offset: number, length: number): Promise<Buffer>;
}

/** Blobs as files below a folder. */
export async function openFileBlobs(folder: string): Promise<Blobs> {
  const incoming = join(folder, 'incoming');
  await mkdir(incoming, { recursive: true, mode: 0o700 });
  await sweep(incoming);
  const pathOf = (digest: string): string => {
    if (!/^[0-9a-f]{64}$/.test(digest)) throw new Error('a blob is named by a SHA-256');
    return join(folder, digest.slice(0, 2), digest);
  };
  return {
    async put(content) {
      const temporary = join(incoming, randomUUID());
      try {
        const { digest, size } = await write(temporary, content);
        const path = pathOf(digest);
        await mkdir(dirname(path), { recursive: true, mode: 0o700 });
        await rename(temporary, path);
        await flushFolder(dirname(path));
        return { digest, size };
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
    remove: (digest) => rm(pathOf(digest), { force: true }),
  };
}

/** A file that nobody has written to for this long, nobody writes to. */
const abandonedAfter = 24 * 60 * 60 * 1000;

/** What a killed server left half-written goes; what another process writes at this moment stays. */
async function sweep(incoming: string): Promise<void> {
  for (const name of await readdir(incoming)) {
    const path = join(incoming, name);
    const file = await stat(path).catch(() => undefined); // finished in between
    if (file && file.mtimeMs < Date.now() - abandonedAfter) await rm(path, { force: true });
  }
}

async function write(path: string, content: AsyncIterable<Uint8Array>): Promise<{ digest: string; size: number }> {
  const hash = createHash('sha256');
  await using file = await open(path, 'wx', 0o600);
  for await (const chunk of content) {
    hash.update(chunk);
    await file.writeFile(chunk);
  }
  await file.sync();
  return { digest: hash.digest('hex'), size: (await stat(path)).size };
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
