import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { sql } from 'kysely';
import type { Database, Transaction } from '../../../src/server/db/open.ts';
import { claim } from '../../../src/server/queue/claims.ts';
import { enqueue } from '../../../src/server/queue/queue.ts';
import { onEveryDatabase } from '../../support/databases.ts';

/**
 * What a claim costs is counted in rows that PostgreSQL had to look at, which is the same on every machine. SQLite does
 * not count; the same things are claimed there in the same order.
 */
onEveryDatabase((database) => {
  describe('a claim', () => {
    let last = 0n;
    const ids = { next: () => (last += 1n) };

    const fill = async (db: Database, accounts: number, each: number): Promise<void> => {
      for (let account = 1n; account <= accounts; account += 1n) {
        await db.transaction(async (trx) => {
          const jobs = Array.from({ length: each }, () => ({
            kind: 'work',
            subjectId: ids.next(),
            accountId: account,
          }));
          await enqueue(db, trx, ids, ...jobs);
        });
      }
    };
    const take = async (db: Database): Promise<{ account: bigint | undefined; rows: number }> =>
      db.transaction(async (trx) => {
        const claiming = { kinds: ['work', 'other work'], holder: 'somebody', seconds: 60, turn: ids.next() };
        const before = await looks(db, trx);
        const job = await claim(db, trx, claiming);
        assert.notEqual(job, 'overtaken');
        const account = typeof job === 'object' ? job.account_id : undefined;
        return { account, rows: (await looks(db, trx)) - before };
      });
    /** The dearest of so many: a statement that comes again is planned anew at first and no more later. */
    const dearest = async (db: Database, times: number): Promise<number> => {
      let most = 0;
      for (let time = 0; time < times; time += 1) most = Math.max(most, (await take(db)).rows);
      return most;
    };
    const analyze = async (db: Database): Promise<void> => {
      if (db.kind === 'postgres') await db.transaction((trx) => sql`analyze jobs, queue_turns`.execute(trx));
    };

    test('costs the same however long the queue is', async () => {
      const db = await database.open();
      await fill(db, 3, 10);
      await analyze(db);
      const short = await dearest(db, 12);
      await fill(db, 3, 2000);
      const unknown = await dearest(db, 12);
      await analyze(db);
      const long = await dearest(db, 12);
      assert.ok(unknown <= short + 40, `${unknown} rows instead of ${short}`);
      assert.ok(long <= short + 40, `${long} rows instead of ${short}`);
    });

    test('costs no more when many come at once after a quiet time', async () => {
      const db = await database.open();
      await fill(db, 3, 20);
      const short = await dearest(db, 55);
      await analyze(db); // what PostgreSQL knows of the queue: hardly anything waits
      await fill(db, 3, 1500);
      const long = await dearest(db, 12);
      assert.ok(long <= short + 100, `${long} rows instead of ${short}`);
    });

    test('looks at what is under way at most twice', async () => {
      const db = await database.open();
      await fill(db, 5, 1500);
      await db.transaction((trx) =>
        trx
          .updateTable('jobs')
          .set({ claim: sql<string>`'claim ' || id`, holder: 'others', claimed_until: 2n ** 60n })
          .where('id', 'in', (of) => of.selectFrom('jobs').select('id').orderBy('subject_id').limit(1000))
          .execute(),
      );
      await analyze(db);
      const most = await dearest(db, 8);
      assert.ok(most <= 2 * 1008 + 100, `${most} rows`);
    });
  });
});

/** How many rows of the queue were looked at on the transaction's connection of late. */
async function looks(db: Database, trx: Transaction): Promise<number> {
  if (db.kind === 'sqlite') return 0;
  const { rows } = await sql<{ looks: bigint }>`
    select (coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::bigint as looks
    from pg_stat_xact_user_tables where relname = 'jobs'
  `.execute(trx);
  return Number(rows[0]?.looks ?? 0n);
}
