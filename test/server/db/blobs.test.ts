import assert from 'node:assert/strict';
import { rmSync, statSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { openFileBlobs } from '../../../src/server/db/blobs.ts';
import { temporaryFolder } from '../../support/folders.ts';

async function* text(content: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(content);
}

test('a blob that may not be removed yet is not even moved: readers find it at any moment', async (t) => {
  const folder = temporaryFolder();
  t.after(() => rmSync(folder, { recursive: true }));
  const store = await openFileBlobs(folder, { take: async () => {}, room: async () => Infinity });
  const { digest } = await store.put(text('needed soon'));
  await store.close();
  const blobs = await openFileBlobs(folder, { take: async () => {}, room: async () => Infinity }); // another server
  t.after(() => blobs.close());
  const path = join(folder, digest.slice(0, 2), digest);
  /** A rename changes it. */
  const changedAt = (): bigint => statSync(path, { bigint: true }).ctimeNs;
  const before = changedAt();
  assert.equal(await blobs.remove(digest, async () => false, 60_000), 'young');
  assert.equal(changedAt(), before);
  utimesSync(path, 1, 1);
  assert.equal(await blobs.remove(digest, async () => false, 60_000), 'removed');
  assert.equal(await blobs.remove(digest, async () => false, 60_000), 'missing');
});
