import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { copyBlobs } from '../../src/cli/operator/blobs.ts';
import { openFileBlobs, type Blobs } from '../../src/server/db/blobs.ts';
import { openS3Blobs } from '../../src/server/db/s3/blobs.ts';
import { isUnavailable } from '../../src/server/db/unavailable.ts';
import { command } from '../support/command.ts';
import { startFaultyProxy } from '../support/faulty-proxy.ts';
import { temporaryFolder } from '../support/folders.ts';
import { startSwift, type Swift } from '../support/swift.ts';

const digestOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
const roomy = { take: async () => {}, room: async () => Infinity };

async function* whole(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes;
}

describe('blobs copy', () => {
  let swift: Swift;
  let folder: string;
  const contents = [0, 1, 10_000, 70_000, 9_000_000].map((size) => randomBytes(size));
  const all = contents.map(digestOf).toSorted();
  before(async () => {
    swift = await startSwift();
    folder = temporaryFolder();
    Object.assign(process.env, swift.credentials);
  });
  after(async () => {
    await swift.close();
    rmSync(folder, { recursive: true });
  });
  const filled = async (name: string): Promise<string> => {
    const place = join(folder, name);
    const blobs = await openFileBlobs(place, roomy);
    for (const bytes of contents) await blobs.put(whole(bytes));
    await blobs.close();
    return place;
  };
  const urlOf = (bucket: string, endpoint = swift.endpoint): string =>
    `s3://${bucket}/p?endpoint=${endpoint}&region=${swift.region}&path_style=true`;
  const placeOf = (bucket: string, endpoint = swift.endpoint) => ({
    bucket,
    prefix: 'p/',
    endpoint,
    region: swift.region,
    pathStyle: true,
  });
  const copy = async (from: string, to: string): Promise<string> => {
    const { status, stdout, stderr } = await command(['blobs', 'copy', from, to, '--data-dir', folder]);
    assert.equal(status, 0, stderr.toString());
    return stdout.toString();
  };
  const keysIn = async (bucket: string): Promise<string[]> =>
    (await swift.keys(bucket)).map((key) => {
      assert.match(key, /^p\/[0-9a-f]{2}\/[0-9a-f]{64}$/);
      return key.slice(-64);
    });
  const filesIn = (place: string): string[] =>
    readdirSync(place, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ name }) => name)
      .toSorted();

  test('takes everything from a folder to S3, from there to another bucket, and back, and only what is missing', async () => {
    const place = await filled('first');
    const [one, other] = [await swift.bucket(), await swift.bucket()];
    assert.match(await copy(place, urlOf(one)), /^copied 5 blobs \(9080001 bytes\); 0 existed already$/m);
    assert.deepEqual(await keysIn(one), all);
    assert.match(await copy(place, urlOf(one)), /^copied 0 blobs \(0 bytes\); 5 existed already$/m);
    assert.match(await copy(urlOf(one), urlOf(other)), /^copied 5 blobs/m);
    const back = join(folder, 'back');
    assert.match(await copy(urlOf(other), `file://${back}`), /^copied 5 blobs/m);
    assert.deepEqual(filesIn(back), all);
    const blobs = await openFileBlobs(back, roomy);
    for (const bytes of contents) {
      await using blob = await blobs.open(digestOf(bytes));
      assert.ok((await blob.read(0, bytes.length)).equals(bytes));
    }
    await blobs.close();
    // What was stored in the meantime, and so it goes on until nothing is.
    const later = await openFileBlobs(place, roomy);
    const { digest } = await later.put(whole(Buffer.from('stored in the meantime')));
    await later.close();
    assert.match(await copy(place, urlOf(one)), /^copied 1 blobs \(22 bytes\); 5 existed already$/m);
    assert.ok((await keysIn(one)).includes(digest));
  });

  test('ends with the reason when S3 goes away, and goes on from there the next time', async () => {
    const place = await filled('resumed');
    const bucket = await swift.bucket();
    const proxy = await startFaultyProxy(swift.endpoint);
    let puts = 0;
    proxy.when(({ method }) => (method === 'PUT' && (puts += 1) > 2 ? { status: 503 } : undefined));
    const from = await openFileBlobs(place, roomy);
    const to = openS3Blobs(placeOf(bucket, proxy.endpoint));
    await assert.rejects(copyBlobs(from, to), isUnavailable);
    const there = await keysIn(bucket);
    assert.ok(there.length > 0 && there.length < 5, `${there.length} of 5 are there`);
    proxy.when(() => undefined);
    const { copied, present } = await copyBlobs(from, to);
    assert.deepEqual([copied, present], [5 - there.length, there.length]);
    assert.deepEqual(await keysIn(bucket), all);
    for (const blobs of [from, to]) await blobs.close();
    await proxy.close();
  });

  test('leaves out what is damaged and says so, and what is removed meanwhile', async () => {
    const place = await filled('damaged');
    const bucket = await swift.bucket();
    const [damaged = '', removed = ''] = all;
    writeFileSync(join(place, damaged.slice(0, 2), damaged), 'something else');
    const { status, stderr, stdout } = await command(['blobs', 'copy', place, urlOf(bucket), '--data-dir', folder]);
    assert.equal(status, 1);
    assert.match(stdout.toString(), /^copied 4 blobs/m);
    assert.match(stderr.toString(), new RegExp(`does not match their digest: ${damaged}`));
    assert.deepEqual(await keysIn(bucket), all.slice(1));
    const from = await openFileBlobs(place, roomy);
    const to = openS3Blobs(placeOf(await swift.bucket()));
    const removing: Blobs = {
      ...from,
      async open(digest) {
        if (digest === removed) rmSync(join(place, removed.slice(0, 2), removed));
        return from.open(digest);
      },
    };
    const counts = await copyBlobs(removing, to);
    assert.deepEqual([counts.copied, counts.gone, counts.damaged], [3, 1, [damaged]]);
    for (const blobs of [from, to]) await blobs.close();
  });

  test('refuses what cannot be meant, and makes no folder of it', async () => {
    const missing = join(folder, 'typo');
    const to = urlOf('none-of-that-name');
    for (const [from, target, words] of [
      [missing, to, /FROM: this folder does not exist/],
      [folder, folder, /same store/],
      [folder, to, /no bucket none-of-that-name/],
      [folder, 's3://x?y=z', /TO: /],
      [folder, 'https://x', /TO: it must be/],
    ] as const) {
      const { status, stderr } = await command(['blobs', 'copy', from, target, '--data-dir', folder]);
      assert.equal(status, 1);
      assert.match(stderr.toString(), words);
    }
    assert.ok(!existsSync(missing));
  });
});
