import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import type { Transaction } from '../../../src/server/db/open.ts';
import { rollUpCommits } from '../../../src/server/lifecycle/apply-rollup.ts';
import { blocksOf } from '../../support/blocks.ts';
import { addBuild, addCommit } from '../../support/rows.ts';
import { describeService } from '../../support/service.ts';

/*
 * What a roll-up costs is counted in blocks that PostgreSQL looked at, which is the same on every machine. SQLite does
 * not count; there the time is compared with that of a commit that was built once. Without the index it is a hundred
 * times as long.
 */
describeService('the roll-up of a commit that was built thousands of times', (service, database) => {
  test('looks at the newest attempts alone', async () => {
    const alice = await service.user();
    const project = await alice.createProject();
    const [plain, wide] = [await alice.createSuite(project), await alice.createSuite(project)];
    const commit = await addCommit(service.store, project, { build_state: 'failed' });
    const parts = { commit, buildRequest: await alice.requestBuild(project) };
    const tried = [
      { suite: plain, variant: '' },
      { suite: wide, variant: 'A=1' },
      { suite: wide, variant: 'A=2' },
    ];
    for (const { suite, variant } of tried)
      await addBuild(service.store, project, { ...parts, suite }, { variant, build_state: 'failed' });
    const { db, ids, observers } = service.store;
    const rollUp = (): Promise<number> =>
      db.transaction(async (trx) => {
        // As it is where there are too many builds to read them all.
        if (database.kind === 'postgres') await sql`set local enable_seqscan = off`.execute(trx);
        const start = database.kind === 'postgres' ? await blocksOf(trx, 'builds') : performance.now();
        await rollUpCommits(
          { db, trx, ids, observers },
          {
            commits: [commit.id],
            begun: new Set(),
            requests: [],
            groups: [],
          },
        );
        return (database.kind === 'postgres' ? await blocksOf(trx, 'builds') : performance.now()) - start;
      });
    const cost = async (): Promise<number> => {
      const costs: number[] = [];
      for (let time = 0; time < 21; time += 1) costs.push(await rollUp());
      return costs.toSorted((one, other) => one - other)[10] ?? 0;
    };
    const once = await cost();
    await db.transaction((trx) => buildAgain(trx, commit.id, 3000));
    if (database.kind === 'postgres') await db.transaction((trx) => sql`analyze builds`.execute(trx));
    const later = await cost();
    const { build_state: state } = (await alice.get(`/projects/${project.id}/commits/${commit.id}`)).record;
    assert.equal(state, 'passed');
    assert.ok(later <= (database.kind === 'postgres' ? once + 60 : once * 20), `${later} instead of ${once}`);
  });
});

/** Adds attempts that passed to every build of a commit. */
async function buildAgain(trx: Transaction, commit: bigint, many: number): Promise<void> {
  await sql`
    with recursive counted (number) as (
      select 2 union all select number + 1 from counted where number < ${sql.lit(many)}
    )
    insert into builds (id, project_id, build_request_id, commit_id, suite_id, suite_name, variant, build_state, attempt,
      failure_reason, created_at)
    select row_number() over (), project_id, build_request_id, commit_id, suite_id, suite_name, variant, 'passed', number, '', 1
    from builds cross join counted where commit_id = ${commit}`.execute(trx);
}
