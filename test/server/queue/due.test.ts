import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { sql } from 'kysely';
import type { Database } from '../../../src/server/db/open.ts';
import { jobs, nextDue, startDueWork } from '../../../src/server/queue/due.ts';
import { claimDue, end, type ClaimedJob } from '../../../src/server/queue/leases.ts';
import { enqueue } from '../../../src/server/queue/queue.ts';
import { onEveryDatabase } from '../../support/databases.ts';

describe('work that servers do themselves', () => {
  onEveryDatabase((database) => {
    let db: Database;
    let last = 0n;
    const ids = { next: () => (last += 1n) };
    before(async () => {
      db = await database.open();
    });
    const put = (runAfter = 0): Promise<void> =>
      db.transaction((trx) => enqueue(db, trx, ids, { kind: 'work', subjectId: ids.next(), accountId: 1n, runAfter }));
    const nextAt = (): Promise<number> => nextDue(db.read, jobs, sql`kind = 'work' and claim is null`);

    test('is next by its moment, which may be long ago', async () => {
      assert.equal(await nextAt(), Infinity);
      await put(3000);
      assert.equal(await nextAt(), 3000);
      await put();
      assert.equal(await nextAt(), 0);
    });

    test('is done once by one of the servers, and no more of it at once than each may', async () => {
      for (let more = 0; more < 9; more += 1) await put();
      const all = await db.read.selectFrom('jobs').select('id').execute();
      const [done, most] = [[] as bigint[], 2];
      const over = Promise.withResolvers<void>();
      const start = (holder: string) => {
        let underWay = 0;
        return startDueWork<ClaimedJob>(db, {
          topic: 'work',
          everyMs: 50,
          most,
          nextAt,
          claim: (room) =>
            db.transaction((trx) => claimDue(db, trx, { kind: 'work', holder, seconds: 60, most: room })),
          async serve(job) {
            underWay += 1;
            assert.ok(underWay <= most);
            await turn();
            await db.transaction((trx) => end(trx, job));
            underWay -= 1;
            done.push(job.id);
            if (done.length === all.length) over.resolve();
          },
          whenSetBack: async () => {},
          onError: (error) => over.reject(error),
        });
      };
      const servers = [start('one'), start('other')];
      await over.promise;
      for (const server of servers) await server.close();
      const byNumber = (one: bigint, other: bigint): number => Number(one - other);
      assert.deepEqual(done.toSorted(byNumber), all.map(({ id }) => id).toSorted(byNumber));
      assert.equal(await nextAt(), Infinity);
    });
  });
});
