import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { sql } from 'kysely';
import type { Database, Transaction } from '../../../src/server/db/open.ts';
import { claim } from '../../../src/server/queue/claims.ts';
import { enqueue } from '../../../src/server/queue/queue.ts';
import { onEveryDatabase } from '../../support/databases.ts';

describe('jobs with tags', () => {
  onEveryDatabase((database) => {
    let db: Database;
    let last = 1000n;
    const ids = { next: () => (last += 1n) };
    before(async () => {
      db = await database.open();
    });

    const put = async (accountId: bigint, ...tags: string[]): Promise<void> =>
      db.transaction((trx) =>
        enqueue(db, trx, ids, ...tags.map((needed) => ({ kind: 'work', subjectId: 1n, accountId, tags: needed }))),
      );
    const clear = () => db.transaction((trx) => trx.deleteFrom('jobs').execute());
    const asking = (tags: string, more = {}) => ({ kinds: ['work'], tags, ...more });
    /** The tags of what is claimed, until nothing is left for the runner. */
    const takeAll = async (own: string, more = {}): Promise<string[]> => {
      const taken: string[] = [];
      for (;;) {
        const claiming = { ...asking(own, more), holder: 'h', seconds: 60, turn: ids.next() };
        const job = await db.transaction((trx) => claim(db, trx, claiming));
        if (job === undefined) return taken;
        assert.notEqual(job, 'overtaken');
        if (typeof job === 'object') taken.push(job.tags);
      }
    };

    test('go to runners that have all of these tags, the oldest first', async () => {
      await clear();
      await put(1n, 'gpu', '', 'arm,gpu', 'gpu', 'arm', 'gp', 'gpu2', 'g', 'arm,gpu,ssd');
      assert.deepEqual(await takeAll(''), ['']);
      assert.deepEqual(await takeAll('other'), []);
      assert.deepEqual(await takeAll('arm,gpu'), ['gpu', 'arm,gpu', 'gpu', 'arm']);
      assert.deepEqual(await takeAll('arm,g,gp,gpu,gpu2,more,ssd'), ['gp', 'gpu2', 'g', 'arm,gpu,ssd']);
    });

    test('come by turns of accounts, and only of those that the runner is bound to', async () => {
      await clear();
      await put(1n, 'gpu', 'gpu', 'gpu');
      await put(2n, 'gpu', '');
      await db.transaction(async (trx) => {
        const own = { password_hash: null, api_key_hash: null, password_by_link: 0, asks_passkey: 0, shut_out: '' };
        const user = {
          kind: 'user',
          billing: 'ok',
          suspended: 0,
          operator: 0,
          news: 1,
          by_invitation: 0,
          created_at: 0n,
          ...own,
        };
        await trx
          .insertInto('users')
          .values({ id: 2n, email: 'two@example.org', ...user })
          .execute();
        const runner = { name: 'r', token_hash: 'h', created_at: 0n, draining: 0 };
        await trx
          .insertInto('runners')
          .values({ id: 7n, ...runner })
          .execute();
        await trx.insertInto('runner_accounts').values({ id: 1n, runner_id: 7n, account_id: 2n }).execute();
      });
      assert.deepEqual(await takeAll('gpu', { boundAs: 7n }), ['gpu', '']);
      assert.deepEqual(await takeAll('gpu', { mostRunning: 2 }), ['gpu', 'gpu']);
      assert.deepEqual(await takeAll('gpu'), ['gpu']);
    });

    /** Counted in blocks that PostgreSQL looked at, which is the same on every machine; SQLite does not count. */
    test('cost nobody more who may not have them, however many there are', async () => {
      if (db.kind === 'sqlite') return;
      await clear();
      const cost = async (own: string): Promise<number> => {
        let least = Infinity; // rows that are dead but not removed yet cost some looks more
        for (let time = 0; time < 10; time += 1) {
          await put(1n, '', own);
          const blocks = await db.transaction(async (trx) => {
            const start = await looks(trx);
            const claiming = { ...asking(own), holder: 'h', seconds: 60, turn: ids.next() };
            assert.equal(typeof (await claim(db, trx, claiming)), 'object');
            return (await looks(trx)) - start;
          });
          least = Math.min(least, blocks);
        }
        return least;
      };
      await put(1n, 'gpu', 'ssd');
      const [plain, tagged] = [await cost(''), await cost('zz')];
      await db.transaction((trx) =>
        sql`
          insert into jobs (id, kind, subject_id, account_id, tries, run_after, cancelled, tags)
          select 1000000 + number, 'work', 1, 1, 0, 0, 0, case number % 2 when 0 then 'gpu' else 'ssd' end
          from generate_series(1, 100000) as number
        `.execute(trx),
      );
      const [plainLater, taggedLater] = [await cost(''), await cost('zz')];
      // Each lookup goes a page or two deeper into its index, and there is one more for each combination of tags.
      assert.ok(plainLater <= plain + 60, `${plainLater} blocks instead of ${plain}`);
      assert.ok(taggedLater <= tagged + 90, `${taggedLater} blocks instead of ${tagged}`);
    });
  });
});

async function looks(trx: Transaction): Promise<number> {
  const { rows } = await sql<{ blocks: bigint }>`
    select sum(pg_stat_get_xact_blocks_fetched(place))::bigint as blocks from (
      select 'jobs'::regclass::oid as place
      union all select indexrelid from pg_index where indrelid = 'jobs'::regclass
    ) as places
  `.execute(trx);
  return Number(rows[0]?.blocks ?? 0n);
}
