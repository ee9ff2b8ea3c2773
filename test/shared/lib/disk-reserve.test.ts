import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { DiskFullError, keepReserve } from '../../../src/shared/lib/disk-reserve.ts';
import { lacks } from '../../support/machine.ts';
import { smallDisk, type SmallDisk } from '../../support/small-disk.ts';

const megabyte = 1024 * 1024;

describe('the reserve of a disk', { skip: lacks('mounts') }, () => {
  let disk: SmallDisk;
  const cleanUps: (() => void | Promise<void>)[] = [];
  before(async () => {
    disk = await smallDisk({ afterwards: (cleanUp) => void cleanUps.push(cleanUp) }, 64);
  });
  after(async () => {
    for (const cleanUp of cleanUps) await cleanUp();
  });
  const keep = (waitLimitMs: number) => keepReserve({ folders: [disk.folder], bytes: 16 * megabyte, waitLimitMs });

  test('is kept from what is large, and half of it from what is small', async () => {
    const reserve = keep(0);
    assert.equal(await reserve.shortage(), undefined);
    assert.equal(await reserve.allows(megabyte), true);
    assert.equal(await reserve.allows(30 * megabyte), false, 'it counts what is about to be written');
    disk.fillTo(12 * megabyte);
    assert.match((await reserve.shortage()) ?? '', /12 MB are free, of 16 MB/);
    assert.deepEqual([await reserve.allows(1), await reserve.allows(1, 'small')], [false, true]);
    await assert.rejects(reserve.take(1), DiskFullError);
    await reserve.take(1, 'small');
    disk.fillTo(7 * megabyte);
    assert.match((await reserve.shortage()) ?? '', /7 MB are free/);
    assert.equal(await reserve.allows(1, 'small'), false);
    disk.empty();
    assert.equal(await reserve.shortage(), undefined);
  });

  test('knows between two looks what it has allowed since', async () => {
    disk.fillTo(20 * megabyte);
    const reserve = keep(0);
    assert.equal(await reserve.allows(megabyte), true);
    assert.equal(await reserve.allows(megabyte), true);
    disk.fillTo(15 * megabyte); // somebody else was faster
    assert.equal(await reserve.allows(megabyte), false);
    disk.empty();
  });

  test('says that it is short as long as something is refused', async () => {
    disk.fillTo(17 * megabyte);
    const reserve = keep(0);
    assert.equal(await reserve.shortage(), undefined);
    await assert.rejects(reserve.take(megabyte), DiskFullError);
    assert.match((await reserve.shortage()) ?? '', /a write was refused/);
    disk.empty();
    assert.equal(await reserve.shortage(), undefined);
    disk.fillTo(17 * megabyte);
    assert.equal(await reserve.shortage(), undefined);
    disk.empty();
  });

  test('is waited for: what fills a disk for a moment ends nobody else', async () => {
    disk.fillTo(megabyte);
    const taken = keep(60_000).take(megabyte);
    assert.equal(await Promise.race([taken.then(() => 'taken'), Promise.resolve('waiting')]), 'waiting');
    disk.empty();
    await taken;
  });

  test('is a twentieth of a small disk, unless somebody says otherwise', async () => {
    disk.fillTo(3 * megabyte);
    assert.match((await keepReserve({ folders: [disk.folder] }).shortage()) ?? '', /of 3 MB/);
    assert.equal(await keepReserve({ folders: [disk.folder], bytes: 0 }).shortage(), undefined);
    disk.empty();
  });

  test('of a folder that is not there says nothing', async () => {
    const reserve = keepReserve({ folders: ['/nowhere/at/all'], bytes: 1e15 });
    assert.deepEqual([await reserve.shortage(), await reserve.allows(1e12)], [undefined, true]);
  });
});
