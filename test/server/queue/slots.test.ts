import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { sql } from 'kysely';
import type { Database, Queries } from '../../../src/server/db/open.ts';
import { oldestWaiting } from '../../../src/server/queue/waiting.ts';
import { claim } from '../../../src/server/queue/claims.ts';
import { enqueue } from '../../../src/server/queue/queue.ts';
import { onEveryDatabase } from '../../support/databases.ts';

describe('fetches and builds', () => {
  onEveryDatabase((database) => {
    let db: Database;
    let last = 1000n;
    const ids = { next: () => (last += 1n) };
    before(async () => {
      db = await database.open();
    });
    const put = (kind: string, many: number): Promise<void> =>
      db.transaction((trx) =>
        enqueue(db, trx, ids, ...Array.from({ length: many }, () => ({ kind, subjectId: 1n, accountId: 1n }))),
      );
    const take = async (kind: string, mostRunning = 0): Promise<string | undefined> => {
      const claiming = { kinds: [kind], mostRunning, holder: 'h', seconds: 60, turn: ids.next() };
      const job = await db.transaction((trx) => claim(db, trx, claiming));
      return typeof job === 'object' ? job.kind : job;
    };

    test('are claimed each for themselves, also where an account has all under way that it may have', async () => {
      await put('run_suite', 3);
      await put('fetch_commit', 2);
      assert.equal(await take('fetch_commit', 1), 'fetch_commit');
      assert.equal(await take('run_suite', 1), 'run_suite');
      assert.equal(await take('fetch_commit', 1), undefined);
      assert.equal(await take('run_suite', 1), undefined);
    });

    test('are the only queries that are kept from reading a whole table', async () => {
      if (db.kind === 'sqlite') return;
      const settings = async (queries: Queries): Promise<unknown> => {
        const { rows } = await sql<Record<string, string>>`
          select current_setting('enable_seqscan') as tables, current_setting('enable_sort') as sorts`.execute(queries);
        return [rows[0]?.tables, rows[0]?.sorts];
      };
      const seen = await db.transaction(async (trx) => [
        await settings(trx),
        await db.alongIndexes(trx, () => settings(trx)),
        await settings(trx),
      ]);
      assert.deepEqual(seen, [
        ['on', 'on'],
        ['off', 'off'],
        ['on', 'on'],
      ]);
      assert.deepEqual(await settings(db.read), ['on', 'on']);
    });

    test('are found at once, however many of the others wait before them', async () => {
      const planOn = async (queries: Queries, kind: string): Promise<string> => {
        const search = { queries, kinds: [kind], account: sql`${1n}`, tags: '' };
        const query = oldestWaiting(db, search);
        if (db.kind === 'sqlite')
          return JSON.stringify(
            (await sql`explain query plan select ${query}`.execute(queries)).rows,
            (_, value: unknown) => (typeof value === 'bigint' ? Number(value) : value),
          );
        return JSON.stringify((await sql`explain (costs off) select ${query}`.execute(queries)).rows);
      };
      const plan = (kind: string): Promise<string> =>
        db.transaction((trx) => db.alongIndexes(trx, () => planOn(trx, kind)));
      await put('run_suite', 3000);
      if (db.kind === 'postgres') await db.transaction((trx) => sql`analyze jobs`.execute(trx));
      assert.match(await plan('fetch_commit'), /jobs_waiting_fetches/);
      await put('fetch_commit', 6000);
      if (db.kind === 'postgres') await db.transaction((trx) => sql`analyze jobs`.execute(trx));
      assert.match(await plan('run_suite'), /jobs_waiting[^_]/);
    });
  });
});
