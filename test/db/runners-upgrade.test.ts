import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { sql } from 'kysely';
import { allRunners, authenticateRunner } from '../../src/auth/runners.ts';
import { migrate, migrateWithin } from '../../src/db/migrate.ts';
import { hashSecret, randomSecret } from '../../src/lib/passwords.ts';
import { heldBy } from '../../src/queue/queue.ts';
import { onEveryDatabase } from '../support/databases.ts';

describe('an upgrade', () => {
  onEveryDatabase((database) => {
    test('leaves runners their tokens and what they work on', async () => {
      const db = await database.openEmpty();
      const token = randomSecret('hrr');
      await db.transaction(async (trx) => {
        await migrateWithin(trx, database.kind, (name) => name < '0008');
        const runner = { id: 5n, name: 'far', token_hash: hashSecret(token), created_at: 0n };
        await trx
          .insertInto('runners')
          .values(runner as never) // as it was then
          .execute();
        const job = { kind: 'run_suite', subject_id: 1n, account_id: 1n, tries: 1, run_after: 0n, cancelled: 0 };
        const held = [
          { id: 1n, ...job, claim: 'mine', holder: 'runner far', claimed_until: 9n },
          { id: 2n, ...job, claim: 'local', holder: 'local here', claimed_until: 9n },
        ];
        await trx
          .insertInto('jobs')
          .values(held as never) // as they were then
          .execute();
      });
      await db.transaction(async (trx) => {
        await migrateWithin(trx, database.kind, (name) => name < '0011');
        await sql`update runners set last_seen_at = 77`.execute(trx);
      });
      await migrate(db);
      const { holder, boundAs } = await authenticateRunner(db, { authorization: `Bearer ${token}` });
      assert.deepEqual(
        (await heldBy(db, holder)).map(({ claim }) => claim),
        ['mine'],
      );
      assert.equal(boundAs, undefined);
      assert.equal((await heldBy(db, 'local here')).length, 1);
      const [runner] = await allRunners(db.read);
      assert.deepEqual([runner?.name, runner?.accounts, runner?.revoked_at], ['far', [], null]);
      assert.equal(runner?.last_seen_at, 77n);
    });
  });
});
