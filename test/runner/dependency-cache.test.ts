import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import {
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { zstdCompressSync } from 'node:zlib';
import type { Link } from '../../src/shared/protocol/index.ts';
import { openSandboxes } from '../../src/runner/sandbox/index.ts';
import type { Sandboxes } from '../../src/runner/sandbox/types.ts';
import { openDependencyCache, type DependencyCache, type Taken } from '../../src/runner/dependency-cache.ts';
import { temporaryFolder } from '../support/databases.ts';
import { archiveOf } from '../support/software.ts';
import { tarOf } from '../support/tar.ts';

const megabyte = 1024 * 1024;
const patient = new AbortController().signal;

/** A server that has some software, and can be made to break off or to wait in the middle. */
class Store implements Pick<Link, 'read'> {
  readonly blobs = new Map<string, Buffer>();
  readonly asked: [digest: string, offset: number][] = [];
  breaksAt = Infinity;
  gate = Promise.resolve();

  async add(content: string): Promise<string> {
    return this.keep(await archiveOf({ 'lib/content': content }, 'tar.zst'));
  }

  keep(bytes: Buffer): string {
    const digest = createHash('sha256').update(bytes).digest('hex');
    this.blobs.set(digest, bytes);
    return digest;
  }

  async read(digest: string, offset: number): Promise<AsyncIterable<Uint8Array> | undefined> {
    this.asked.push([digest, offset]);
    await this.gate;
    const bytes = this.blobs.get(digest);
    return bytes && this.#pieces(bytes, offset);
  }

  async *#pieces(bytes: Buffer, offset: number): AsyncGenerator<Buffer> {
    for (let at = offset; at < bytes.length; at += 100) {
      if (at >= this.breaksAt) {
        this.breaksAt = Infinity;
        throw new Error('the server is gone');
      }
      yield bytes.subarray(at, at + 100);
    }
  }
}

describe('the dependency cache', () => {
  let folder: string;
  let sandboxes: Sandboxes;
  before(async () => {
    folder = temporaryFolder();
    const stateDir = join(folder, 'sandboxes');
    sandboxes = await openSandboxes({ stateDir, network: 'none', isolation: 'required', log: () => {} });
  });
  after(async () => {
    await sandboxes.close();
    rmSync(folder, { recursive: true });
  });

  let caches = 0;
  const place = (): string => {
    caches += 1;
    const path = join(folder, `cache-${caches}`);
    mkdirSync(path);
    return path;
  };
  const open = (link: Store, at: string, mostBytes = 100 * megabyte): Promise<DependencyCache> =>
    openDependencyCache({ folder: at, link, sandboxes, mostBytes, log: () => {} });
  const take = (cache: DependencyCache, digest: string, signal = patient): Promise<Taken> =>
    cache.take([{ digest, prefix: '/opt/x' }], signal);
  const contentOf = ({ mounts }: Taken): string =>
    readFileSync(join(mounts[0]?.layers?.[0] ?? '', 'lib/content'), 'utf8');

  test('brings a piece once, however many want it', async () => {
    const store = new Store();
    const digest = await store.add('one');
    const cache = await open(store, place());
    const all = await Promise.all([1, 2, 3].map(() => take(cache, digest)));
    for (const taken of all) {
      assert.equal(contentOf(taken), 'one');
      assert.deepEqual(taken.mounts, all[0]?.mounts);
      assert.ok(taken.directoriesAt('/opt/x').includes('lib'));
    }
    assert.deepEqual(store.asked, [[digest, 0]]);
  });

  test('goes on where a transfer broke off', async () => {
    const store = new Store();
    const digest = await store.add(Array.from({ length: 5000 }, (_, at) => at * 7919).join());
    const cache = await open(store, place());
    store.breaksAt = 2000;
    using taken = await take(cache, digest);
    assert.match(contentOf(taken), /^0,7919,/);
    assert.deepEqual(store.asked, [
      [digest, 0],
      [digest, 2000],
    ]);
  });

  test('does not tell what exists on this machine, wherever links in the software lead [promise: dependency-links]', async () => {
    const store = new Store();
    const cache = await open(store, place());
    const placesWith = async (target: string): Promise<string[]> => {
      const links = ['include', 'lib', 'lib64', 'share/aclocal'].map((name) => ({
        name,
        type: 'symbolic link' as const,
        target,
      }));
      const digest = store.keep(zstdCompressSync(tarOf(links)));
      using taken = await take(cache, digest);
      return taken.directoriesAt('/opt/x');
    };
    const outside = join(folder, 'outside');
    mkdirSync(join(outside, 'pkgconfig'), { recursive: true });
    const expected = await placesWith('/nowhere/at/all');
    assert.deepEqual(await placesWith(outside), expected);
    assert.deepEqual(await placesWith(join('..', '..', '..', 'outside')), expected);
    assert.ok(['include', 'lib', 'lib64', 'lib/pkgconfig'].every((name) => expected.includes(name)));
    assert.ok(!expected.includes('share/pkgconfig'));
  });

  test('is never a link, whatever was packed and whatever stood there before [promise: dependency-links]', async () => {
    const store = new Store();
    const at = place();
    const cache = await open(store, at);
    const elsewhere = join(at, '..', 'elsewhere');
    mkdirSync(join(elsewhere, 'lib'), { recursive: true });
    writeFileSync(join(elsewhere, 'lib/content'), 'of the machine');
    const link = { type: 'symbolic link', target: elsewhere } as const;
    for (const name of ['.', './', '/build', '../build', '../tree']) {
      const digest = store.keep(zstdCompressSync(tarOf([{ name, ...link }])));
      const taken = await take(cache, digest).catch((error: Error) => error);
      if (taken instanceof Error) assert.match(taken.message, /^software was not packed or unpacked/, name);
      else assert.ok(lstatSync(taken.mounts[0]?.layers?.[0] ?? '').isDirectory(), name);
    }
    // What an earlier runner left is fetched again.
    const digest = await store.add('good');
    using before = await take(cache, digest);
    const [tree = ''] = before.mounts[0]?.layers ?? [];
    renameSync(tree, `${tree}.away`);
    symlinkSync(elsewhere, tree);
    store.asked.length = 0;
    using after = await take(await open(store, at), digest);
    assert.equal(contentOf(after), 'good');
    assert.deepEqual(store.asked, [[digest, 0]]);
    assert.equal(readFileSync(join(elsewhere, 'lib/content'), 'utf8'), 'of the machine');
  });

  test('gives up what nobody waits for any more, and nothing else', async () => {
    const store = new Store();
    const digest = await store.add('one');
    const at = place();
    const cache = await open(store, at);
    const gate = Promise.withResolvers<void>();
    store.gate = gate.promise;
    const leaving = [new AbortController(), new AbortController()];
    const waiting = leaving.map(({ signal }) => take(cache, digest, signal));
    leaving[0]?.abort(new Error('called off'));
    await assert.rejects(waiting[0] ?? Promise.resolve(), /called off/);
    leaving[1]?.abort(new Error('called off too'));
    await assert.rejects(waiting[1] ?? Promise.resolve(), /called off too/);
    gate.resolve();
    while (readdirSync(at).length > 0) await pause(5);
    using taken = await take(cache, digest);
    assert.equal(contentOf(taken), 'one');
  });

  test('says when the server has no such thing', async () => {
    const cache = await open(new Store(), place());
    await assert.rejects(take(cache, '0'.repeat(64)), /has no blob/);
  });

  test('makes room: what was not used for longest goes, what is in use stays', async () => {
    const store = new Store();
    const digests: string[] = [];
    for (const name of ['a', 'b', 'c']) digests.push(await store.add(name.repeat(megabyte)));
    const [a = '', b = '', c = ''] = digests;
    const at = place();
    const cache = await open(store, at, 2.5 * megabyte);
    using held = await take(cache, a);
    for (const digest of [b, c]) (await take(cache, digest))[Symbol.dispose]();
    while (readdirSync(at).length > 2) await pause(5);
    assert.deepEqual(readdirSync(at).toSorted(), [a, c].toSorted());
    assert.equal(contentOf(held), 'a'.repeat(megabyte));
    using again = await take(cache, b);
    assert.equal(contentOf(again), 'b'.repeat(megabyte));
  });

  test('keeps its stock over a restart, but for what was not finished', async () => {
    const store = new Store();
    const digest = await store.add('kept');
    const at = place();
    (await take(await open(store, at), digest))[Symbol.dispose]();
    mkdirSync(join(at, 'making-something'));
    const reopened = await open(store, at);
    assert.deepEqual(readdirSync(at), [digest]);
    using taken = await take(reopened, digest);
    assert.equal(contentOf(taken), 'kept');
    assert.equal(store.asked.length, 1);
  });
});
