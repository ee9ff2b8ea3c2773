import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import * as fc from 'fast-check';
import { ArchiveError, readArchive, writeArchive } from '../src/cli/operator/backup-archive.ts';
import { compressSeekable, CorruptSeekableError, openSeekable } from '../src/shared/lib/seekable-zstd.ts';
import { archiveKind, archiveTypes } from '../src/shared/domain/source-archives.ts';
import { tarOf } from '../test/support/tar.ts';
import { damage, damaged, mutated } from './mutations.ts';
import { anyProperty, pure, type Target } from './target.ts';

const tar = tarOf([{ name: 'a', content: 'hello' }, { name: 'b/c' }]);
/** Four bytes for each 128 KiB: what the first bytes of a file can claim to unpack to. */
const bomb = Buffer.concat([
  Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38]),
  Buffer.alloc(64 * 1024 - 6, Buffer.from([0x02, 0x00, 0x10, 0x00])),
]);

/** The start of anything is an archive of some kind, or of none; to know costs little memory. */
export const archiveStarts = pure(
  'archive-starts',
  100,
  fc.asyncProperty(
    fc.oneof(
      mutated(fc.constantFrom(tar, gzipSync(tar), zstdCompressSync(tar), Buffer.from('PK\x03\x04'), bomb)),
      fc.uint8Array({ maxLength: 600 }).map((bytes) => Buffer.from(bytes)),
    ),
    async (head) => {
      const before = process.memoryUsage().rss;
      const kind = await archiveKind(head);
      assert.ok(kind === undefined || kind in archiveTypes);
      assert.ok(process.memoryUsage().rss - before < 512 * 1024 * 1024);
    },
  ),
);

async function collected(pieces: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const all: Uint8Array[] = [];
  for await (const piece of pieces) all.push(piece);
  return Buffer.concat(all);
}

/** Every range of a good file is what was written; a damaged file is known as damaged, or read as what it is now. */
export const seekable = pure(
  'seekable',
  200,
  fc.asyncProperty(
    fc.record({
      raw: fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 8 }),
      frameSize: fc.integer({ min: 1, max: 50 }),
      from: fc.nat(400),
      length: fc.nat(400),
      changes: damage,
    }),
    async ({ raw, frameSize, from, length, changes }) => {
      const plain = Buffer.concat(raw);
      const good = await collected(compressSeekable(raw, { frameSize }));
      const read = async (file: Buffer): Promise<Buffer> => {
        const opened = await openSeekable(async (start, size) => file.subarray(start, start + size), file.length);
        return collected(opened.read(from, from + length));
      };
      assert.deepEqual(await read(good), plain.subarray(from, from + length));
      try {
        await read(damaged(good, changes));
      } catch (error) {
        assert.ok(error instanceof CorruptSeekableError, String(error));
      }
    },
  ),
);

async function linesOf(file: string): Promise<string[]> {
  const lines: string[] = [];
  for await (const line of readArchive(file)) lines.push(line);
  return lines;
}

/** A backup that was changed is refused, or its lines are those that were written. */
export const backups: Target = {
  name: 'backups',
  runs: 60,
  open() {
    const folder = mkdtempSync(join(tmpdir(), 'headrace-fuzz-'));
    let count = 0;
    const line = fc
      .string({ unit: 'grapheme', maxLength: 30 })
      .filter((text) => !text.includes('\n') && text.isWellFormed());
    const property = fc.asyncProperty(fc.array(line, { maxLength: 10 }), damage, async (lines, changes) => {
      count += 1;
      const file = join(folder, `${count}`);
      await writeArchive(file, asAsync(lines));
      assert.deepEqual(await linesOf(file), lines);
      writeFileSync(file, damaged(readFileSync(file), changes));
      try {
        assert.deepEqual(await linesOf(file), lines);
      } catch (error) {
        assert.ok(error instanceof ArchiveError, String(error));
      }
      rmSync(file);
    });
    return {
      property: anyProperty(property),
      close: () => rmSync(folder, { recursive: true }),
    };
  },
};

async function* asAsync(lines: readonly string[]): AsyncGenerator<string> {
  yield* lines;
}
