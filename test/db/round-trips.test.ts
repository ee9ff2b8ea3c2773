import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { sql } from 'kysely';
import { migrate } from '../../src/db/migrate.ts';
import type { Database } from '../../src/db/open.ts';
import { prepared, preparedInsert, preparedLast } from '../../src/db/prepared.ts';
import { onEveryDatabase } from '../support/databases.ts';
import { tapWire, type Wire } from '../support/postgres-wire.ts';
import { Service } from '../support/service.ts';

const insert = preparedInsert('applied_migrations');
const insertOrExplain = preparedInsert('applied_migrations', () => new Error('it is there already'));
const insertNode = preparedInsert('id_nodes');
const namesLike = prepared<{ like: string }, { name: string }>((db, value) =>
  db.selectFrom('applied_migrations').select('name').where('name', 'like', value('like')).orderBy('name'),
);

const addLast = preparedLast<{ name: string }, { name: string }>((db, value) =>
  db
    .insertInto('applied_migrations')
    .values({ name: value('name'), applied_at: sql.lit(1n) })
    .onConflict((conflict) => conflict.column('name').doNothing())
    .returning('name'),
);

const row = (name: string) => ({ name, applied_at: 1n });

describe('changes that nobody asks about', () => {
  onEveryDatabase((database) => {
    let db: Database;
    before(async () => {
      db = await database.open();
    });
    const names = async (prefix: string): Promise<string[]> =>
      (await namesLike(db.read, { like: `${prefix}%` })).map(({ name }) => name);

    test('are committed with the last question, and its answer', async () => {
      await db.transaction(async (trx) => {
        await insert(trx, row('last-1'));
        assert.deepEqual(
          (await addLast(trx, { name: 'last-2' })).map(({ name }) => name),
          ['last-2'],
        );
      });
      await db.transaction(async (trx) => {
        assert.equal((await namesLike(trx, { like: 'last-%' })).length, 2);
        assert.deepEqual(await addLast(trx, { name: 'last-2' }), []);
      });
      assert.deepEqual(await names('last-'), ['last-1', 'last-2']);
    });

    test('are seen by what the same transaction asks afterwards', async () => {
      await db.transaction(async (trx) => {
        await insert(trx, row('seen-1'));
        assert.equal((await namesLike(trx, { like: 'seen-%' })).length, 1);
        await insert(trx, row('seen-2'));
      });
      assert.deepEqual(await names('seen-'), ['seen-1', 'seen-2']);
    });

    test('are all undone where one of them fails, which is told in the words of whoever asked for it', async () => {
      await db.transaction((trx) => insert(trx, row('twin')));
      const failing = db.transaction(async (trx) => {
        await insert(trx, row('undone-1'));
        await insertOrExplain(trx, row('twin'));
        // Never gets as far as PostgreSQL: what it would have prepared is not there for those who come next.
        await insertNode(trx, { node: 3, holder: 'x', leased_until: 1n, used_until: 1n });
      });
      await assert.rejects(failing, /it is there already/);
      assert.deepEqual(await names('undone-'), []);
      await db.transaction((trx) => insertNode(trx, { node: 3, holder: 'x', leased_until: 1n, used_until: 1n }));
    });

    test('fail in one transaction and not in those beside it', async () => {
      await db.transaction((trx) => insert(trx, row('again')));
      const numbers = Array.from({ length: 60 }, (_, number) => number);
      const name = (number: number): string => `beside-${String(number).padStart(2, '0')}`;
      const isFailing = (number: number): boolean => number % 5 === 2;
      const outcomes = await Promise.allSettled(
        numbers.map((number) =>
          db.transaction(async (trx) => {
            await insert(trx, row(name(number)));
            if (isFailing(number)) await insert(trx, row('again'));
          }),
        ),
      );
      assert.deepEqual(
        outcomes.flatMap(({ status }, number) => (status === 'rejected' ? [number] : [])),
        numbers.filter(isFailing),
      );
      assert.deepEqual(await names('beside-'), numbers.filter((number) => !isFailing(number)).map(name));
    });

    test('may be many', async () => {
      const all = Array.from({ length: 150 }, (_, number) => `many-${String(number).padStart(3, '0')}`);
      await db.transaction(async (trx) => {
        for (const name of all) await insert(trx, row(name));
      });
      assert.deepEqual(await names('many-'), all);
    });

    if (database.kind === 'postgres') {
      test('end a transaction that goes on in spite of their failure', async () => {
        await db.transaction((trx) => insert(trx, row('spite')));
        const going = db.transaction(async (trx) => {
          await insert(trx, row('spite'));
          await namesLike(trx, { like: 'spite' }).catch(() => {});
        });
        await assert.rejects(going, { code: '23505' });
      });

      test('are sent together, with the next question or with the commit', async () => {
        const url = await database.emptyUrl();
        await migrate(await database.openEmpty(url));
        const wire = await tapped(url);
        const tappedDb = await database.openEmpty(wire.url);
        const flights = async (work: Parameters<Database['transaction']>[0]): Promise<string[]> => {
          wire.flights.length = 0;
          await tappedDb.transaction(work);
          return wire.flights.filter((flight) => flight.length > 0).map((flight) => flight.map(firstWord).join(' '));
        };
        await flights((trx) => namesLike(trx, { like: 'x' })); // now there is a connection
        const alone = await flights(async (trx) => {
          await insert(trx, row('sent-1'));
          await insert(trx, row('sent-2'));
        });
        assert.deepEqual(alone, ['insert insert']);
        const asking = await flights(async (trx) => {
          await insert(trx, row('sent-3'));
          await namesLike(trx, { like: 'sent-%' });
          await insert(trx, row('sent-4'));
        });
        assert.deepEqual(asking, ['begin insert select', 'insert commit']);
        assert.deepEqual(await flights(async () => {}), []);
      });

      test('make a request of the API that creates something three round trips, once the caller is known', async () => {
        const wire = await tapped(await database.emptyUrl());
        const service = new Service(database, { settings: { database_url: wire.url } });
        await service.start();
        const alice = await service.user();
        const project = await alice.createProject();
        await alice.createSuite(project);
        wire.flights.length = 0;
        await alice.createSuite(project);
        // The server does other things beside it: those that concern the request are told by their tables.
        const flights = wire.flights.filter((flight) => flight.some((text) => /"suites"|"audit_entries"/.test(text)));
        // Between the record and its entry in the audit log, its neighbours are counted.
        assert.deepEqual(
          flights.map((flight) => flight.flatMap((text) => /^\w+ \w+ "\w+"/.exec(text)?.[0] ?? [])),
          [['insert into "suites"'], [], ['insert into "audit_entries"']],
        );
      });
    }

    const tapped = async (url: string): Promise<Wire> => {
      const wire = await tapWire(url);
      database.afterwards(() => wire.close());
      return wire;
    };
  });
});

function firstWord(text: string): string {
  return /^\w+/.exec(text)?.[0] ?? text;
}
