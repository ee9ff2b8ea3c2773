import { createHash, randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CopyObjectCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  HeadObjectCommand,
  PutObjectCommand,
  UploadPartCopyCommand,
} from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import { WrongDigestError } from '../blobs.ts';
import { BlobsAwayError } from '../unavailable.ts';
import type { S3Link } from './link.ts';

const megabyte = 1024 * 1024;
/**
 * S3 accepts up to 10,000 parts, so content has up to 80 GB. While content of several parts is stored, three of them
 * are in memory.
 */
export const usualPartSize = 8 * megabyte;
export const usualCopySize = 256 * megabyte;
const partsAtOnce = 2;
/** Time limit for sending one part, or for copying one part within S3. */
const partWithinMs = 180_000;
/** A last limit: normally the sender ends an upload, or one part exceeds its time. */
const uploadWithinMs = 24 * 60 * 60 * 1000;

export interface Sizes {
  partSize: number;
  copySize: number;
}

/**
 * The digest is known only at the end. So content of several parts is streamed to `incoming/`, then copied to its name
 * within S3. S3 shows nothing of an upload before its end, so an object is complete or missing.
 */
export async function storeContent(
  link: S3Link,
  content: AsyncIterable<Uint8Array>,
  sizes: Sizes,
  expected: string | undefined,
): Promise<{ digest: string; size: number }> {
  const arriving = content[Symbol.asyncIterator]();
  const hash = createHash('sha256');
  let size = 0;
  let brokenOff: { error: unknown } | undefined;
  const next = async (): Promise<IteratorResult<Uint8Array>> => {
    try {
      const piece = await arriving.next();
      if (piece.done !== true) {
        hash.update(piece.value);
        size += piece.value.length;
      }
      return piece;
    } catch (error) {
      brokenOff = { error };
      throw error;
    }
  };
  const named = (): string => {
    const digest = hash.digest('hex');
    if (expected !== undefined && digest !== expected) throw new WrongDigestError(expected);
    return digest;
  };
  try {
    const held: Uint8Array[] = [];
    let piece = await next();
    while (piece.done !== true) {
      held.push(piece.value);
      if (size > sizes.partSize) break;
      piece = await next();
    }
    if (piece.done === true) {
      const digest = named();
      await putObject(link, link.keys.of(digest), Buffer.concat(held));
      return { digest, size };
    }
    async function* all(): AsyncGenerator<Uint8Array> {
      for (let piece = held.shift(); piece; piece = held.shift()) yield piece;
      for (let more = await next(); more.done !== true; more = await next()) yield more.value;
    }
    const temporary = link.keys.incoming(randomUUID());
    await upload(link, temporary, all(), sizes.partSize);
    try {
      const digest = named();
      await copyObject(link, temporary, link.keys.of(digest), { size, copySize: sizes.copySize });
      return { digest, size };
    } finally {
      await removeObject(link, temporary).catch(() => {}); // it is swept in time
    }
  } catch (error) {
    throw brokenOff ? brokenOff.error : error;
  } finally {
    await arriving.return?.();
  }
}

export async function putObject({ ask, client, place }: S3Link, key: string, body: Buffer): Promise<void> {
  const put = new PutObjectCommand({
    Bucket: place.bucket,
    Key: key,
    Body: body,
    ContentType: 'application/octet-stream',
  });
  await ask((abortSignal) => client.send(put, { abortSignal }), partWithinMs);
}

async function upload(
  { ask, client, place }: S3Link,
  key: string,
  content: AsyncIterable<Uint8Array>,
  partSize: number,
): Promise<void> {
  const body = Readable.from(content, { objectMode: false, highWaterMark: 1024 * 1024 });
  const params = { Bucket: place.bucket, Key: key, Body: body, ContentType: 'application/octet-stream' };
  try {
    await ask(async (signal) => {
      const abortController = new AbortController();
      signal.addEventListener('abort', () => abortController.abort());
      await new Upload({ client, params, partSize, queueSize: partsAtOnce, abortController }).done();
    }, uploadWithinMs);
  } finally {
    body.destroy();
  }
}

/** In parts if it is too large for one copy. A copy of another length is refused. */
export async function copyObject(
  link: S3Link,
  from: string,
  to: string,
  { size, copySize }: { size: number; copySize: number },
): Promise<void> {
  const { ask, client, place } = link;
  const Bucket = place.bucket;
  const source = { Bucket, Key: to, CopySource: `${Bucket}/${from.split('/').map(encodeURIComponent).join('/')}` };
  /** If the source disappears during the copy, Swift reports a missing bucket, so the source is checked. */
  const copy = <T>(send: (signal: AbortSignal) => Promise<T>): Promise<T> =>
    ask(async (signal) => {
      try {
        return await send(signal);
      } catch (error) {
        if (error instanceof Error && error.name === 'NoSuchBucket') await factsOf(link, from);
        throw error;
      }
    }, partWithinMs);
  if (size <= copySize) {
    await copy((abortSignal) => client.send(new CopyObjectCommand(source), { abortSignal }));
  } else {
    const target = { Bucket, Key: to, ContentType: 'application/octet-stream' };
    const { UploadId } = await ask((abortSignal) =>
      client.send(new CreateMultipartUploadCommand(target), { abortSignal }),
    );
    try {
      const Parts: { PartNumber: number; ETag: string | undefined }[] = [];
      for (let at = 0; at < size; at += copySize) {
        const PartNumber = Parts.length + 1;
        const CopySourceRange = `bytes=${at}-${Math.min(at + copySize, size) - 1}`;
        const part = new UploadPartCopyCommand({ ...source, UploadId, PartNumber, CopySourceRange });
        const { CopyPartResult } = await copy((abortSignal) => client.send(part, { abortSignal }));
        Parts.push({ PartNumber, ETag: CopyPartResult?.ETag });
      }
      const whole = new CompleteMultipartUploadCommand({ Bucket, Key: to, UploadId, MultipartUpload: { Parts } });
      await ask((abortSignal) => client.send(whole, { abortSignal }), partWithinMs);
    } catch (error) {
      const abort = new AbortMultipartUploadCommand({ Bucket, Key: to, UploadId });
      await ask((abortSignal) => client.send(abort, { abortSignal })).catch(() => {}); // it is swept in time
      throw error;
    }
  }
  if ((await factsOf(link, to)).size !== size) throw new BlobsAwayError('S3 made a copy of another length');
}

export async function factsOf(
  { ask, client, place }: S3Link,
  key: string,
): Promise<{ size: number; modified: number }> {
  const head = new HeadObjectCommand({ Bucket: place.bucket, Key: key });
  const { ContentLength = -1, LastModified } = await ask((abortSignal) => client.send(head, { abortSignal }));
  return { size: ContentLength, modified: LastModified?.getTime() ?? Infinity };
}

export async function removeObject({ ask, client, place }: S3Link, key: string): Promise<void> {
  const remove = new DeleteObjectCommand({ Bucket: place.bucket, Key: key });
  await ask((abortSignal) => client.send(remove, { abortSignal }));
}
