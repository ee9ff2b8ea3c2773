import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { sql } from 'kysely';
import { Client } from 'pg';
import { createSubscriptions } from '../../../src/server/db/subscriptions.ts';
import { migrate } from '../../../src/server/db/migrate.ts';
import { openDatabase, type Database } from '../../../src/server/db/open.ts';
import { isUnavailable } from '../../../src/server/db/unavailable.ts';
import { lockUpkeep, type UpkeepLock } from '../../../src/server/db/upkeep-lock.ts';
import { lacks } from '../../support/machine.ts';
import { hasty, startPostgres, type Postgres } from '../../support/postgres.ts';

/** Connections to PostgreSQL that break, one or all. */
describe('a connection to PostgreSQL that breaks', { skip: lacks('postgres') }, () => {
  let postgres: Postgres;
  let url: string;
  let db: Database;
  /** One that gives up soon, for what never succeeds. */
  let impatient: Database;
  let admin: Client;
  const lost: Error[] = [];
  const connect = async (): Promise<void> => {
    admin = new Client(url);
    admin.on('error', () => {});
    await admin.connect();
  };
  before(async () => {
    postgres = await startPostgres(hasty);
    url = await postgres.emptyUrl();
    db = await openDatabase({ url });
    await migrate(db);
    impatient = await openDatabase({ url, waitLimitMs: 2000, onLost: (error) => lost.push(error) });
    await connect();
  });
  after(async () => {
    await admin.end();
    await db.close();
    await impatient.close();
    await postgres.close();
  });

  const add = (queries: Pick<Database['read'], 'insertInto'>, name: string) =>
    queries.insertInto('applied_migrations').values({ name, applied_at: 1n }).execute();
  const names = async (prefix: string, from = db): Promise<string[]> => {
    const rows = from.read.selectFrom('applied_migrations').select('name').where('name', 'like', `${prefix}%`);
    return (await rows.orderBy('name').execute()).map(({ name }) => name);
  };
  const ownProcess = async (queries: Database['read']): Promise<number> => {
    const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(queries);
    return rows[0]?.pid ?? 0;
  };
  /** Ends a connection, and comes back when its process is gone. */
  const end = async (pid: number): Promise<void> => {
    await admin.query('select pg_terminate_backend($1, 10000)', [pid]);
  };

  test('while nobody uses it is replaced without a word', async () => {
    const pid = await ownProcess(db.read);
    await end(pid);
    assert.notEqual(await ownProcess(db.read), pid);
  });

  test('in the middle of a transaction has the transaction done once more, and once in all', async () => {
    let tries = 0;
    const answer = await db.transaction(async (trx) => {
      tries += 1;
      await add(trx, `middle-${tries}`);
      // Nothing is being asked at the moment it breaks: there is nobody to be told but the connection itself.
      if (tries === 1) await end(await ownProcess(trx));
      await add(trx, 'middle-end');
      return tries;
    });
    assert.equal(answer, 2);
    assert.deepEqual(await names('middle'), ['middle-2', 'middle-end']);
  });

  test('together with all others has every query done, on new ones', async () => {
    const [most, key] = [16, 4711];
    await admin.query('select pg_advisory_lock($1)', [key]);
    const wait = () => sql`select pg_advisory_xact_lock_shared(${key}::bigint)`.execute(db.read);
    const reads = Array.from({ length: most }, wait);
    const waiting = `select pid from pg_locks where locktype = 'advisory' and not granted and objid = ${key}`;
    let pids: number[] = [];
    while (pids.length < most) {
      await pause(10);
      pids = (await admin.query<{ pid: number }>(waiting)).rows.map(({ pid }) => pid);
    }
    await admin.query('select pg_terminate_backend(pid, 10000) from unnest($1::int[]) as pid', [pids]);
    await admin.query('select pg_advisory_unlock($1)', [key]);
    await Promise.all(reads);
  });

  test('and is waited for, because all are in use, is not waited for without end', async () => {
    const done = Promise.withResolvers<void>();
    const holding = Array.from({ length: 16 }, () => Promise.withResolvers<void>());
    const transactions = holding.map(({ resolve }) =>
      impatient.transaction(async (trx) => {
        await ownProcess(trx);
        resolve();
        await done.promise;
      }),
    );
    await Promise.all(holding.map(({ promise }) => promise));
    const late = (error: Error): boolean => isUnavailable(error) && /in use/.test(error.message);
    await Promise.all([
      assert.rejects(ownProcess(impatient.read), late),
      assert.rejects(impatient.transaction(ownProcess), late),
    ]);
    assert.match(lost.at(-1)?.message ?? '', /in use/, 'the operator is told');
    assert.ok(!impatient.isAway(), 'and high load is no outage');
    done.resolve();
    await Promise.all(transactions);
    assert.ok((await ownProcess(impatient.read)) > 0);
  });

  test('in the middle of the commit is told, because nobody knows what became of it', async () => {
    await sql`create function end_it() returns trigger language plpgsql as
      'begin perform pg_terminate_backend(pg_backend_pid()); return null; end'`.execute(db.read);
    await sql`create constraint trigger end_it after insert on applied_migrations deferrable initially deferred
      for each row when (new.name like 'commit%') execute function end_it()`.execute(db.read);
    let tries = 0;
    const adding = db.transaction(async (trx) => {
      tries += 1;
      await add(trx, 'commit');
    });
    await assert.rejects(adding, (error) => isUnavailable(error) && error.mayBeDone);
    assert.equal(tries, 1);
  });

  test('hides no other error, and no object of the driver leaves with one', async () => {
    const refusal = new Error('something is wrong with it');
    const refusing = db.transaction(async (trx) => {
      await end(await ownProcess(trx));
      throw refusal;
    });
    await assert.rejects(refusing, refusal);
    await add(db.read, 'twin');
    await assert.rejects(add(db.read, 'twin'), (error: Error) => {
      assert.deepEqual(Object.keys(error).toSorted(), ['code', 'name']);
      return true;
    });
  });

  test('that listens is replaced, and all waiting subscribers query once more', async () => {
    const subscriptions = createSubscriptions(db);
    using watch = subscriptions.watch('something');
    const patienceMs = 60_000;
    await watch.changed(patienceMs); // it listens from now on
    const listening = `select pid from pg_stat_activity where query = 'listen headrace' and datname = current_database()`;
    const [first] = (await admin.query<{ pid: number }>(listening)).rows;
    await end(first?.pid ?? 0);
    const since = performance.now();
    await watch.changed(patienceMs);
    assert.ok(performance.now() - since < 0.9 * patienceMs, 'it was told that something may have been missed');
    const changed = watch.changed(patienceMs);
    await db.transaction((trx) => db.announce(trx, 'something'));
    await changed;
    assert.ok(performance.now() - since < 0.9 * patienceMs, 'and hears again');
    subscriptions.close();
  });

  test('takes the lock on upkeep with it', async () => {
    const lock = await lockUpkeep(url);
    lock.check();
    const held = `select pid from pg_locks where locktype = 'advisory'`;
    const [holder] = (await admin.query<{ pid: number }>(held)).rows;
    await end(holder?.pid ?? 0);
    while (isHeld(lock)) await pause(10);
    await lock.release();
    await (await lockUpkeep(url)).release();
  });

  test('a transaction that always loses is told to come back', async () => {
    let tries = 0;
    const losing = impatient.transaction(async (trx) => {
      tries += 1;
      await sql`do 'begin raise exception using errcode = ''40P01'', message = ''deadlock detected''; end'`.execute(
        trx,
      );
    });
    await assert.rejects(losing, (error) => isUnavailable(error) && !error.mayBeDone);
    assert.ok(tries > 5);
    assert.match(lost.at(-1)?.message ?? '', /deadlock detected/);
  });

  test('while the database is away, some wait for it and nobody for ever', async () => {
    const before = lost.length;
    await admin.end();
    await postgres.stop('SIGINT');
    await assert.rejects(names('x', impatient), isUnavailable);
    await assert.rejects(
      impatient.transaction((trx) => add(trx, 'away')),
      isUnavailable,
    );
    assert.ok(impatient.isAway());
    assert.equal(lost.length, before + 1, 'that it is away is told once');
    const patient = await openDatabase({ url, waitLimitMs: 60_000 });
    const reading = patient.read.selectFrom('applied_migrations').select('name').where('name', '=', 'twin').execute();
    const writing = patient.transaction((trx) => add(trx, 'waited'));
    await postgres.start();
    assert.equal((await reading).length, 1);
    await writing;
    await patient.close();
    while (impatient.isAway()) await pause(10);
    assert.deepEqual(await names('waited', impatient), ['waited']);
    await connect();
  });
});

function isHeld(lock: UpkeepLock): boolean {
  try {
    lock.check();
    return true;
  } catch {
    return false;
  }
}
