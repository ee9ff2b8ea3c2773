import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { sql } from 'kysely';
import {
  recordHeartbeat,
  recordHeartbeats,
  runnersNow,
  whyNobodyTakes,
} from '../../../src/server/auth/runner-heartbeats.ts';
import { onOneDatabase } from '../../support/databases.ts';

const visit = { version: '1.0.0', trouble: '' };
const account = 1n;

describe('a runner that came', () => {
  onOneDatabase((database) => {
    test('is there for a while, and not when the clock says that it came later than now', async () => {
      const db = await database.open();
      await recordHeartbeat(db, { holder: 'local' }, visit);
      const setSeen = async (ms: number): Promise<void> => {
        await db.transaction((trx) =>
          trx
            .updateTable('runner_heartbeats')
            .set({ seen_at: sql<bigint>`${db.clock} + ${BigInt(ms)}` })
            .execute(),
        );
      };
      const stateNow = async (): Promise<[string | undefined, string | undefined]> => [
        (await runnersNow(db))[0]?.state,
        await whyNobodyTakes(db, account),
      ];
      const there = ['idle', undefined];
      const away = ['away', 'no runner is connected'];
      assert.deepEqual(await stateNow(), there);

      await setSeen(-60_000);
      assert.deepEqual(await stateNow(), away);
      // It came, and then the clock of the database was set back by an hour: for that hour it would be taken for there.
      await setSeen(3_600_000);
      assert.deepEqual(await stateNow(), away);
      // A server's clock and the database's are not read at the same moment.
      await setSeen(1000);
      assert.deepEqual(await stateNow(), there);

      // When it comes again it is there, whatever stood there before.
      await setSeen(3_600_000);
      await recordHeartbeat(db, { holder: 'local' }, visit);
      assert.deepEqual(await stateNow(), there);
    });

    test('is there as long as it is connected', async () => {
      const db = await database.open();
      const connected = new Set<string>();
      const visits = recordHeartbeats(db, () => connected, 10);
      const past = async (): Promise<unknown> =>
        db.transaction((trx) => trx.updateTable('runner_heartbeats').set({ seen_at: 0n }).execute());
      const until = async (state: string): Promise<void> => {
        while ((await runnersNow(db))[0]?.state !== state) await pause(5);
      };
      await visits.came({ holder: 'local' }, visit);
      connected.add('local');
      await past();
      await until('idle');
      connected.clear();
      await visits.close();
      await past();
      assert.equal((await runnersNow(db))[0]?.state, 'away');
    });
  });
});
