import { createHash, randomUUID } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Failure } from '../client/failure.ts';
import { words } from './text.ts';

export interface Expected {
  what: string;
  sha256: string;
  size?: number;
  mode: number;
  onBytes?: (count: number) => void;
}

/**
 * The file gets its name only when it is complete and has its digest. A link with that name is replaced, not followed.
 */
export async function download(bytes: Readable, file: string, expected: Expected): Promise<void> {
  const { what, sha256, size = Number.POSITIVE_INFINITY, mode, onBytes = () => {} } = expected;
  const part = join(dirname(file), `.headrace-${randomUUID()}`);
  const hash = createHash('sha256');
  async function* checked(): AsyncGenerator<Buffer> {
    let count = 0;
    for await (const piece of bytes as AsyncIterable<Buffer>) {
      count += piece.length;
      if (count > size) return;
      hash.update(piece);
      onBytes(piece.length);
      yield piece;
    }
  }
  try {
    await pipeline(checked, createWriteStream(part, { mode, flags: 'wx' }));
    if (hash.digest('hex') !== sha256) throw new Failure('unreachable', words`${what} arrived incomplete. Try again.`);
    await rename(part, file);
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  }
}
