import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { crc32, deflateRawSync, gzipSync } from 'node:zlib';
import { run } from '../../src/shared/lib/processes.ts';
import { inspect, RefusedArchiveError, unpack } from '../../src/runner/archives.ts';
import { openSandboxes } from '../../src/runner/sandbox/index.ts';
import type { Sandboxes } from '../../src/runner/sandbox/types.ts';
import { temporaryFolder } from '../support/databases.ts';
import { longestWait } from '../support/pauses.ts';
import { archiveOf, kinds } from '../support/software.ts';
import { tarOf } from '../support/tar.ts';

const limits = { memoryBytes: 512 * 1024 * 1024, processes: 64, timeoutMs: longestWait };
const bounds = { bytes: 100_000_000, entries: 1000 };

describe('an archive', () => {
  let folder: string;
  let sandboxes: Sandboxes;
  let count = 0;
  before(async () => {
    folder = temporaryFolder();
    const stateDir = join(folder, 'sandboxes');
    sandboxes = await openSandboxes({ stateDir, network: 'none', isolation: 'required', log: () => {} });
  });
  after(async () => {
    await sandboxes.close();
    rmSync(folder, { recursive: true });
  });

  /** Opens an archive as a compile does; answers the directory that it was unpacked into. */
  const open = async (bytes: Uint8Array, within = bounds): Promise<string> => {
    count += 1;
    const [archive, into] = ['archive', 'into'].map((name) => join(folder, `${name}-${count}`)) as [string, string];
    for (const path of [archive, into]) mkdirSync(path, { mode: 0o755 });
    writeFileSync(join(archive, 'source'), bytes, { mode: 0o644 });
    const { signal } = new AbortController();
    const opening = { id: `archive-${count}`, sandboxes, folder: archive, file: 'source', limits, signal };
    await inspect(opening, within);
    await unpack(opening, into);
    return into;
  };
  const assertRefused = async (bytes: Uint8Array, why: RegExp, within = bounds): Promise<void> => {
    await assert.rejects(
      open(bytes, within),
      (error) => error instanceof RefusedArchiveError && why.test(error.message),
    );
    assert.deepEqual(readdirSync(join(folder, `into-${count}`)), [], 'nothing was unpacked');
  };

  for (const kind of kinds) {
    test(`of the kind ${kind} is unpacked, modes included`, async () => {
      const into = await open(await archiveOf({ 'a/run': '#!/bin/sh\necho hello\n', 'a/ü ä': 'words\n' }, kind));
      assert.equal(readFileSync(join(into, 'a/ü ä'), 'utf8'), 'words\n');
      assert.equal((await run(join(into, 'a/run'), [])).stdout.toString(), 'hello\n');
    });
  }

  test('keeps its links, wherever they point', async () => {
    const into = await open(
      tarOf([
        { name: 'real', content: 'here\n' },
        { name: 'hard', type: 'hard link', target: 'real' },
        { name: 'soft', type: 'symbolic link', target: '/etc/hostname' },
      ]),
    );
    assert.equal(readFileSync(join(into, 'hard'), 'utf8'), 'here\n');
    assert.deepEqual(readdirSync(into).toSorted(), ['hard', 'real', 'soft']);
  });

  test('that leads out is refused by name [promise: archive-unpacking]', async () => {
    await assertRefused(tarOf([{ name: '/etc/evil', content: 'x' }]), /\/etc\/evil is an absolute path/);
    await assertRefused(tarOf([{ name: 'a/../../evil', content: 'x' }]), /a\/\.\.\/\.\.\/evil leads out/);
    const link = { name: 'way', type: 'symbolic link', target: '/tmp' } as const;
    await assertRefused(
      tarOf([link, { name: 'way/evil', content: 'x' }]),
      /way\/evil would be written through the link way/,
    );
    const inner = { name: './b/way', type: 'symbolic link', target: '..' } as const;
    await assertRefused(tarOf([inner, { name: 'b//way/c/evil', content: 'x' }]), /written through the link b\/way/);
    const hard = { name: 'passwords', type: 'hard link' } as const;
    await assertRefused(tarOf([{ ...hard, target: '/etc/passwd' }]), /passwords is a hard link to \/etc\/passwd/);
    await assertRefused(tarOf([{ ...hard, target: '../../etc/passwd' }]), /is a hard link to \.\.\/\.\.\/etc\/passwd/);
  });

  test('with what is no file is refused', async () => {
    await assertRefused(tarOf([{ name: 'zero', type: 'character device' }]), /zero is a character device/);
    await assertRefused(tarOf([{ name: 'disk', type: 'block device' }]), /disk is a block device/);
    await assertRefused(tarOf([{ name: 'tube', type: 'pipe' }]), /tube is a named pipe/);
  });

  test('with a line break in a name is refused, and cannot fake a line of the list', async () => {
    const fake = 'a\n-rw-r--r--  0 0      0           1 Jan  1  1970 b';
    await assertRefused(tarOf([{ name: fake, content: 'x' }]), /contains a line break in its name/);
    const into = await open(
      tarOf([
        { name: 'back\\nslash', content: 'x' },
        { name: 'a -> b link to c', content: '' },
      ]),
    );
    assert.deepEqual(readdirSync(into).toSorted(), ['a -> b link to c', 'back\\nslash']);
  });

  test('that holds too much is refused for what it claims, before it is unpacked [promise: archive-unpacking]', async () => {
    await assertRefused(tarOf([{ name: 'huge', size: 2 ** 50 }]), /unpacks to more than 100000000 bytes \(with huge\)/);
    const many = Array.from({ length: 1001 }, (_, at) => ({ name: `f${at}` }));
    await assertRefused(tarOf(many), /more than 1000 entries/);
    await open(tarOf(many.slice(1)));
    const zeros = Buffer.alloc(200_000_000);
    const bomb = Buffer.concat([tarOf([{ name: 'zeros', size: zeros.length }]).subarray(0, 512), zeros]);
    await assertRefused(gzipSync(bomb), /unpacks to more than/);
    await assertRefused(zipOf('zeros', zeros), /unpacks to more than/);
  });

  test('with a sparse file counts as what that would be', async () => {
    const sparse = join(folder, 'sparse');
    await run('truncate', ['-s', '1T', sparse]);
    await run('tar', ['--sparse', '-cf', `${sparse}.tar`, '-C', folder, 'sparse']);
    await assertRefused(readFileSync(`${sparse}.tar`), /unpacks to more than/);
  });

  test('in a zip is held to the same', async () => {
    await assertRefused(zipOf('../evil', Buffer.from('x')), /\.\.\/evil leads out/);
    await assertRefused(zipOf('/etc/evil', Buffer.from('x')), /absolute path/);
  });

  test('inside an archive stays packed', async () => {
    const inner = gzipSync(tarOf([{ name: 'zeros', size: 10 ** 12 }]));
    const into = await open(tarOf([{ name: 'inner.tar.gz', content: inner.toString('latin1') }]));
    assert.deepEqual(readdirSync(into), ['inner.tar.gz']);
  });

  test('that is cut short or broken is refused with what is wrong', async () => {
    const whole = await archiveOf({ noise: randomBytes(100_000).toString('hex') }, 'tar.xz');
    await assert.rejects(
      open(whole.subarray(0, 50_000)),
      /cannot be unpacked: .*(truncated|Truncated|Unexpected|damaged)/s,
    );
    await assert.rejects(open(Buffer.from('BZh9 this is no such thing')), RefusedArchiveError);
  });
});

/** A zip of one compressed file. */
function zipOf(name: string, content: Buffer): Buffer {
  const packed = deflateRawSync(content);
  const title = Buffer.from(name);
  const crc = crc32(content);
  const common = Buffer.alloc(26);
  common.writeUInt16LE(20, 0);
  common.writeUInt16LE(8, 4);
  common.writeUInt32LE(crc, 10);
  common.writeUInt32LE(packed.length, 14);
  common.writeUInt32LE(content.length, 18);
  common.writeUInt16LE(title.length, 22);
  const local = Buffer.concat([Buffer.from('PK\x03\x04'), common, title, packed]);
  const central = Buffer.concat([Buffer.from('PK\x01\x02\x14\x00'), common, Buffer.alloc(14), title]);
  const end = Buffer.alloc(22);
  end.write('PK\x05\x06');
  end.writeUInt16LE(1, 8);
  end.writeUInt16LE(1, 10);
  end.writeUInt32LE(central.length, 12);
  end.writeUInt32LE(local.length, 16);
  return Buffer.concat([local, central, end]);
}
