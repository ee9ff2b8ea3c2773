import assert from 'node:assert/strict';
import { lstatSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import * as fc from 'fast-check';
import { createEntryCheck, inspect, RefusedArchiveError, unpack } from '../src/runner/archives.ts';
import { openSandboxes } from '../src/runner/sandbox/index.ts';
import { tarOf, type TarEntry } from '../test/support/tar.ts';
import { damage, damaged, type Change } from './mutations.ts';
import { anyProperty, pure, type Target } from './target.ts';

const piece = fc.constantFrom(
  'a',
  'b',
  'c',
  '.',
  '..',
  '',
  'ü',
  '\n',
  ' -> ',
  ' link to ',
  '\\',
  'x'.repeat(60),
  '\x1b[2J',
);
const name = fc
  .tuple(fc.constantFrom('', '/', './'), fc.array(piece, { minLength: 1, maxLength: 4 }))
  .map(([start, parts]) => start + parts.join('/'));
const entry: fc.Arbitrary<TarEntry> = fc.record(
  {
    name,
    type: fc.constantFrom(
      'file',
      'hard link',
      'symbolic link',
      'character device',
      'block device',
      'directory',
      'pipe',
    ),
    target: fc.oneof(name, fc.constantFrom('/etc/passwd', '../../outside', '/tmp', 'a')),
    content: fc.string({ maxLength: 20 }),
    size: fc.constantFrom(0, 1, 512, 2 ** 40),
  },
  { requiredKeys: ['name'] },
);

const listed = fc
  .tuple(
    fc.constantFrom('-', 'd', 'l', 'h', 'c', 'p', 'x', '?', ''),
    fc.constantFrom('rwxr-xr-x  1 0 0', 'rwx 1 1000 1000', ' 0', ''),
    fc.oneof(fc.nat().map(String), fc.constantFrom('1, 3', '-1', '99999999999999999999', 'x')),
    fc.constantFrom('Jan  1  1970', 'Jan 1 12:00', '1'),
    name,
    fc.constantFrom('', ' -> ../x', ' link to /x', ' link to ../x', ' link to a'),
  )
  .map(([kind, modes, size, date, what, where]) => `${kind}${modes} ${size} ${date} ${what}${where}`);

/** A listing is judged by names alone: what passes stays inside, and is neither device, pipe nor through a link. */
export const archiveListings = pure(
  'archive-listings',
  500,
  fc.property(fc.array(listed, { maxLength: 8 }), (lines) => {
    const checkEntry = createEntryCheck({ bytes: 1_000_000, entries: 5 });
    const passed: string[] = [];
    try {
      for (const line of lines) {
        checkEntry(line);
        passed.push(line);
      }
    } catch (error) {
      assert.ok(error instanceof RefusedArchiveError, String(error));
    }
    assert.ok(passed.length <= 5);
    for (const line of passed) assert.match(line, /^[-dlh]/);
  }),
);

/** An archive is refused in words, or what it holds is unpacked into the directory, and nothing beside it changes. */
export const archives: Target = {
  name: 'archives',
  runs: 8,
  async open() {
    const folder = mkdtempSync(join(tmpdir(), 'headrace-fuzz-'));
    const stateDir = join(folder, 'sandboxes');
    const sandboxes = await openSandboxes({ stateDir, network: 'none', isolation: 'required', log: () => {} });
    let count = 0;
    const property = fc.asyncProperty(
      fc.array(entry, { maxLength: 6 }),
      fc.constantFrom('plain', 'gzip', 'zstd'),
      fc.oneof({ weight: 3, arbitrary: fc.constant<Change[]>([]) }, { weight: 1, arbitrary: damage }),
      async (entries, packing, changes) => {
        count += 1;
        const place = join(folder, `${count}`);
        const [from, into] = [join(place, 'from'), join(place, 'into')];
        for (const path of [place, from, into]) mkdirSync(path, { mode: 0o755 });
        const tar = tarOf(entries);
        const packed = packing === 'gzip' ? gzipSync(tar) : packing === 'zstd' ? zstdCompressSync(tar) : tar;
        writeFileSync(join(from, 'source'), damaged(packed, changes), { mode: 0o644 });
        const opening = {
          id: `fuzz-${count}`,
          sandboxes,
          folder: from,
          file: 'source',
          limits: { memoryBytes: 256 * 1024 * 1024, processes: 32, timeoutMs: 60_000 },
          signal: new AbortController().signal,
        };
        try {
          await inspect(opening, { bytes: 1_000_000, entries: 100 });
          await unpack(opening, into);
        } catch (error) {
          assert.ok(error instanceof RefusedArchiveError, String(error));
        }
        assert.deepEqual(readdirSync(place).toSorted(), ['from', 'into']);
        assert.deepEqual(readdirSync(from), ['source']);
        for (const path of readdirSync(into, { recursive: true, encoding: 'utf8' })) {
          const found = lstatSync(join(into, path));
          assert.ok(found.isFile() || found.isDirectory() || found.isSymbolicLink(), path);
        }
        rmSync(place, { recursive: true });
      },
    );
    return {
      property: anyProperty(property),
      async close() {
        await sandboxes.close();
        rmSync(folder, { recursive: true });
      },
    };
  },
};
