import assert from 'node:assert/strict';
import { before, describe, mock, test } from 'node:test';
import { LeaseLapsedError, leaseNode } from '../../../src/server/db/node-lease.ts';
import type { Database } from '../../../src/server/db/open.ts';
import { timeOfId } from '../../../src/shared/lib/ids.ts';
import { onEveryDatabase } from '../../support/databases.ts';

const fiveHours = 5 * 3_600_000;
const ascending = (a: bigint, b: bigint): number => (a < b ? -1 : 1);
const fail = (error: unknown): never => {
  throw error;
};

describe('a lease on a node number', () => {
  onEveryDatabase((database) => {
    let db: Database;
    before(async () => {
      db = await database.open();
    });

    const nodes = () => db.read.selectFrom('id_nodes').selectAll().orderBy('node').execute();

    test('is shared with no other that is held at the time', async () => {
      const leases = await Promise.all(Array.from({ length: 6 }, () => leaseNode(db, fail)));
      const made = leases.flatMap(({ ids }) => Array.from({ length: 5000 }, () => ids.next()));
      assert.equal(new Set(made).size, made.length);
      assert.equal(new Set(made.map((id) => (id >> 12n) & 1023n)).size, 6);
      for (const lease of leases) await lease.close();
      assert.ok((await nodes()).every(({ leased_until: until }) => until === 0n));
    });

    test('that was given back is taken again, above all that was made under it', async () => {
      const first = await leaseNode(db, fail);
      const made = Array.from({ length: 20_000 }, () => first.ids.next());
      await first.close();
      const before = (await nodes()).length;
      const successors = [];
      for (let count = 0; count < before; count += 1) successors.push(await leaseNode(db, fail));
      const later = successors.map(({ ids }) => ids.next());
      const all = new Set([...made, ...later]);
      assert.equal(all.size, made.length + later.length);
      for (const lease of successors) await lease.close();
    });

    test('that has lapsed makes no identifiers', async () => {
      const lease = await leaseNode(db, fail);
      lease.ids.next();
      const real = performance.now.bind(performance);
      const clock = mock.method(performance, 'now', () => real() + 61_000);
      try {
        assert.throws(() => lease.ids.next(), LeaseLapsedError);
      } finally {
        clock.mock.restore();
      }
      lease.ids.next();
      await lease.close();
    });

    test('makes identifiers while the clock is set, and follows it when it is renewed', async () => {
      const real = Date.now.bind(Date);
      let ahead = 0;
      const clock = mock.method(Date, 'now', () => real() + ahead);
      try {
        const lease = await leaseNode(db, fail);
        const made = [lease.ids.next()];
        const before = timeOfId(made[0] ?? 0n);
        ahead = fiveHours;
        made.push(lease.ids.next());
        assert.ok(timeOfId(made[1] ?? 0n) - before < 60_000, 'what others were promised is not overstepped');
        await lease.renew();
        made.push(lease.ids.next());
        assert.ok(timeOfId(made[2] ?? 0n) - before >= fiveHours);
        ahead = -fiveHours;
        made.push(lease.ids.next());
        await lease.renew();
        made.push(lease.ids.next());
        assert.deepEqual(made, made.toSorted(ascending));
        assert.equal(new Set(made).size, made.length);
        const beside = await leaseNode(db, fail);
        assert.ok(!made.includes(beside.ids.next()));
        await beside.close();
        await lease.close();
      } finally {
        clock.mock.restore();
      }
    });
  });
});
