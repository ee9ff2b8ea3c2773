import { randomUUID } from 'node:crypto';
import type { Blobs } from '../blobs.ts';
import { NoSuchObjectError } from './failures.ts';
import type { S3Link } from './link.ts';
import { abortUploads, blobPages, pagesOf, type Listed } from './listing.ts';
import { copyObject, factsOf, removeObject } from './store-object.ts';

/*
 * Removing blobs while other callers store them. The same content may be stored again at any moment under the same key,
 * and a row may refer to it a moment later. S3 has no rename and no conditional delete. So the blob is first copied
 * aside to `removed/DIGEST/NAME` and only then deleted. If it is wanted after that, it is copied back. Until it is
 * back, readers find the copy (findAside).
 *
 * A caller that stores a blob for a log counts as wanting it from before, so the check can follow at once (`remove`).
 * Otherwise the copy is kept for as long as a reference may take to come (`collect`). A process that dies in between
 * leaves a copy, which a later collection treats in the same way.
 */

export interface CollectOptions {
  copySize: number;
  abandonedAfterMs: number;
}

export async function collect(
  link: S3Link,
  age: number,
  referredTo: (digests: string[]) => Promise<Set<string>>,
  { copySize, abandonedAfterMs }: CollectOptions,
): Promise<number> {
  const { prefix } = link.place;
  await sweepIncoming(link, abandonedAfterMs);
  for await (const page of blobPages(link)) {
    const old = olderThan(link, page, age);
    if (old.length === 0) continue;
    const wanted = await referredTo(old.map(({ digest }) => digest));
    for (const { digest, size } of old)
      if (!wanted.has(digest)) await whereThere(() => setAside(link, digest, { size, copySize }));
  }
  const removed = new Set<string>();
  for await (const page of pagesOf(link, `${prefix}removed/`)) {
    const old = olderThan(link, page, age).flatMap((object) => {
      const [digest = '', , ...more] = object.key.slice(`${prefix}removed/`.length).split('/');
      return /^[0-9a-f]{64}$/.test(digest) && more.length === 0 ? [{ ...object, digest }] : [];
    });
    if (old.length === 0) continue;
    const wanted = await referredTo(old.map(({ digest }) => digest));
    for (const { digest, key, size } of old) {
      if (wanted.has(digest)) await whereThere(() => copyObject(link, key, link.keys.of(digest), { size, copySize }));
      else removed.add(digest);
      await removeObject(link, key);
    }
  }
  return removed.size;
}

export async function remove(
  link: S3Link,
  digest: string,
  isWanted: () => Promise<boolean>,
  { copySize, age }: { copySize: number; age: number | undefined },
): ReturnType<Blobs['remove']> {
  if (await isWanted()) return 'wanted';
  try {
    const { size, modified } = await factsOf(link, link.keys.of(digest));
    if (age !== undefined && olderThan(link, [{ modified }], age).length === 0) return 'young';
    const aside = await setAside(link, digest, { size, copySize });
    const wanted = await isWanted();
    if (wanted) await copyObject(link, aside, link.keys.of(digest), { size, copySize });
    await removeObject(link, aside);
    return wanted ? 'wanted' : 'removed';
  } catch (error) {
    if (error instanceof NoSuchObjectError) return 'missing';
    throw error;
  }
}

/** Removes uploads that were never completed, and those whose process died before they got their name. */
export async function sweepIncoming(link: S3Link, abandonedAfterMs: number): Promise<void> {
  for await (const page of pagesOf(link, link.keys.incoming('')))
    for (const { key } of olderThan(link, page, abandonedAfterMs)) await removeObject(link, key);
  await abortUploads(link, (link.now() ?? -Infinity) - abandonedAfterMs);
}

/** By S3's clock only: this machine's clock may be wrong, or be set. */
function olderThan<T extends Pick<Listed, 'modified'>>(link: S3Link, objects: T[], age: number): T[] {
  const now = link.now();
  return now === undefined ? [] : objects.filter(({ modified }) => now - modified > age);
}

interface CopySizes {
  size: number;
  copySize: number;
}

async function setAside(link: S3Link, digest: string, sizes: CopySizes): Promise<string> {
  const [key, aside] = [link.keys.of(digest), link.keys.aside(digest, randomUUID())];
  await copyObject(link, key, aside, sizes);
  await removeObject(link, key);
  return aside;
}

/** Another server may have removed the object a moment earlier. */
async function whereThere(work: () => Promise<unknown>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof NoSuchObjectError)) throw error;
  }
}
