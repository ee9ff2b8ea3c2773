import assert from 'node:assert/strict';
import { before, describe, mock, test } from 'node:test';
import type { Database } from '../../../src/server/db/open.ts';
import { watchClaims, type LapseWatch } from '../../../src/server/queue/lapses.ts';
import { detachHolder } from '../../../src/server/queue/leases.ts';
import { onEveryDatabase } from '../../support/databases.ts';

const fiveHours = 5 * 3_600_000;
const times = { claimMs: (kind: string) => (kind === 'slow' ? 60_000 : 15_000), atStart: 5000, everyMs: 2000 };

describe('a claim', () => {
  onEveryDatabase((database) => {
    let db: Database;
    before(async () => {
      db = await database.open();
    });

    const job = {
      subject_id: 1n,
      account_id: 1n,
      tries: 1,
      run_after: 0n,
      cancelled: 0,
      priority: 0,
      holder: 'somebody',
      tags: '',
    };
    const jobs = async (...claims: [claim: string, kind: string][]): Promise<void> => {
      await db.transaction(async (trx) => {
        await trx.deleteFrom('jobs').execute();
        for (const [at, [claim, kind]] of claims.entries()) {
          const row = { ...job, id: BigInt(at + 1), kind, claim, claimed_until: BigInt(Date.now() + 15_000) };
          await trx.insertInto('jobs').values(row).execute();
        }
      });
    };
    /** As the next extension leaves it when the clock of the database was set by so much. */
    const extended = (claim: string, until: number): Promise<unknown> =>
      db.transaction((trx) =>
        trx
          .updateTable('jobs')
          .set({ claimed_until: BigInt(Math.round(until)) })
          .where('claim', '=', claim)
          .execute(),
      );
    /** Looks every two seconds of a clock that the test turns. */
    const watching = async (
      during: (watch: LapseWatch, wait: (seconds: number) => Promise<string[]>) => Promise<void>,
    ) => {
      let passed = 0;
      // It stands still but for the test: what the database takes does not count.
      const began = performance.now();
      const clock = mock.method(performance, 'now', () => began + passed);
      try {
        const watch = watchClaims(db, times);
        await during(watch, async (seconds) => {
          const lapsed = new Set<string>();
          for (let at = 0; at < seconds; at += 2) {
            passed += 2000;
            for (const { claim } of await watch.findLapsed()) lapsed.add(claim);
          }
          return [...lapsed];
        });
      } finally {
        clock.mock.restore();
      }
    };

    test('is kept for minutes where its runner was left by a server that stopped, and then as any other', async () => {
      await jobs(['left', 'quick'], ['back again', 'quick'], ['dead', 'quick']);
      await db.transaction((trx) =>
        trx.updateTable('jobs').set({ holder: 'far' }).where('claim', '=', 'dead').execute(),
      );
      await db.transaction((trx) => detachHolder(db, trx, 'somebody'));
      await watching(async (watch, wait) => {
        await watch.findLapsed();
        assert.deepEqual(await wait(60), ['dead']);
        await extended('back again', Date.now() + 15_000);
        assert.deepEqual(await wait(20), ['dead', 'back again']);
        assert.ok((await wait(560)).includes('left'));
      });
    });

    test('lapses when it is not extended for its time, each by its kind', async () => {
      await jobs(['dead', 'quick'], ['alive', 'quick'], ['slow one', 'slow']);
      await watching(async (watch, wait) => {
        assert.deepEqual(await watch.findLapsed(), []);
        assert.deepEqual(await wait(12), []);
        await extended('alive', Date.now() + 20_000);
        assert.deepEqual(await wait(10), ['dead']);
        await extended('alive', Date.now() + 30_000);
        assert.deepEqual(await wait(12), ['dead']);
      });
    });

    test('is kept or lost by who extends it, whatever the clock of the database says', async () => {
      for (const jump of [fiveHours, -fiveHours]) {
        await jobs(['dead', 'quick'], ['alive', 'quick']);
        await watching(async (watch, wait) => {
          await watch.findLapsed();
          await extended('alive', Date.now() - jump);
          await extended('dead', Date.now() - jump);
          assert.deepEqual(await wait(12), []);
          await extended('alive', Date.now() - jump + 12_000);
          assert.deepEqual(await wait(6), ['dead']);
        });
      }
    });

    test('does not lapse in time in which nobody looked: nobody could extend it either', async () => {
      await jobs(['alive', 'quick']);
      let stoodStill = 0;
      const real = performance.now.bind(performance);
      const clock = mock.method(performance, 'now', () => real() + stoodStill);
      try {
        const watch = watchClaims(db, times);
        await watch.findLapsed();
        stoodStill = 600_000;
        assert.deepEqual(await watch.findLapsed(), []);
      } finally {
        clock.mock.restore();
      }
    });

    test('whose holder is known to be gone lapses at once', async () => {
      await jobs(['gone', 'quick']);
      await extended('gone', 0);
      const lapsed = await watchClaims(db, times).findLapsed();
      assert.deepEqual(
        lapsed.map(({ claim }) => claim),
        ['gone'],
      );
    });
  });
});
