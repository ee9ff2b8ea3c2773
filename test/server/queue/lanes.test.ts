import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Database, Transaction } from '../../../src/server/db/open.ts';
import { sql } from 'kysely';
import { holdLane } from '../../../src/server/queue/lanes.ts';
import { claim } from '../../../src/server/queue/claims.ts';
import type { ClaimedJob } from '../../../src/server/queue/leases.ts';
import { cancel, drop, enqueue, release, remove } from '../../../src/server/queue/queue.ts';
import { onEveryDatabase } from '../../support/databases.ts';
import { growingPauses } from '../../support/pauses.ts';

describe('a lane', () => {
  onEveryDatabase((database) => {
    let db: Database;
    before(async () => {
      db = await database.open();
    });

    const put = (id: bigint, lane: string) =>
      db.transaction((trx) =>
        enqueue(db, trx, { next: () => id }, { kind: lane, subjectId: id, accountId: id, lane: `lane of ${lane}` }),
      );
    const take = async (kind: string): Promise<ClaimedJob | undefined> => {
      const taken = await db.transaction((trx) =>
        claim(db, trx, { holder: 'h', location: 'here', kinds: [kind], seconds: 60, turn: 1n }),
      );
      assert.notEqual(taken, 'overtaken');
      return taken === 'overtaken' ? undefined : taken;
    };
    const finish = (job: ClaimedJob | undefined) => db.transaction((trx) => remove(db, trx, job ?? assert.fail()));

    test('is gone through one after the other, in order', async () => {
      for (const id of [12n, 11n, 13n]) await put(id, 'orderly');
      for (const expected of [11n, 12n, 13n]) {
        const job = await take('orderly');
        assert.equal(job?.id, expected);
        assert.equal(await take('orderly'), undefined);
        await finish(job);
      }
    });

    test('is not overtaken by one that is given back', async () => {
      for (const id of [21n, 22n]) await put(id, 'returned');
      const first = await take('returned');
      await db.transaction((trx) => release(db, trx, first ?? assert.fail()));
      assert.equal((await take('returned'))?.id, 21n);
    });

    test('has one claimed at a time, also when a clock that is behind numbers a new one low', async () => {
      await put(32n, 'skewed');
      const job = await take('skewed');
      await put(31n, 'skewed');
      assert.equal(await take('skewed'), undefined);
      await finish(job);
      assert.equal((await take('skewed'))?.id, 31n);
    });

    test('moves up when one that waits in it is called off, or goes with what it was about', async () => {
      for (const id of [41n, 42n, 43n, 44n]) await put(id, 'called off');
      await db.transaction((trx) => cancel(db, trx, [41n]));
      const job = await take('called off');
      assert.equal(job?.id, 42n);
      await db.transaction((trx) => drop(db, trx, sql`(42)` as never));
      assert.equal((await take('called off'))?.id, 43n);
    });

    test('moves up when the one that ends and those behind it that are called off meet', async () => {
      for (const id of [51n, 52n, 53n, 54n]) await put(id, 'met');
      const job = await take('met');
      const held = Promise.withResolvers<void>();
      const letGo = Promise.withResolvers<void>();
      const holding = db.transaction(async (trx) => {
        if (database.kind === 'postgres') await holdLane(db, trx, 'lane of met');
        held.resolve();
        await letGo.promise;
      });
      await held.promise;
      if (database.kind === 'sqlite') letGo.resolve(); // it has one writer at a time
      let runs = 0;
      const counted = (work: (trx: Transaction) => Promise<unknown>) =>
        db.transaction((trx) => {
          runs += 1;
          return work(trx);
        });
      const ending = counted((trx) => remove(db, trx, job ?? assert.fail()));
      await untilWaiting(1, new AbortController().signal);
      // The end waits for the lane and has its own job. Both of these have theirs.
      const over = new AbortController();
      const calledOff = Promise.all([52n, 53n].map((id) => counted((trx) => cancel(db, trx, [id]))));
      await Promise.race([calledOff.finally(() => over.abort()), untilWaiting(3, over.signal)]);
      letGo.resolve();
      await Promise.all([holding, ending, calledOff]);
      assert.equal(runs, 3, 'none had to be run again after a deadlock');
      assert.equal((await take('met'))?.id, 54n);
    });

    /** Until so many transactions wait for another one; on SQLite they wait for their turn to begin. */
    const untilWaiting = async (many: number, signal: AbortSignal): Promise<void> => {
      const pause = growingPauses();
      for (let waiting = 0; database.kind === 'postgres' && waiting < many && !signal.aborted; await pause()) {
        const { rows } = await sql<{ n: bigint }>`
          select count(*) as n from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
        `.execute(db.read);
        waiting = Number(rows[0]?.n);
      }
    };

    test('however long costs whoever claims no more than one that is empty', async () => {
      const account = 5000n;
      const inLane = async (from: number, many: number): Promise<void> => {
        const jobs = Array.from({ length: many }, (_, at) => BigInt(from + at));
        const next = jobs.values();
        const rows = jobs.map((id) => ({ kind: 'long', subjectId: id, accountId: account, lane: 'a long lane' }));
        await db.transaction((trx) => enqueue(db, trx, { next: () => next.next().value ?? 0n }, ...rows));
      };
      await inLane(5000, 3);
      const first = await take('long');
      assert.equal(first?.id, 5000n);
      const [short, none] = await counting('long');
      assert.equal(none, undefined);
      const free = async (id: bigint): Promise<number> => {
        const job = { kind: 'long', subjectId: id, accountId: account };
        await db.transaction((trx) => enqueue(db, trx, { next: () => id }, job));
        const [rows, found] = await counting('long');
        assert.equal(found?.id, id, 'what is not in the lane is found at once');
        return rows;
      };
      const before = await free(5900n);
      await inLane(6000, 600);
      const [long] = await counting('long');
      assert.ok(long - short < 20, `${long} rows instead of ${short}`);
      const past = await free(9000n);
      assert.ok(past - before < 100, `${past} rows instead of ${before}`);
      await finish(first);
      assert.equal((await take('long'))?.id, 5001n);
    });

    /** What was claimed, and how many rows of the queue were looked at for it; where the database does not say, none. */
    const counting = async (kind: string): Promise<[number, ClaimedJob | undefined]> =>
      db.transaction(async (trx) => {
        const count = async (): Promise<number> => {
          if (database.kind === 'sqlite') return 0;
          const { rows } = await sql<{ rows: bigint }>`
            select idx_tup_fetch + seq_tup_read as rows from pg_stat_xact_user_tables where relname = 'jobs'
          `.execute(trx);
          return Number(rows[0]?.rows);
        };
        const before = await count();
        const taken = await claim(db, trx, { holder: 'h', location: 'here', kinds: [kind], seconds: 60, turn: 1n });
        assert.notEqual(taken, 'overtaken');
        return [(await count()) - before, taken === 'overtaken' ? undefined : taken];
      });
  });
});
