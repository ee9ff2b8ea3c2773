import type { Readable } from 'node:stream';
import { GetObjectCommand } from '@aws-sdk/client-s3';
import { getSignedUrl } from '@aws-sdk/s3-request-presigner';
import type { Blob } from '../blobs.ts';
import { BlobsAwayError } from '../unavailable.ts';
import { NoSuchObjectError } from './failures.ts';
import type { S3Link } from './link.ts';
import { findAside } from './listing.ts';

/** The end of a blob is read together with its size: a packed log has its table there, and most blobs are shorter. */
const tailSize = 64 * 1024;
const tries = 3;
/** A download must begin within this time. It may then take longer. */
const addressSeconds = 300;

interface Part {
  bytes: Buffer;
  start: number;
  size: number;
}

interface PartRequest {
  range: string;
  most: number;
}

export async function openBlob(link: S3Link, digest: string): Promise<Blob> {
  let key = link.keys.of(digest);
  /** While the blob is being removed or restored, it has another key. */
  const found = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof NoSuchObjectError)) throw error;
      key = await findAside(link, digest);
      return work();
    }
  };
  const tail = await found(() => readPart(link, key, { range: `-${tailSize}`, most: tailSize }));
  const { size } = tail;
  if (tail.start + tail.bytes.length !== size) throw garbled();
  return {
    size,
    async read(offset, length) {
      const end = Math.min(offset + length, size);
      if (offset >= end) return Buffer.alloc(0);
      if (offset >= tail.start) return tail.bytes.subarray(offset - tail.start, end - tail.start);
      const part = await found(() => readPart(link, key, { range: `${offset}-${end - 1}`, most: end - offset }));
      if (part.start !== offset || part.bytes.length !== end - offset || part.size !== size) throw garbled();
      return part.bytes;
    },
    async address(download) {
      const { bucket, browsers } = link.place;
      if (download && !browsers) return undefined;
      const details = download && {
        ResponseContentType: download.contentType,
        ResponseContentEncoding: download.contentEncoding,
        ResponseContentDisposition: `attachment; filename="${download.fileName}"`,
      };
      const get = new GetObjectCommand({ Bucket: bucket, Key: key, ...details });
      return link.ask(() => getSignedUrl(link.client, get, { expiresIn: addressSeconds }));
    },
    async [Symbol.asyncDispose]() {},
  };
}

/** Retries a body that is interrupted in the middle. The SDK retries only the start of a response. */
async function readPart(link: S3Link, key: string, part: PartRequest): Promise<Part> {
  for (let tried = 1; ; tried += 1) {
    try {
      return await link.ask((signal) => readOnce(link, key, part, signal));
    } catch (error) {
      if (tried === tries || !(error instanceof BlobsAwayError) || !error.message.includes(cutOff)) throw error;
    }
  }
}

const cutOff = 'interrupted its response';

async function readOnce({ client, place }: S3Link, key: string, part: PartRequest, signal: AbortSignal): Promise<Part> {
  const get = new GetObjectCommand({ Bucket: place.bucket, Key: key, Range: `bytes=${part.range}` });
  let answer;
  try {
    answer = await client.send(get, { abortSignal: signal });
  } catch (error) {
    if ((error as Error).name === 'InvalidRange') return { bytes: Buffer.alloc(0), start: 0, size: 0 }; // it is empty
    throw error;
  }
  const { Body: body, ContentRange: range, ContentLength: length = 0 } = answer;
  const [, from = '0', to = String(length - 1), size = String(length)] =
    /^bytes ([0-9]{1,15})-([0-9]{1,15})\/([0-9]{1,15})$/.exec(range ?? '') ?? [];
  const expected = Number(to) - Number(from) + 1;
  // A store that ignores the range and sends everything would fill the memory.
  if (!body || !(expected <= part.most)) {
    (body as { destroy?: () => void } | undefined)?.destroy?.();
    throw garbled();
  }
  const bytes = await bytesOf(body as Readable, expected).catch(() => {
    signal.throwIfAborted();
    throw new BlobsAwayError(`S3 ${cutOff}`);
  });
  if (bytes.length > expected) throw garbled();
  if (bytes.length < expected) throw new BlobsAwayError(`S3 ${cutOff}`);
  return { bytes, start: Number(from), size: Number(size) };
}

/** Cuts a body that is longer than expected. */
async function bytesOf(body: Readable, expected: number): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let length = 0;
  for await (const piece of body as AsyncIterable<Buffer>) {
    pieces.push(piece);
    length += piece.length;
    if (length > expected) break;
  }
  return Buffer.concat(pieces);
}

function garbled(): BlobsAwayError {
  return new BlobsAwayError('S3 sent another range than requested');
}
