import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { chownSync, lstatSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import * as fc from 'fast-check';
import { removeTree } from '../src/shared/lib/remove-tree.ts';
import { CannotRunError } from '../src/runner/cannot-run.ts';
import { layoutOf, type Descriptor } from '../src/runner/images/manifest.ts';
import { openImageTools } from '../src/runner/images/tools.ts';
import { openSandboxes } from '../src/runner/sandbox/index.ts';
import type { Sandboxes } from '../src/runner/sandbox/types.ts';
import { Blobs, CachingRunner } from '../test/support/caching.ts';
import { shellLayer } from '../test/support/registry.ts';
import { tarOf, type TarEntry } from '../test/support/tar.ts';
import { damage, damaged, type Change } from './mutations.ts';
import { anyProperty, type Target } from './target.ts';

/*
 * Caches and layers of images as no packer would make them, unpacked and then used by a build: nothing outside of their own directory is read,
 * mounted or changed, and what is wrong is said in words.
 */

const secret = 'of the machine';

/** Sandboxes, and a directory beside them that all builds' user could change. */
interface Bench {
  folder: string;
  outside: string;
  sandboxes: Sandboxes;
  isUntouched(text: string): void;
  close(): Promise<void>;
}

async function openBench(): Promise<Bench> {
  const folder = mkdtempSync(join(tmpdir(), 'headrace-fuzz-'));
  const stateDir = join(folder, 'sandboxes');
  const sandboxes = await openSandboxes({
    stateDir,
    network: 'none',
    isolation: 'required',
    etc: 'bare',
    log: () => {},
  });
  const outside = join(folder, 'outside');
  mkdirSync(outside);
  writeFileSync(join(outside, 'secret'), secret);
  for (const path of [outside, join(outside, 'secret')])
    if (process.getuid?.() === 0) chownSync(path, sandboxes.owner.uid, sandboxes.owner.gid);
  const facts = (): string =>
    ['', 'secret']
      .map((name) => JSON.stringify(lstatSync(join(outside, name)), ['mode', 'uid', 'nlink', 'ctimeMs']))
      .join();
  const before = facts();
  return {
    folder,
    outside,
    sandboxes,
    isUntouched(text) {
      assert.ok(!text.includes(secret), text);
      assert.deepEqual(readdirSync(outside), ['secret']);
      assert.equal(readFileSync(join(outside, 'secret'), 'utf8'), secret);
      assert.equal(facts(), before);
    },
    async close() {
      await sandboxes.close();
      await removeTree(folder);
    },
  };
}

/** Entries at the roots and below them, with targets that lead out; `OUT` stands for the directory outside. */
function entriesIn(roots: readonly string[]): fc.Arbitrary<TarEntry[]> {
  const below = fc.constantFrom(
    '',
    '/',
    '/a',
    '/a/secret',
    '/secret',
    '/b',
    '/.',
    '/..',
    '/../secret',
    '/etc',
    '/.wh.a',
  );
  const name = fc.oneof(
    { weight: 8, arbitrary: fc.tuple(fc.constantFrom(...roots), below).map((parts) => parts.join('')) },
    { weight: 1, arbitrary: fc.constantFrom('/', '.', '..', '../x', 'OUT/secret', '/build', '/build/x', '/tmp/x') },
  );
  const entry: fc.Arbitrary<TarEntry> = fc.record(
    {
      name,
      type: fc.constantFrom(
        'file',
        'hard link',
        'symbolic link',
        'symbolic link',
        'character device',
        'block device',
        'directory',
        'pipe',
      ),
      target: fc.oneof(name, fc.constantFrom('OUT', 'OUT/secret', '/', '..', '../../outside', '/proc/self/root')),
      content: fc.string({ maxLength: 20 }),
      mode: fc.constantFrom(0, 0o111, 0o400, 0o777, 0o4755, 0o7777),
    },
    { requiredKeys: ['name'] },
  );
  const replacedRoot = fc.record<TarEntry>({
    name: fc.constantFrom(...roots),
    type: fc.constant('symbolic link'),
    target: fc.constantFrom('OUT', 'OUT/secret'),
  });
  const any = fc.oneof({ weight: 3, arbitrary: entry }, { weight: 1, arbitrary: replacedRoot });
  return fc.array(any, { minLength: 1, maxLength: 6 });
}

function leading(entries: readonly TarEntry[], outside: string): TarEntry[] {
  const there = (text: string): string => text.replace('OUT', outside);
  return entries.map(({ name, target, ...rest }) => ({
    ...rest,
    name: there(name),
    ...(target !== undefined && { target: there(target) }),
  }));
}

/** Mostly whole: what is damaged is mostly refused before anything is unpacked. */
const rarely = fc.oneof({ weight: 5, arbitrary: fc.constant<Change[]>([]) }, { weight: 1, arbitrary: damage });

export const cacheTrees: Target = {
  name: 'cache-trees',
  runs: 8,
  async open() {
    const bench = await openBench();
    let count = 0;
    const entries = entriesIn(['home', 'workspace', 'workspace/deps', 'home/.tool', 'about']);
    const property = fc.asyncProperty(entries, rarely, async (some, changes) => {
      count += 1;
      const at = join(bench.folder, `runner-${count}`);
      const blobs = new Blobs();
      const runner = await CachingRunner.open(at, bench.sandboxes, blobs);
      const packed = damaged(zstdCompressSync(tarOf(leading(some, bench.outside))), changes);
      const digest = createHash('sha256').update(packed).digest('hex');
      blobs.all.set(digest, packed);
      const found = { id: '1', branch: 'main', sha: 'c'.repeat(40), name: '1', digest, bytes: 1 };
      const look =
        'find / -xdev -name secret -exec cat {} + 2>/dev/null; cat ./secret ~/secret ./*/secret ~/*/secret; echo bad >secret; echo bad >~/secret; touch ~/new ./new; mkdir -p deps; echo x >deps/x; true';
      const { text, said, cache } = await runner.build(look, found, { paths: ['deps', '~/.tool'] });
      assert.match(said, /^Fetching .*\n(Restored|The build starts without) the cache of main/);
      bench.isUntouched(text);
      bench.isUntouched((await runner.build(look, cache)).text);
      await removeTree(at);
    });
    return { property: anyProperty(property), close: () => bench.close() };
  },
};

const digestOf = (bytes: Uint8Array): string => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;

export const imageTrees: Target = {
  name: 'image-trees',
  runs: 6,
  async open() {
    const bench = await openBench();
    const { sandboxes } = bench;
    const { signal } = new AbortController();
    const tools = openImageTools({
      sandboxes,
      folder: bench.folder,
      rules: { mayCall: () => false, resolve: async () => [] },
      timeoutMs: 60_000,
      log: () => {},
    });
    let count = 0;
    const roots = [
      'bin',
      'etc',
      'home',
      'home/build',
      'build',
      'tmp',
      'opt',
      'proc',
      'dev',
      'run',
      'var',
      'secret',
      '.wh..wh..opq',
    ];
    const property = fc.asyncProperty(
      fc.array(entriesIn(roots), { minLength: 1, maxLength: 3 }),
      rarely,
      async (layers, changes) => {
        count += 1;
        const making = join(bench.folder, `${count}`);
        const [layout, tree] = [join(making, 'layout'), join(making, 'tree')];
        for (const path of [making, layout, tree, join(layout, 'blobs'), join(layout, 'blobs/sha256')]) mkdirSync(path);
        const part = (mediaType: string, bytes: Buffer): Descriptor => {
          writeFileSync(join(layout, 'blobs/sha256', digestOf(bytes).slice('sha256:'.length)), bytes);
          return { mediaType, digest: digestOf(bytes), size: bytes.length };
        };
        const tars = [shellLayer(), ...layers.map((entries) => leading(entries, bench.outside))].map((entries) =>
          tarOf(entries),
        );
        const config = {
          architecture: 'any',
          os: 'linux',
          config: {},
          rootfs: { type: 'layers', diff_ids: tars.map(digestOf) },
        };
        const manifest = {
          config: part('application/vnd.oci.image.config.v1+json', Buffer.from(JSON.stringify(config))),
          layers: tars.map((tar, at) =>
            part(
              'application/vnd.oci.image.layer.v1.tar+gzip',
              damaged(gzipSync(tar, { level: 1 }), at === 1 ? changes : []),
            ),
          ),
        };
        for (const [path, text] of Object.entries(layoutOf(manifest))) writeFileSync(join(layout, path), text);
        try {
          await tools.unpack(layout, tree, { mostBytes: 64 * 1024 * 1024, signal });
        } catch (error) {
          assert.ok(error instanceof CannotRunError, String(error));
          assert.match(error.message, /^The image cannot be unpacked: ./);
        }
        bench.isUntouched('');
        assert.ok(lstatSync(tree).isDirectory());
        assert.deepEqual(readdirSync(making).toSorted(), ['layout', 'tree']);
        let text = '';
        const look =
          'cat /secret /*/secret ~/secret; echo bad >/secret; echo bad >~/secret; echo bad >/opt/secret; touch /opt/new; true';
        await sandboxes
          .run({
            id: `fuzz-${count}`,
            steps: [{ name: 'look', command: `set +e; ${look}` }],
            environment: {},
            workspace: { empty: true },
            image: tree,
            limits: { memoryBytes: 256 * 1024 * 1024, processes: 32, timeoutMs: 30_000 },
            output: (chunk) => void (text += chunk.toString()),
            signal,
          })
          .catch((error: Error) => assert.match(error.message, /^(could not |the sandbox did not start)/));
        bench.isUntouched(text);
        await removeTree(making);
      },
    );
    return { property: anyProperty(property), close: () => bench.close() };
  },
};
