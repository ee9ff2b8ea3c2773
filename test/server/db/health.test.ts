import assert from 'node:assert/strict';
import test from 'node:test';
import { watchHealth } from '../../../src/server/db/health.ts';
import { onEveryDatabase } from '../../support/databases.ts';
import { leaseNode } from '../../../src/server/db/node-lease.ts';

const roomy = { shortage: async () => undefined };
const unseal = async (): Promise<void> => {};
const proveBlobs = async (): Promise<void> => {};

test('however often it is asked, it looks once a second', async () => {
  let writes = 0;
  const write = async (): Promise<void> => void (writes += 1);
  const health = watchHealth({ disk: roomy, isAway: () => false, write, unseal, proveBlobs, onChange: assert.fail });
  const began = performance.now();
  for (let asked = 0; asked < 100; asked += 1) assert.equal(await health(), undefined);
  await Promise.all(Array.from({ length: 100 }, health));
  assert.ok(writes >= 1 && writes <= 1 + (performance.now() - began) / 1000, `${writes} writes`);
});

test('a full disk is the reason that is told, before what follows from it', async () => {
  const changes: (string | undefined)[] = [];
  const disk = { shortage: async () => 'the disk is full' };
  const health = watchHealth({
    disk,
    isAway: () => false,
    write: assert.fail,
    unseal,
    proveBlobs,
    onChange: (reason) => void changes.push(reason),
  });
  assert.equal(await health(), 'the disk is full');
  assert.deepEqual(changes, ['the disk is full']);
});

onEveryDatabase((database) => {
  test('a database that takes what is written is well, and one that is gone is not', async () => {
    const db = await database.open();
    const lease = await leaseNode(db, assert.ifError);
    const parts = {
      disk: roomy,
      isAway: () => false,
      write: () => lease.renew(),
      unseal,
      proveBlobs,
      onChange: () => {},
    };
    assert.equal(await watchHealth(parts)(), undefined);
    await lease.close();
    await db.transaction((trx) => trx.schema.dropTable('id_nodes').execute());
    assert.equal(await watchHealth(parts)(), 'the database cannot be written to');
  });
});

test('a database that does not answer is not waited for', async () => {
  const write = (): Promise<void> => new Promise(() => {});
  const health = watchHealth({ disk: roomy, isAway: () => false, write, unseal, proveBlobs, onChange: () => {} });
  assert.equal(await health(), 'the database does not answer');
});

test('a key that opens nothing is the reason, and one that takes for ever is not waited for', async () => {
  const write = async (): Promise<void> => {};
  const parts = { disk: roomy, isAway: () => false, write, proveBlobs, onChange: () => {} };
  const wrong = watchHealth({ ...parts, unseal: () => Promise.reject(new Error('no')) });
  assert.equal(await wrong(), 'the master key does not open the sealed values of the database');
  const hanging = watchHealth({ ...parts, unseal: () => new Promise(() => {}) });
  assert.equal(await hanging(), 'the database does not answer');
});

test('blobs that cannot be stored are the reason when nothing else is, without what only operators are told', async () => {
  const write = async (): Promise<void> => {};
  const parts = { disk: roomy, isAway: () => false, write, unseal, onChange: () => {} };
  const health = watchHealth({ ...parts, proveBlobs: () => Promise.reject(new Error('at 10.1.2.3')) });
  assert.equal(await health(), 'blob storage cannot be used');
});
