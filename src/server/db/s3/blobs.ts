import { randomUUID } from 'node:crypto';
import { GetObjectCommand } from '@aws-sdk/client-s3';
import type { Blobs } from '../blobs.ts';
import { BlobsAwayError } from '../unavailable.ts';
import { collect, remove, sweepIncoming } from './collect.ts';
import { openS3Link, type S3Link, type S3Options } from './link.ts';
import { blobPages } from './listing.ts';
import type { S3Location } from './location.ts';
import { openBlob } from './read-object.ts';
import { putObject, removeObject, storeContent, usualCopySize, usualPartSize } from './store-object.ts';

const day = 24 * 60 * 60 * 1000;
/** How long S3 is trusted after a success. */
const wellForMs = 10_000;
const proofMs = 4000;

/** Opening makes no call to S3; `prove` does. */
export function openS3Blobs(place: S3Location, options: S3Options = {}): Blobs {
  const link = openS3Link(place, options);
  const { partSize = usualPartSize, copySize = usualCopySize, abandonedAfterMs = day } = options;
  let isProven = false;
  let wellUntil = -Infinity;
  return {
    put: (content, expected) => storeContent(link, content, { partSize, copySize }, expected),
    open: (digest) => openBlob(link, digest),
    collect: (age, referredTo) => collect(link, age, referredTo, { copySize, abandonedAfterMs }),
    remove: (digest, isWanted, age) => remove(link, digest, isWanted, { copySize, age }),
    async *list() {
      for await (const page of blobPages(link)) yield* page.map(({ digest, size }) => ({ digest, size }));
    },
    async prove() {
      if (link.failure() === undefined && performance.now() < wellUntil) return;
      if (isProven) await link.prove(proofMs);
      else {
        await proveWritable(link);
        await sweepIncoming(link, abandonedAfterMs);
        isProven = true;
      }
      wellUntil = performance.now() + wellForMs;
    },
    async close() {
      link.close();
    },
  };
}

/** Stores and removes a small object: otherwise read-only credentials would be noticed too late. */
async function proveWritable(link: S3Link): Promise<void> {
  await link.prove(proofMs);
  const key = link.keys.incoming(randomUUID());
  const sent = Buffer.from('Headrace was here to see whether it can store its blobs.');
  await putObject(link, key, sent);
  const get = new GetObjectCommand({ Bucket: link.place.bucket, Key: key });
  let got: Uint8Array | undefined;
  try {
    got = await link.ask(async (abortSignal) => {
      const { Body: body } = await link.client.send(get, { abortSignal });
      return body?.transformToByteArray();
    });
  } finally {
    await removeObject(link, key);
  }
  if (!got || !sent.equals(got)) throw new BlobsAwayError('S3 returned other content than was stored');
}
