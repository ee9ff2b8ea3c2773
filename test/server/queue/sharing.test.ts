import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { setImmediate as breathe } from 'node:timers/promises';
import type { Database } from '../../../src/server/db/open.ts';
import { migrate } from '../../../src/server/db/migrate.ts';
import { claim } from '../../../src/server/queue/claims.ts';
import type { ClaimedJob } from '../../../src/server/queue/leases.ts';
import { enqueue, remove } from '../../../src/server/queue/queue.ts';
import { onEveryDatabase } from '../../support/databases.ts';

interface Asking {
  mostRunning?: number;
  boundAs?: bigint;
}

describe('the capacity for jobs', () => {
  onEveryDatabase((database) => {
    let db: Database;
    /** Another server on the same database; on SQLite there is one alone. */
    let other: Database;
    let numbers = 100n;
    before(async () => {
      const url = await database.emptyUrl();
      db = await database.openEmpty(url);
      await migrate(db);
      other = database.kind === 'postgres' ? await database.openEmpty(url) : db;
    });

    const put = async (kind: string, accountId: bigint, count: number): Promise<void> => {
      await db.transaction(async (trx) => {
        for (let at = 0; at < count; at += 1) {
          numbers += 1n;
          const id = numbers;
          await enqueue(db, trx, { next: () => id }, { kind, subjectId: id, accountId });
        }
      });
    };
    /** As a server does: whoever was overtaken looks again. */
    const take = async (kind: string, asking: Asking = {}, server = db): Promise<ClaimedJob | undefined> => {
      for (;;) {
        numbers += 1n;
        const claiming = { holder: 'h', kinds: [kind], seconds: 60, turn: numbers, ...asking };
        const taken = await server.transaction((trx) => claim(server, trx, claiming));
        if (taken !== 'overtaken') return taken;
        assert.equal(server.kind, 'postgres', 'where transactions take turns nobody is overtaken');
      }
    };
    const takeAll = async (kind: string, count: number, asking: Asking = {}): Promise<ClaimedJob[]> => {
      const taken: ClaimedJob[] = [];
      for (let at = 0; at < count; at += 1) taken.push((await take(kind, asking)) ?? assert.fail('none is left'));
      return taken;
    };
    const finish = (job: ClaimedJob | undefined, server = db) =>
      server.transaction((trx) => remove(server, trx, job ?? assert.fail()));
    const accounts = (jobs: ClaimedJob[]): bigint[] => jobs.map(({ account_id: account }) => account);

    test('goes to the account with the fewest under way, so one that comes later catches up', async () => {
      await put('long', 1n, 20);
      const [first, second, third] = await takeAll('long', 4);
      await put('long', 2n, 20);
      for (const freed of [first, second, third]) await finish(freed);
      // One has 1 under way, two none: two is served until they are even, and from then on they take turns.
      assert.deepEqual(accounts(await takeAll('long', 2)), [2n, 1n]);
      const next = accounts(await takeAll('long', 4));
      assert.deepEqual(
        next.toSorted((a, b) => Number(a - b)),
        [1n, 1n, 2n, 2n],
      );
      await put('long', 3n, 5);
      assert.deepEqual(accounts(await takeAll('long', 3)), [3n, 3n, 3n]);
    });

    test('is not used by an account that has as many under way as it may', async () => {
      await put('capped', 1n, 5);
      const asking = { mostRunning: 2 };
      const [first] = await takeAll('capped', 2, asking);
      assert.equal(await take('capped', asking), undefined);
      await put('capped', 2n, 1);
      assert.equal((await take('capped', asking))?.account_id, 2n);
      await finish(first);
      assert.equal((await take('capped', asking))?.account_id, 1n);
      assert.equal(await take('capped', asking), undefined);
      assert.equal((await take('capped'))?.account_id, 1n, 'without a bound there is more');
    });

    test('is never more than that, however many servers claim at once', async () => {
      const [most, jobs] = [3, 40];
      await put('busy', 1n, jobs);
      await put('busy', 2n, jobs);
      let done = 0;
      const worker = async (server: Database): Promise<void> => {
        while (done < 2 * jobs) {
          const job = await take('busy', { mostRunning: most }, server);
          if (!job) {
            await breathe();
            continue;
          }
          const [counted] = await server.read
            .selectFrom('jobs')
            .select((of) => of.fn.countAll<bigint>().as('running'))
            .where('claim', 'is not', null)
            .where('kind', '=', 'busy')
            .where('account_id', '=', job.account_id)
            .execute();
          assert.ok(Number(counted?.running) <= most, `${counted?.running} of one account are under way`);
          await finish(job, server);
          done += 1;
        }
      };
      await Promise.all([db, other].flatMap((server) => Array.from({ length: 6 }, () => worker(server))));
      assert.equal(done, 2 * jobs);
    });

    test('all goes to one account where no other waits, also when many claim at once', async () => {
      await put('alone', 1n, 30);
      const taken = await Promise.all(
        Array.from({ length: 30 }, (_, at) => take('alone', {}, at % 2 === 0 ? db : other)),
      );
      assert.equal(new Set(taken.map((job) => job?.id)).size, 30);
    });

    test('of a runner that is bound to accounts is for those alone', async () => {
      await db.transaction(async (trx) => {
        for (const id of [11n, 12n]) {
          const state = {
            kind: 'user',
            suspended: 0,
            operator: 0,
            news: 1,
            by_invitation: 0,
            billing: 'ok',
            created_at: 0n,
            shut_out: '',
          };
          const secrets = { password_hash: null, api_key_hash: null, password_by_link: 0, asks_passkey: 0 };
          await trx
            .insertInto('users')
            .values({ id, email: `${id}@x`, ...state, ...secrets })
            .execute();
        }
        await trx
          .insertInto('runners')
          .values({ id: 7n, name: 'r', token_hash: 't', created_at: 0n, draining: 0 })
          .execute();
        await trx.insertInto('runner_accounts').values({ id: 1n, runner_id: 7n, account_id: 12n }).execute();
      });
      await put('bound', 11n, 2);
      assert.equal(await take('bound', { boundAs: 7n }), undefined);
      await put('bound', 12n, 2);
      assert.deepEqual(accounts(await takeAll('bound', 2, { boundAs: 7n })), [12n, 12n]);
      assert.equal(await take('bound', { boundAs: 7n }), undefined);
      assert.deepEqual(accounts(await takeAll('bound', 2)), [11n, 11n]);
    });
  });
});
