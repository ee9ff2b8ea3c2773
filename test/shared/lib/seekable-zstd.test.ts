import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtemp, open, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { constants, zstdCompressSync } from 'node:zlib';
import * as fc from '../../support/properties.ts';
import { run } from '../../../src/shared/lib/processes.ts';
import {
  compressSeekable,
  CorruptSeekableError,
  openSeekable,
  type ReadAt,
  type Seekable,
} from '../../../src/shared/lib/seekable-zstd.ts';

async function collect(chunks: AsyncIterable<Buffer>): Promise<Buffer> {
  return Buffer.concat(await Array.fromAsync(chunks));
}

const pack = (raw: Buffer, frameSize: number): Promise<Buffer> => collect(compressSeekable([raw], { frameSize }));

const from =
  (file: Buffer): ReadAt =>
  async (offset, length) =>
    file.subarray(offset, offset + length);

const openFile = (file: Buffer): Promise<Seekable> => openSeekable(from(file), file.length);

/** Text in which every place looks different, and which compresses like a log. */
function logOf(size: number): Buffer {
  const lines: string[] = [];
  for (let line = 0, length = 0; length < size; line++) {
    lines.push(`${line * 7919} compiling module ${line} … done\n`);
    length += Buffer.byteLength(lines.at(-1) ?? '');
  }
  return Buffer.from(lines.join('')).subarray(0, size);
}

async function readWhole(file: Buffer): Promise<Buffer> {
  const seekable = await openFile(file);
  const content = await collect(seekable.read(0, seekable.size));
  assert.equal(content.length, seekable.size);
  return content;
}

async function* broken() {
  yield Buffer.from('abc');
  throw new Error('the source is gone');
}

describe('a seekable zstd file', () => {
  it('is read by the zstd program like any other', async () => {
    for (const raw of [Buffer.alloc(0), Buffer.from('x'), logOf(1_000_000), randomBytes(600_000)]) {
      const file = await collect(compressSeekable([raw]));
      const { status, stdout, stderr } = await run('zstd', ['-d', '-c'], { input: file });
      assert.equal(status, 0, stderr.toString());
      assert.ok(stdout.equals(raw));
    }
  });

  it('has the frames that the zstd program counts', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'seekable-'));
    try {
      const path = join(folder, 'log.zst');
      await writeFile(path, compressSeekable([logOf(1_000_000)]));
      const { stdout, stderr, status } = await run('zstd', ['-l', '-v', path]);
      assert.equal(status, 0, stderr.toString());
      assert.match(stdout.toString(), /Zstandard Frames: 4$/m);
      assert.match(stdout.toString(), /Skippable Frames: 1$/m);
      assert.match(stdout.toString(), /\(1000000 B\)/);
      assert.match(stdout.toString(), /Check: XXH64/);
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  it('gives back any range, however it was written and wherever the frames end', async () => {
    const scene = fc.record({
      parts: fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 20 }),
      frameSize: fc.integer({ min: 1, max: 50 }),
      ranges: fc.array(fc.tuple(fc.nat(900), fc.nat(900)), { maxLength: 5 }),
    });
    await fc.assert(
      fc.asyncProperty(scene, async ({ parts, frameSize, ranges }) => {
        const raw = Buffer.concat(parts);
        const seekable = await openFile(await collect(compressSeekable(parts, { frameSize })));
        assert.equal(seekable.size, raw.length);
        for (const [start, length] of [...ranges, [0, raw.length] as const]) {
          assert.deepEqual(await collect(seekable.read(start, start + length)), raw.subarray(start, start + length));
        }
      }),
      { numRuns: 200 },
    );
  });

  it('reads the frames that a range touches, and no others', async () => {
    const raw = randomBytes(10_000); // does not compress: a frame of 1,000 bytes takes a little more than that
    const file = await pack(raw, 1000);
    const reads: { offset: number; length: number }[] = [];
    const seekable = await openSeekable((offset, length) => {
      reads.push({ offset, length });
      return from(file)(offset, length);
    }, file.length);
    reads.length = 0;
    assert.ok((await collect(seekable.read(4500, 6500))).equals(raw.subarray(4500, 6500)));
    assert.equal(reads.length, 1);
    const [read] = reads;
    assert.ok(read && read.offset >= 4000 && read.offset < 4200 && read.length >= 3000 && read.length < 3200);
    reads.length = 0;
    assert.equal((await collect(seekable.read(7000, 7000))).length, 0);
    assert.equal((await collect(seekable.read(10_000, 20_000))).length, 0);
    assert.deepEqual(reads, []);
  });

  it('reads a large file in pieces, and stops when its reader does', async () => {
    const raw = randomBytes(5_000_000);
    const file = await collect(compressSeekable([raw]));
    let largest = 0;
    let reads = 0;
    const seekable = await openSeekable((offset, length) => {
      largest = Math.max(largest, length);
      reads++;
      return from(file)(offset, length);
    }, file.length);
    assert.ok((await collect(seekable.read(0, raw.length))).equals(raw));
    assert.ok(largest <= 1024 * 1024);
    reads = 0;
    for await (const piece of seekable.read(0, raw.length)) {
      assert.ok(piece.length <= 256 * 1024);
      break;
    }
    assert.equal(reads, 1);
  });

  it('finds a table that is longer than its first look at the end of the file', async () => {
    const raw = logOf(20_000);
    const seekable = await openFile(await pack(raw, 2)); // 10,000 entries of 8 bytes
    assert.ok((await collect(seekable.read(19_990, 20_000))).equals(raw.subarray(19_990)));
  });

  it('is written frame by frame, as the raw bytes come', async () => {
    let taken = 0;
    function* source() {
      for (; taken < 100; taken++) yield randomBytes(1000);
    }
    const writer = compressSeekable(source(), { frameSize: 5000 });
    await writer.next();
    assert.ok(taken < 10, `${taken} chunks were taken for the first frame`);
    await writer.return();
  });

  it('refuses ranges that make no sense', async () => {
    const seekable = await openFile(await pack(Buffer.from('abc'), 2));
    for (const [start, end] of [
      [-1, 2],
      [2, 1],
      [0.5, 1],
      [0, Number.NaN],
    ] as const) {
      assert.throws(() => seekable.read(start, end), RangeError);
    }
  });

  it('passes an error of the source on', async () => {
    await assert.rejects(collect(compressSeekable(broken())), /the source is gone/);
  });

  it('passes an error of the file on', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'seekable-'));
    try {
      const path = join(folder, 'log.zst');
      await writeFile(path, await pack(logOf(10_000), 1000));
      await using handle = await open(path);
      const seekable = await openSeekable(
        async (offset, length) => (await handle.read(Buffer.alloc(length), 0, length, offset)).buffer,
        (await handle.stat()).size,
      );
      assert.equal((await collect(seekable.read(0, 10_000))).length, 10_000);
      await handle.close();
      await assert.rejects(collect(seekable.read(0, 1)), { code: 'EBADF' });
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});

describe('a damaged seekable zstd file', () => {
  const raw = logOf(10_000);

  it('is an error wherever one byte is wrong, and never wrong content', async () => {
    const file = await pack(raw, 4000);
    for (let at = 0; at < file.length; at++) {
      const damaged = Buffer.from(file);
      damaged[at] = (damaged[at] as number) ^ 0x10;
      const answer = await readWhole(damaged).catch((error: unknown) => error);
      // A few bits of a frame's header do not change what it unpacks to.
      if (Buffer.isBuffer(answer)) assert.ok(answer.equals(raw), `byte ${at} was changed and nobody noticed`);
      else assert.ok(answer instanceof CorruptSeekableError, `byte ${at}: ${String(answer)}`);
    }
  });

  it('is an error wherever it is cut short', async () => {
    const file = await pack(raw, 4000);
    for (let length = 0; length < file.length; length += 7) {
      await assert.rejects(readWhole(file.subarray(0, length)), CorruptSeekableError);
      await assert.rejects(readWhole(file.subarray(file.length - length)), CorruptSeekableError);
    }
  });

  it('is refused when it is opened, if its table does not fit', async () => {
    const file = await pack(raw, 4000);
    await assert.rejects(openFile(file.subarray(1)), /do not fill it/);
    await assert.rejects(openFile(Buffer.concat([Buffer.from('junk'), file])), /do not fill it/);
    const endless = Buffer.from(file);
    endless.writeUInt32LE(0xffffff, endless.length - 9);
    await assert.rejects(openFile(endless), /longer than the file/);
    const unknown = Buffer.from(file);
    unknown.writeUInt8(0x04, unknown.length - 5);
    await assert.rejects(openFile(unknown), /unknown kind/);
  });

  it('is an error when it gives less than it has', async () => {
    const file = await pack(raw, 4000);
    const seekable = await openSeekable(
      async (offset, length) => (offset === 0 && length < file.length ? file.subarray(0, 10) : file.subarray(offset)),
      file.length,
    );
    const read = collect(seekable.read(0, 1));
    await assert.rejects(read, { name: 'CorruptSeekableError', message: /gave 10 bytes/ });
  });

  it('is an error when it is something else altogether', async () => {
    for (const other of [randomBytes(500), zstdCompressSync(raw), Buffer.from('x'), Buffer.alloc(0)]) {
      await assert.rejects(openFile(other), CorruptSeekableError);
    }
  });

  it('unpacks no frame to more than its table says', async () => {
    const bomb = zstdCompressSync(Buffer.alloc(64 * 1024 * 1024), {
      params: { [constants.ZSTD_c_checksumFlag]: 1 },
    });
    const table = (await pack(Buffer.from('x'), 10)).subarray(-25);
    table.writeUInt32LE(bomb.length, 8);
    for (const said of [1, 1000, 64 * 1024 * 1024]) {
      table.writeUInt32LE(said, 12);
      await assert.rejects(readWhole(Buffer.concat([bomb, table])), CorruptSeekableError);
    }
  });
});
