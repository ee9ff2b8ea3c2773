import assert from 'node:assert/strict';
import { test } from 'node:test';
import { makeStrandedJobsDue } from '../../../src/server/queue/queue.ts';
import { onEveryDatabase } from '../../support/databases.ts';

const fiveHours = 5 * 3_600_000;

onEveryDatabase((database) => {
  test('after the clock was set back, what was put off for a moment is due, and nothing else is moved', async () => {
    const db = await database.open();
    const now = Date.now();
    const job = {
      subject_id: 1n,
      account_id: 1n,
      tries: 1,
      cancelled: 0,
      priority: 0,
      claim: null,
      holder: null,
      claimed_until: null,
      tags: '',
    };
    await db.transaction(async (trx) => {
      const rows = [
        { id: 1n, kind: 'run_suite', run_after: BigInt(now + fiveHours) },
        { id: 2n, kind: 'run_suite', run_after: BigInt(now + 1000) },
        { id: 3n, kind: 'another', run_after: BigInt(now + fiveHours) },
      ];
      for (const row of rows)
        await trx
          .insertInto('jobs')
          .values({ ...job, ...row })
          .execute();
    });
    await makeStrandedJobsDue(db, { kinds: ['run_suite'], longestWait: 2000 });
    const rows = await db.read.selectFrom('jobs').select(['id', 'run_after']).orderBy('id').execute();
    const waits = rows.map(({ run_after: at }) => Number(at) - now);
    assert.ok((waits[0] ?? fiveHours) < 60_000, `it waits for ${waits[0]} ms`);
    assert.deepEqual(waits.slice(1), [1000, fiveHours]);
  });
});
