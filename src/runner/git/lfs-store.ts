import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { randomName } from '../../lib/random-name.ts';
import { UnavailableError } from './public-https.ts';

/** A file that Git LFS stores elsewhere, and the path of its pointer. */
export interface Pointer {
  oid: string;
  size: number;
  path: string;
}

/** The folder of downloaded files. */
export interface LargeFileStore {
  folder: string;
  takeRoom: (bytes: number) => Promise<void>;
  signal: AbortSignal;
}

/** Stores a file under its SHA-256, if it has that hash and its size; otherwise removes it. */
export async function keepLargeFile(
  { folder, takeRoom, signal }: LargeFileStore,
  { oid, size }: Pointer,
  chunks: AsyncIterable<Buffer>,
): Promise<void> {
  const part = join(folder, `${randomName()}.part`);
  const hash = createHash('sha256');
  const wrong = new UnavailableError('the content from its host does not match the pointer', true);
  async function* checked(): AsyncGenerator<Buffer> {
    let left = size;
    for await (const chunk of chunks) {
      left -= chunk.length;
      if (left < 0) throw wrong;
      await takeRoom(chunk.length);
      hash.update(chunk);
      yield chunk;
    }
    if (left > 0) throw new UnavailableError('its host closed the connection early', false);
  }
  try {
    await pipeline(checked, createWriteStream(part, { flags: 'wx', mode: 0o444 }), { signal });
    if (hash.digest('hex') !== oid) throw wrong;
    await rename(part, join(folder, oid));
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  }
}
