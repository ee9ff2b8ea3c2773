import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { sql } from 'kysely';
import type { Database } from '../../../src/server/db/open.ts';
import { claim } from '../../../src/server/queue/claims.ts';
import { enqueue, type NewJob } from '../../../src/server/queue/queue.ts';
import { onEveryDatabase } from '../../support/databases.ts';

describe('jobs with priorities', () => {
  onEveryDatabase((database) => {
    let db: Database;
    let last = 1000n;
    const ids = { next: () => (last += 1n) };
    before(async () => {
      db = await database.open();
    });
    const put = (accountId: bigint, ...jobs: Partial<NewJob>[]): Promise<void> =>
      db.transaction((trx) =>
        enqueue(db, trx, ids, ...jobs.map((job) => ({ kind: 'work', subjectId: 1n, accountId, ...job }))),
      );
    const of = (...priorities: number[]) => priorities.map((priority) => ({ priority }));
    const take = async (more: object = {}, server = db) => {
      const claiming = { kinds: ['work'], holder: 'h', seconds: 60, turn: ids.next(), ...more };
      const job = await server.transaction((trx) => claim(server, trx, claiming));
      assert.notEqual(job, 'overtaken');
      return typeof job === 'object' ? job : undefined;
    };
    const takeAll = async (more: object = {}) => {
      const taken = [];
      for (let job = await take(more); job; job = await take(more)) taken.push(job);
      return taken;
    };
    const clear = () => db.transaction((trx) => trx.deleteFrom('jobs').execute());

    test('begin with the highest, then the oldest, and what a caller waits for comes before them', async () => {
      await clear();
      await put(1n, ...of(0, -100, 7, 100, 0, 7), { isAwaited: true }, ...of(-1));
      const taken = await takeAll();
      assert.deepEqual(
        taken.slice(1).map(({ priority }) => priority),
        [100, 7, 7, 0, 0, -1, -100],
      );
      assert.ok(Number(taken[0]?.id) < 0, 'the awaited one is first');
      const sevens = taken.filter(({ priority }) => priority === 7).map(({ id }) => id);
      assert.ok(sevens[0] !== undefined && sevens[1] !== undefined && sevens[0] < sevens[1]);
    });

    test('leave out what cannot begin yet, and keep the tags of runners and the order of a lane', async () => {
      await clear();
      const later = Date.now() + 3_600_000;
      await put(1n, { priority: 100, runAfter: later }, { priority: 90, tags: 'gpu' }, { priority: 1 });
      await put(1n, { priority: 2, tags: 'arm' }, { priority: 3, runAfter: later, location: 'here' });
      await put(1n, { priority: -5, lane: 'deploys' }, { priority: 80, lane: 'deploys' });
      const taken = (await takeAll()).map(({ priority }) => priority);
      assert.deepEqual(taken, [1, -5], 'the second of the lane waits for the first');
      const tagged = { tags: 'arm,gpu', location: 'here' };
      assert.deepEqual(
        (await takeAll(tagged)).map(({ priority }) => priority),
        [90, 3, 2],
      );
    });

    test('delay no other account, whatever one gives to its own [promise: account-turns]', async () => {
      await clear();
      await put(1n, ...of(...Array.from({ length: 40 }, () => 100)));
      await put(2n, ...of(-100, -100, -100));
      const accounts = (await takeAll()).slice(0, 6).map(({ account_id: account }) => account);
      assert.equal(accounts.filter((account) => account === 2n).length, 3, accounts.join());
    });

    test('are taken by several claims at once without leaving one behind', async () => {
      await clear();
      await put(1n, ...of(5, 5, 0, 0, -5, -5, 9));
      const many = await Promise.all(
        Array.from({ length: 7 }, async () => {
          for (;;) {
            const claiming = { kinds: ['work'], holder: 'h', seconds: 60, turn: ids.next() };
            const job = await db.transaction((trx) => claim(db, trx, claiming));
            if (job !== 'overtaken') return job?.id;
          }
        }),
      );
      assert.equal(new Set(many).size, 7);
      assert.ok(!many.includes(undefined));
    });

    /** Counted in rows that PostgreSQL looked at, which is the same on every machine; SQLite does not count. */
    test('cost a claim little, however many jobs of other priorities wait', async () => {
      if (db.kind === 'sqlite') return;
      await clear();
      const cost = async (priority: number): Promise<number> => {
        let least = Infinity;
        for (let time = 0; time < 10; time += 1) {
          await put(1n, { priority });
          const rows = await db.transaction(async (trx) => {
            const looks = async (): Promise<number> => {
              const counted = await sql<{ blocks: bigint }>`
                select sum(pg_stat_get_xact_blocks_fetched(place))::bigint as blocks from (
                  select 'jobs'::regclass::oid as place
                  union all select indexrelid from pg_index where indrelid = 'jobs'::regclass
                ) as places`.execute(trx);
              return Number(counted.rows[0]?.blocks ?? 0n);
            };
            const start = await looks();
            const job = await claim(db, trx, { kinds: ['work'], holder: 'h', seconds: 60, turn: ids.next() });
            assert.ok(typeof job === 'object' && job.priority === priority);
            return (await looks()) - start;
          });
          least = Math.min(least, rows);
        }
        return least;
      };
      const few = await cost(50);
      await db.transaction((trx) =>
        sql`
          insert into jobs (id, kind, subject_id, account_id, tries, run_after, cancelled, priority)
          select 1000000 + number, 'work', 1, 1, 0, case number % 2 when 0 then 0 else ${sql.lit(2n ** 61n)} end, 0,
            case number % 2 when 0 then 0 else 90 end
          from generate_series(1, 50000) as number
        `.execute(trx),
      );
      const many = await cost(50);
      assert.ok(many <= few + 60, `${many} blocks instead of ${few}`);
    });
  });
});
