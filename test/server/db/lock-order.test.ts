import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import type { Database, Transaction } from '../../../src/server/db/open.ts';
import { onEveryDatabase, temporaryFolder } from '../../support/databases.ts';

type Table = 'hooks' | 'jobs' | 'projects';

onEveryDatabase((database) => {
  describe('a database whose locks are watched', () => {
    const report = join(temporaryFolder(), 'locks'); // not that of the run, which would fail
    let db: Database;
    before(async () => {
      const url = await database.migratedUrl();
      const { TEST_LOCK_ORDER: ofTheRun } = process.env;
      assert.notEqual(ofTheRun, undefined, 'locks are watched in every test');
      process.env.TEST_LOCK_ORDER = report;
      const opening = database.openEmpty(url); // it reads the variable at once
      process.env.TEST_LOCK_ORDER = ofTheRun;
      db = await opening;
    });

    const locked = (trx: Transaction, table: Table) => db.locked(trx.selectFrom(table).select('id'), table).execute();
    const removed = (trx: Transaction, table: Table) => trx.deleteFrom(table).execute();
    const skipped = (trx: Transaction, table: Table) =>
      db.skipLocked(trx.selectFrom(table).select('id'), table).execute();
    const wrong = /^Error: (hooks|jobs|right superseding) is locked after right recording, against the order/;

    for (const take of [locked, removed])
      test(`refuses what is ${take.name} after something later`, async () => {
        const inOrder = db.transaction(async (trx) => {
          await take(trx, 'hooks');
          await db.holdRight(trx, 'superseding', 1n);
          await take(trx, 'jobs');
          await db.holdRight(trx, 'recording', 1n);
          await take(trx, 'projects');
        });
        await inOrder;
        for (const table of ['hooks', 'jobs'] as const) {
          const turnedRound = db.transaction(async (trx) => {
            await db.holdRight(trx, 'recording', 1n);
            await take(trx, table);
          });
          await assert.rejects(turnedRound, wrong);
        }
      });

    test('refuses a right after something later', async () => {
      const turnedRound = db.transaction(async (trx) => {
        await db.holdRight(trx, 'recording', 1n);
        await db.holdRight(trx, 'superseding', 1n);
      });
      await assert.rejects(turnedRound, wrong);
    });

    test('tells of it, also where the error is caught', async () => {
      const before = readFileSync(report, 'utf8');
      await db.transaction(async (trx) => {
        await db.holdRight(trx, 'recording', 1n);
        await db.holdRight(trx, 'superseding', 1n).catch(() => {});
      });
      const told = readFileSync(report, 'utf8').slice(before.length);
      assert.match(told, wrong);
      assert.match(told, /lock-order\.test\.ts/);
    });

    test('lets pass what waits for nobody', async () => {
      await db.transaction(async (trx) => {
        await db.holdRight(trx, 'recording', 1n);
        await skipped(trx, 'jobs');
      });
    });
  });
});
