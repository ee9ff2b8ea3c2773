import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { cancelWaitingBuilds } from '../../../src/server/lifecycle/deleted-suites.ts';
import { blocksOf } from '../../support/blocks.ts';
import type { Record_ } from '../../support/client.ts';
import { addBuild, addCommit } from '../../support/rows.ts';
import { describeService } from '../../support/service.ts';

/** What it costs is counted on PostgreSQL, which knows two ways to rows in an order. SQLite does not count. */
describeService('the deletion of a suite', (service, database) => {
  test('looks at what waits for it, however much was built', async () => {
    const alice = await service.user();
    const project = await alice.createProject();
    const { db, ids, observers } = service.store;
    const commit = await addCommit(service.store, project);
    const parts = { commit, buildRequest: await alice.requestBuild(project) };
    const build = async (state: string): Promise<Record_> => {
      const suite = await alice.createSuite(project);
      await addBuild(service.store, project, { ...parts, suite }, { build_state: state });
      return suite;
    };
    const cost = async ({ id }: Record_): Promise<number> =>
      db.transaction(async (trx) => {
        if (db.kind === 'postgres') await sql`analyze builds`.execute(trx);
        const before = database.kind === 'postgres' ? await blocksOf(trx, 'builds') : 0;
        await cancelWaitingBuilds({ db, trx, ids, observers }, project.id, [id]);
        return (database.kind === 'postgres' ? await blocksOf(trx, 'builds') : 0) - before;
      });
    await build('passed');
    const few = await cost(await build('enqueued'));
    await db.transaction((trx) =>
      sql`
        with recursive counted (number) as (
          select 2 union all select number + 1 from counted where number < 5000
        )
        insert into builds (id, project_id, build_request_id, commit_id, suite_id, suite_name, variant, build_state, attempt,
          failure_reason, created_at, finished_at)
        select number, project_id, build_request_id, commit_id, suite_id, suite_name, variant, 'passed', number, '', 1, 1
        from builds cross join counted where build_state = 'passed'`.execute(trx),
    );
    const doomed = await build('enqueued');
    const many = await cost(doomed);
    assert.ok(many <= few + 60, `${many} blocks instead of ${few}`);
    const builds = db.read.selectFrom('builds').select('build_state').where('suite_id', '=', doomed.id);
    assert.equal((await builds.executeTakeFirstOrThrow()).build_state, 'cancelled');
  });
});
