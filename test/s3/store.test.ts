import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { CreateMultipartUploadCommand, PutObjectCommand } from '@aws-sdk/client-s3';
import { WrongDigestError, type Blobs } from '../../src/server/db/blobs.ts';
import { observeBlobs } from '../../src/server/db/observed-blobs.ts';
import { openS3Blobs } from '../../src/server/db/s3/blobs.ts';
import type { S3Options } from '../../src/server/db/s3/link.ts';
import { isUnavailable } from '../../src/server/db/unavailable.ts';
import { startFaultyProxy } from '../support/faulty-proxy.ts';
import { startSwift, type Swift } from '../support/swift.ts';

const megabyte = 1024 * 1024;
const digestOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
const keyOf = (digest: string): string => `some/place/${digest.slice(0, 2)}/${digest}`;

async function* inPieces(bytes: Buffer, size = 300_000): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

async function everything(blobs: Blobs, digest: string): Promise<Buffer> {
  await using blob = await blobs.open(digest);
  const pieces: Buffer[] = [];
  for (let at = 0; at < blob.size; at += megabyte) pieces.push(await blob.read(at, megabyte));
  return Buffer.concat(pieces);
}

describe('blobs in S3', () => {
  let swift: Swift;
  let bucket: string;
  const opened: Blobs[] = [];
  before(async () => {
    swift = await startSwift();
    bucket = await swift.bucket();
    Object.assign(process.env, swift.credentials);
  });
  after(async () => {
    for (const blobs of opened) await blobs.close();
    await swift.close();
  });
  const open = (options: S3Options = {}, endpoint = swift.endpoint): Blobs => {
    const place = { bucket, prefix: 'some/place/', endpoint, region: swift.region, pathStyle: true };
    const blobs = openS3Blobs(place, { partSize: 5 * megabyte, copySize: 6 * megabyte, ...options });
    opened.push(blobs);
    return blobs;
  };
  const missing = { code: 'ENOENT' };
  const nobody = async (): Promise<Set<string>> => new Set();

  for (const [kind, size] of [
    ['nothing at all', 0],
    ['what is short', 5],
    ['what fits into one part', 5 * megabyte],
    ['what is one byte longer, in parts', 5 * megabyte + 1],
    ['what is too long for one copy', 13 * megabyte + 7],
  ] as const) {
    test(`come back as they were: ${kind}`, async () => {
      const blobs = open();
      const bytes = randomBytes(size);
      assert.deepEqual(await blobs.put(inPieces(bytes)), { digest: digestOf(bytes), size });
      assert.ok((await everything(blobs, digestOf(bytes))).equals(bytes));
      await using blob = await blobs.open(digestOf(bytes));
      assert.equal(blob.size, size);
      const [from, length] = [Math.floor(size / 3), Math.floor(size / 4)];
      assert.ok((await blob.read(from, length)).equals(bytes.subarray(from, from + length)), 'a part');
      assert.equal((await blob.read(size, 10)).length, 0, 'beyond the end');
      assert.ok((await swift.keys(bucket)).includes(keyOf(digestOf(bytes))), 'the key is made of the digest');
      const listed = [];
      for await (const { digest } of blobs.list()) listed.push(digest);
      assert.deepEqual(listed, listed.toSorted());
      assert.ok(listed.includes(digestOf(bytes)));
      await blobs.collect(-1000, nobody);
      assert.deepEqual([await swift.keys(bucket), await swift.uploads(bucket)], [[], []]);
    });
  }

  test('that are missing are that, and only a digest names one', async () => {
    const blobs = open();
    await assert.rejects(blobs.open('0'.repeat(64)), missing);
    for (const name of ['../x', '', 'A'.repeat(64), `${'0'.repeat(64)}/`])
      await assert.rejects(blobs.open(name), /SHA-256/);
  });

  test('whose sender breaks off are not there, and leave nothing', async () => {
    const blobs = open();
    class BrokenOff extends Error {}
    async function* broken(): AsyncGenerator<Buffer> {
      yield* inPieces(randomBytes(12 * megabyte));
      throw new BrokenOff();
    }
    await assert.rejects(blobs.put(broken()), BrokenOff);
    assert.deepEqual([await swift.keys(bucket), await swift.uploads(bucket)], [[], []]);
  });

  test('that are not what their name says are not stored', async () => {
    const blobs = open();
    for (const size of [10, 7 * megabyte])
      await assert.rejects(blobs.put(inPieces(randomBytes(size)), '0'.repeat(64)), WrongDigestError);
    assert.deepEqual([await swift.keys(bucket), await swift.uploads(bucket)], [[], []]);
  });

  test('that nobody refers to go when they are old; what strangers keep in the bucket stays', async () => {
    const blobs = open();
    const [wanted, unwanted] = [randomBytes(100), randomBytes(100)];
    for (const bytes of [wanted, unwanted]) await blobs.put(inPieces(bytes));
    const strangers = ['some/place/aa/notes.txt', 'some/place/incoming', `some/other/aa/${'a'.repeat(64)}`];
    for (const Key of strangers) await swift.client.send(new PutObjectCommand({ Bucket: bucket, Key, Body: 'theirs' }));
    assert.equal(await blobs.collect(3_600_000, nobody), 0, 'all are young');
    assert.equal(await blobs.collect(-1000, async () => new Set([digestOf(wanted)])), 1);
    assert.deepEqual((await swift.keys(bucket)).toSorted(), [...strangers, keyOf(digestOf(wanted))].toSorted());
    await blobs.collect(-1000, nobody);
    await swift.removeBucket(bucket);
    bucket = await swift.bucket();
  });

  test('that are stored again while they are collected are not lost', async () => {
    const [collector, other] = [open(), open()];
    const bytes = randomBytes(1000);
    const digest = digestOf(bytes);
    await collector.put(inPieces(bytes));
    let looks = 0;
    const referredTo = async (digests: string[]): Promise<Set<string>> => {
      looks += 1;
      if (looks > 1) return new Set(digests); // by then a row refers to it
      // The worst moment: it was just seen that nobody refers to it, and it is deleted next.
      await other.put(inPieces(bytes));
      return new Set();
    };
    await collector.collect(-1000, referredTo);
    assert.equal(looks, 2);
    assert.ok((await everything(other, digest)).equals(bytes), 'brought back');
    assert.deepEqual(await swift.keys(bucket), [keyOf(digest)]);
    await collector.collect(-1000, nobody);
  });

  test('that are aside, because a server died or waits, are found by readers and brought back when they are wanted', async () => {
    const [dying, blobs] = [open(), open()];
    const bytes = randomBytes(200_000);
    const digest = digestOf(bytes);
    await dying.put(inPieces(bytes));
    await using reader = await blobs.open(digest);
    let looks = 0;
    const dies = dying.remove(digest, async () => {
      looks += 1;
      if (looks === 2) throw new Error('the server died');
      return false;
    });
    await assert.rejects(dies, /died/);
    const [aside = '', ...more] = await swift.keys(bucket);
    assert.ok(aside.startsWith(`some/place/removed/${digest}/`) && more.length === 0);
    assert.ok((await everything(blobs, digest)).equals(bytes), 'found aside');
    assert.ok((await reader.read(10, 1000)).equals(bytes.subarray(10, 1010)), 'by who had opened it before, too');
    assert.equal(await blobs.collect(3_600_000, nobody), 0, 'young');
    assert.equal(await blobs.collect(-1000, async (digests) => new Set(digests)), 0);
    assert.deepEqual(await swift.keys(bucket), [keyOf(digest)]);
    assert.ok((await everything(blobs, digest)).equals(bytes));
    await blobs.collect(-1000, nobody);
  });

  test('are removed at once, unless somebody wants them by then', async () => {
    const blobs = open();
    const bytes = randomBytes(7 * megabyte);
    const { digest } = await blobs.put(inPieces(bytes));
    assert.equal(await blobs.remove(digest, async () => true), 'wanted');
    let looks = 0;
    const becomesWanted = async (): Promise<boolean> => (looks += 1) === 2;
    assert.equal(await blobs.remove(digest, becomesWanted), 'wanted');
    assert.ok((await everything(blobs, digest)).equals(bytes));
    assert.equal(await blobs.remove(digest, async () => false), 'removed');
    assert.equal(await blobs.remove(digest, async () => false), 'missing');
    assert.deepEqual(await swift.keys(bucket), []);
  });

  test('that another server removes at the same moment are missing, also where S3 then speaks of the bucket', async (t) => {
    const proxy = await startFaultyProxy(swift.endpoint);
    t.after(() => proxy.close());
    const troubles: (string | undefined)[] = [];
    const blobs = open({ onChange: (trouble) => void troubles.push(trouble) }, proxy.endpoint);
    const { digest } = await blobs.put(inPieces(randomBytes(5)));
    let isGone = false;
    // What Swift answers when the source goes between its own look at it and the copy.
    proxy.when(({ method, headers }) => {
      isGone ||= 'x-amz-copy-source' in headers;
      if (!isGone) return undefined;
      return { status: 404, body: method === 'HEAD' ? '' : '<Error><Code>NoSuchBucket</Code></Error>' };
    });
    assert.equal(await blobs.remove(digest, async () => false), 'missing');
    assert.deepEqual([isGone, troubles], [true, []]);
    proxy.when(() => undefined);
    await blobs.collect(-1000, nobody);
  });

  test('that a dead server left half stored are swept when they are old, and not before', async () => {
    const Bucket = bucket;
    const [done, begun] = [
      'some/place/incoming/11111111-1111-4111-8111-111111111111',
      'some/place/incoming/22222222-2222-4222-8222-222222222222',
    ];
    await swift.client.send(new PutObjectCommand({ Bucket, Key: done, Body: 'complete, but without its name' }));
    const copying = `some/place/removed/${'a'.repeat(64)}/33333333-3333-4333-8333-333333333333`;
    const strange = 'some/place/backups/today';
    for (const Key of [begun, copying, strange])
      await swift.client.send(new CreateMultipartUploadCommand({ Bucket, Key }));
    await open().prove();
    assert.deepEqual(await swift.keys(bucket), [done]);
    assert.equal((await swift.uploads(bucket)).length, 3);
    await open({ abandonedAfterMs: -2000 }).prove();
    assert.deepEqual(await swift.keys(bucket), []);
    assert.deepEqual(await swift.uploads(bucket), [strange]);
  });

  test('have addresses that open one of them and nothing else', async () => {
    const blobs = open();
    const [bytes, others] = [randomBytes(2 * megabyte), randomBytes(10)];
    const { digest } = await blobs.put(inPieces(bytes));
    const other = await blobs.put(inPieces(others));
    await using blob = await blobs.open(digest);
    const address = (await blob.address?.()) ?? '';
    const seconds = Number(new URL(address).searchParams.get('X-Amz-Expires'));
    assert.ok(seconds > 0 && seconds <= 600);
    assert.ok(!address.includes(swift.credentials.AWS_SECRET_ACCESS_KEY));
    const got = Buffer.from(await (await fetch(address)).arrayBuffer());
    assert.ok(got.equals(bytes));
    const part = await fetch(address, { headers: { range: 'bytes=1000000-' } });
    assert.ok(Buffer.from(await part.arrayBuffer()).equals(bytes.subarray(1_000_000)));
    assert.equal(
      (
        await fetch(
          address.replace(digest, other.digest).replace(`/${digest.slice(0, 2)}/`, `/${other.digest.slice(0, 2)}/`),
        )
      ).status,
      403,
    );
    assert.equal((await fetch(address, { method: 'DELETE' })).status, 403);
    await blobs.collect(-1000, nobody);
  });

  test('are unavailable before long when S3 says nothing', async (t) => {
    const proxy = await startFaultyProxy(swift.endpoint);
    t.after(() => proxy.close());
    const troubles: (string | undefined)[] = [];
    const place = { bucket, prefix: '', endpoint: proxy.endpoint, region: swift.region, pathStyle: true };
    const blobs = openS3Blobs(place, { usualMs: 2000, onChange: (trouble) => void troubles.push(trouble) });
    opened.push(blobs);
    await blobs.prove();
    proxy.when(() => 'hangs');
    for (let tries = 0; tries < 2; tries += 1) await assert.rejects(blobs.open('0'.repeat(64)), isUnavailable);
    assert.deepEqual(troubles, ['S3 does not answer in time'], 'told once');
    await assert.rejects(blobs.prove(), isUnavailable);
    proxy.when(() => undefined);
    await blobs.prove();
    assert.deepEqual(troubles, ['S3 does not answer in time', undefined]);
  });

  test('are not believed by a store that sends more than it says, without end [promise: untrusted-input]', async (t) => {
    let sent = 0;
    const endless = createServer((_, response) => {
      response.writeHead(206, { 'content-range': 'bytes 0-9/10' });
      const send = (): void => {
        for (sent += 1; !response.destroyed && response.write(Buffer.alloc(megabyte)); sent += 1);
      };
      response.on('drain', send);
      send();
    });
    endless.listen(0, '127.0.0.1');
    await once(endless, 'listening');
    t.after(() => {
      endless.close();
      endless.closeAllConnections();
    });
    const blobs = open({}, `http://127.0.0.1:${(endless.address() as AddressInfo).port}`);
    await assert.rejects(blobs.open('0'.repeat(64)), /another range than requested/);
    assert.ok(sent < 50, `${sent} MB were taken`);
  });

  test('tell how long things took to who wants to know', async () => {
    const seen: string[] = [];
    const note = (operation: string) => (ms: number) => void (ms > 0 && seen.push(operation));
    const observer = { put: note('put'), open: note('open'), read: note('read'), remove: note('remove') };
    const blobs = observeBlobs(open(), observer);
    const { digest } = await blobs.put(inPieces(randomBytes(100_000)));
    await using blob = await blobs.open(digest);
    await blob.read(0, 10);
    assert.match(String(await blob.address?.()), /^https?:/);
    await blobs.remove(digest, async () => false);
    assert.deepEqual(seen, ['put', 'open', 'read', 'remove']);
  });
});
