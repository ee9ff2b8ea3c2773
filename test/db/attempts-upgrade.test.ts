import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { migrate, migrateWithin } from '../../src/db/migrate.ts';
import type { Transaction } from '../../src/db/open.ts';
import { onEveryDatabase } from '../support/databases.ts';

describe('an upgrade', () => {
  onEveryDatabase((database) => {
    test('leaves suites and builds as they were: without limits, retries and variants', async () => {
      const db = await database.openEmpty();
      const texts = (...names: string[]) => Object.fromEntries(names.map((name) => [name, '']));
      const put = (trx: Transaction, table: Parameters<Transaction['insertInto']>[0], row: Record<string, unknown>) =>
        trx.insertInto(table).values(row).execute();
      const build = { project_id: 1n, build_request_id: 1n, commit_id: 1n, suite_id: 1n, created_at: 0n };
      await db.transaction(async (trx) => {
        await migrateWithin(trx, database.kind, (name) => name < '0027');
        const user = { id: 1n, email: 'a@example.org', kind: 'user', billing: 'ok', suspended: 0, created_at: 0n };
        await put(trx, 'users', user);
        const keys = texts('ssh_public_key', 'ssh_private_key');
        const project = { ...texts('name', 'description', 'repository_url', 'build_state'), ...keys };
        await put(trx, 'projects', { id: 1n, owner_id: 1n, created_at: 0n, ...project });
        await put(trx, 'suites', { id: 1n, project_id: 1n, ...texts('name', 'description', 'command') });
        const author = texts('scm_author_name', 'scm_author_email', 'scm_authored_date');
        const committer = texts('scm_committer_name', 'scm_committer_email', 'scm_committed_date');
        const lists = { branches: '[]', tags: '[]', files: '[]' };
        const commit = { id: 1n, project_id: 1n, ref: 'f', version: 1, ...texts('build_state', 'message', 'branch') };
        await put(trx, 'commits', { ...commit, ...author, ...committer, ...lists });
        const request = { id: 1n, project_id: 1n, commit_id: 1n, created_by: 1n, created_at: 0n, fetch: 'done' };
        await put(trx, 'build_requests', { ...request, ...texts('commit_ref', 'build_state', 'branch') });
        await put(trx, 'builds', { id: 1n, ...build, build_state: 'passed', attempt: 1, failure_reason: '' });
      });
      await migrate(db);
      const suite = await db.read.selectFrom('suites').selectAll().executeTakeFirstOrThrow();
      assert.deepEqual([suite.timeout, suite.allow_failure, suite.retries, suite.matrix], [0, 0, 0, '[]']);
      const old = await db.read.selectFrom('builds').selectAll().executeTakeFirstOrThrow();
      const { variant, allow_failure: mayFail, retry, retries_left: left, series } = old;
      assert.deepEqual([variant, mayFail, retry, left, series], ['', 0, 0, 0, 0n]);
      const request = await db.read.selectFrom('build_requests').select('suites').executeTakeFirstOrThrow();
      assert.equal(request.suites, '[]');
      // A program of before goes on for a moment while others are replaced: what it writes fits.
      const next = { ...build, build_state: 'enqueued', failure_reason: '' };
      await db.transaction((trx) => put(trx, 'builds', { id: 2n, ...next, attempt: 2 }));
      await db.transaction((trx) => put(trx, 'builds', { id: 3n, ...next, attempt: 2, variant: 'A=1' }));
      await assert.rejects(db.transaction((trx) => put(trx, 'builds', { id: 4n, ...next, attempt: 2 })));
    });
  });
});
