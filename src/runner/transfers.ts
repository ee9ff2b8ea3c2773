import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { DiskFullError, isNoSpace } from '../shared/lib/disk-reserve.ts';
import { orAborted } from '../shared/lib/or-aborted.ts';
import type { Kept, Link, Stored } from '../shared/protocol/index.ts';
import { RejectedError } from './failures.ts';
import { untilAnswered } from './retry.ts';

/** The server lacks this blob, so a retry is useless. */
export class MissingBlobError extends Error {
  override name = 'MissingBlobError';
}

/** The server no longer wants the job's files. */
export class LostClaimError extends RejectedError {}

/** The limit for the job or for its files is exceeded. The server's limit may differ from the order's by now. */
export class TooLargeError extends DiskFullError {}

/** Throws unless the server has stored everything. */
export function expectStored(answer: Kept | Stored): void {
  if ('gone' in answer) throw new LostClaimError('the claim expired');
  if ('refused' in answer) throw answer.refused === 'disk_full' ? new DiskFullError() : new TooLargeError();
}

const pieceSize = 1024 * 1024;

/** Called after each failure. The transfer is retried unless this throws. */
type OnAway = (error: unknown) => void;

/** Fetches a blob to a new file, and checks its digest. After a lost connection, continues at the same offset. */
export async function fetchBlob(
  link: Pick<Link, 'read'>,
  digest: string,
  path: string,
  signal: AbortSignal,
  onAway?: OnAway,
): Promise<void> {
  const hash = createHash('sha256');
  let at = 0;
  await using file = await open(path, 'wx', 0o644);
  const isThere = await untilAnswered(
    signal,
    async () => {
      const content = await orAborted(link.read(digest, at, signal), signal);
      if (!content) return false;
      for await (const piece of content) {
        await file.writeFile(piece).catch((error: unknown) => {
          throw isNoSpace(error) ? new DiskFullError({ cause: error }) : error;
        });
        hash.update(piece);
        at += piece.length;
      }
      return true;
    },
    onAway,
  );
  if (!isThere) throw new MissingBlobError(`the server has no blob ${digest}`);
  if (hash.digest('hex') !== digest) throw new Error(`the bytes of blob ${digest} have another digest`);
}

/** Stores a file as a blob, with retries. Returns its digest. */
export async function storeBlob(
  link: Pick<Link, 'store'>,
  claim: string,
  path: string,
  signal: AbortSignal,
  onAway?: OnAway,
): Promise<string> {
  await using file = await openMade(path);
  return await untilAnswered(
    signal,
    async () => {
      const hash = createHash('sha256');
      async function* hashed(): AsyncGenerator<Buffer> {
        for await (const piece of piecesOf(file)) {
          hash.update(piece);
          yield piece;
        }
      }
      const answer = await link.store(claim, hashed(), signal);
      expectStored(answer);
      const digest = hash.digest('hex');
      if (!('digest' in answer) || answer.digest !== digest)
        throw new Error('the blob changed on its way to the server');
      return digest;
    },
    onAway,
  );
}

/** Reads the file from its start. A read stream would close the file after an abort, but the next try needs it. */
async function* piecesOf(file: FileHandle): AsyncGenerator<Buffer> {
  for (let position = 0; ;) {
    const { bytesRead, buffer } = await file.read({ buffer: Buffer.allocUnsafe(pieceSize), position });
    if (bytesRead === 0) return;
    position += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}

/**
 * Opens a file that a sandbox made. A build may have replaced the file. A link would be followed with the runner's
 * rights, and a pipe would block.
 */
export async function openMade(path: string): Promise<FileHandle> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  if ((await file.stat()).isFile()) return file;
  await file.close();
  throw new Error('the result of the sandbox is not a file');
}
