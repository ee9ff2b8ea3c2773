import {
  AbortMultipartUploadCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  type ListMultipartUploadsCommandOutput,
  type ListObjectsV2CommandOutput,
} from '@aws-sdk/client-s3';
import { NoSuchObjectError } from './failures.ts';
import type { S3Link } from './link.ts';

export interface Listed {
  key: string;
  size: number;
  /** By S3's clock, in milliseconds since 1970. */
  modified: number;
}

/** In the order of their keys. */
export async function* pagesOf({ ask, client, place }: S3Link, begin: string): AsyncGenerator<Listed[]> {
  let token: string | undefined;
  do {
    const list = new ListObjectsV2Command({ Bucket: place.bucket, Prefix: begin, ContinuationToken: token });
    const page: ListObjectsV2CommandOutput = await ask((abortSignal) => client.send(list, { abortSignal }));
    yield (page.Contents ?? []).flatMap(({ Key, Size = 0, LastModified }) =>
      Key === undefined ? [] : [{ key: Key, size: Size, modified: LastModified?.getTime() ?? Infinity }],
    );
    token = page.IsTruncated === true ? page.NextContinuationToken : undefined;
  } while (token !== undefined);
}

export interface ListedBlob extends Listed {
  digest: string;
}

/** In the order of their digests. The bucket may be shared, so it may have other objects too. */
export async function* blobPages(link: S3Link): AsyncGenerator<ListedBlob[]> {
  const { place, keys } = link;
  for await (const page of pagesOf(link, place.prefix)) {
    yield page.flatMap((object) => {
      const digest = object.key.slice(-64);
      return /^[0-9a-f]{64}$/.test(digest) && object.key === keys.of(digest) ? [{ ...object, digest }] : [];
    });
    if ((page.at(-1)?.key ?? '') > `${place.prefix}g`) return; // no digest comes after that
  }
}

export async function abortUploads({ ask, client, place }: S3Link, before: number): Promise<void> {
  const Bucket = place.bucket;
  let from: Pick<ListMultipartUploadsCommandOutput, 'NextKeyMarker' | 'NextUploadIdMarker'> = {};
  for (let isMore = true; isMore;) {
    const { NextKeyMarker: KeyMarker, NextUploadIdMarker: UploadIdMarker } = from;
    const list = new ListMultipartUploadsCommand({ Bucket, Prefix: place.prefix, KeyMarker, UploadIdMarker });
    const page = await ask((abortSignal) => client.send(list, { abortSignal }));
    for (const { Key, UploadId, Initiated } of page.Uploads ?? []) {
      if (
        Key === undefined ||
        !isBlobName(Key.slice(place.prefix.length)) ||
        !Initiated ||
        Initiated.getTime() >= before
      )
        continue;
      await ask(async (abortSignal) => {
        try {
          await client.send(new AbortMultipartUploadCommand({ Bucket, Key, UploadId }), { abortSignal });
        } catch (error) {
          if ((error as Error).name !== 'NoSuchUpload') throw error; // another server was first
        }
      });
    }
    from = page;
    isMore = page.IsTruncated === true;
  }
}

/** Without a prefix, other programs may upload to the same bucket. */
function isBlobName(name: string): boolean {
  return /^(incoming\/[0-9a-f-]{36}|[0-9a-f]{2}\/[0-9a-f]{64}|removed\/[0-9a-f]{64}\/[0-9a-f-]{36})$/.test(name);
}

/** Finds the copy of a blob that is being removed; see collect.ts. */
export async function findAside(link: S3Link, digest: string): Promise<string> {
  for await (const page of pagesOf(link, link.keys.aside(digest, ''))) for (const { key } of page) return key;
  throw new NoSuchObjectError(`there is no blob ${digest}`);
}
