import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { sql } from 'kysely';
import type { Queries, Transaction } from '../../../src/server/db/open.ts';
import type { UserRow } from '../../../src/server/db/schema.ts';
import { timestamp } from '../../../src/shared/lib/timestamps.ts';
import { dashboardOf } from '../../../src/server/resources/dashboard.ts';
import { buildsOfCommits, overviewOf } from '../../../src/server/resources/overview.ts';
import { search } from '../../../src/server/resources/search.ts';
import { describeService } from '../../support/service.ts';

/*
 * What a page costs is counted in rows that PostgreSQL had to look at, which is the same on every machine. SQLite does
 * not count; the same is asked there.
 */
describeService('a page of a project with a long history', (service, database) => {
  const commits = 12_000;
  let projectId: bigint;
  let person: UserRow;
  before(async () => {
    const alice = await service.user();
    projectId = (await alice.createProject()).id;
    const { db } = service.store;
    person = await db.read.selectFrom('users').selectAll().where('email', '=', alice.email).executeTakeFirstOrThrow();
    await db.transaction(async (trx) => {
      await fill(trx, projectId, person.id, commits);
      await trx.updateTable('projects').set({ default_branch: 'main' }).where('id', '=', projectId).execute();
    });
    if (database.kind === 'postgres') await db.transaction((trx) => sql`analyze`.execute(trx));
  });
  /** How many rows the work looks at. */
  const cost = async (work: (queries: Queries) => Promise<unknown>): Promise<number> =>
    service.store.db.transaction(async (trx) => {
      const before = await looks(trx, database.kind);
      await work(trx);
      return (await looks(trx, database.kind)) - before;
    });

  test('reads no more of it than it shows', async () => {
    const byName = { filter: '', sort: 'name' } as const;
    const caller = { id: person.id, unpaid: false, scopes: 'all', projects: 'all' } as const;
    const newest = [BigInt(commits), BigInt(commits - 1)];
    const found = await buildsOfCommits(service.store.db.read, newest);
    assert.deepEqual(new Set(found.map(({ id }) => id)), new Set(newest));
    const database = service.store.db;
    const [row] = (await dashboardOf({ database, db: database.read }, caller, byName)).projects;
    assert.deepEqual([row?.newest_commit?.id, row?.started_at], [newest[0], timestamp(1n)]);
    assert.deepEqual([row?.state_commit?.id, row?.state_commit?.branch], [newest[0], 'main']);
    const bar = { id: newest[0], id_str: String(newest[0]), build_state: 'passed', duration_ms: 1 };
    assert.deepEqual([row?.last_builds.length, row?.last_builds.at(-1)], [20, bar]);
    const costs = [
      await cost((queries) => buildsOfCommits(queries, newest)),
      await cost((queries) => dashboardOf({ database, db: queries }, caller, byName)),
      await cost((queries) => overviewOf(queries, projectId)),
    ];
    assert.ok(Math.max(...costs) < 200, `${costs.join(', ')} rows`);
    const {
      last_requests: last,
      under_way: running,
      without_commit: waiting,
    } = await overviewOf(service.store.db.read, projectId);
    const newestRequest = { id: newest[0], id_str: String(newest[0]), build_state: 'passed', duration_ms: 1 };
    assert.deepEqual([last.length, last.at(-1), running, waiting], [30, newestRequest, [], []]);
  });

  test('looks for the last builds of its default branch in an index', async () => {
    const { db } = service.store;
    const setBranch = (branch: string): Promise<unknown> =>
      db.transaction((trx) =>
        trx.updateTable('projects').set({ default_branch: branch }).where('id', '=', projectId).execute(),
      );
    await setBranch('seldom');
    const rows = await cost((queries) => overviewOf(queries, projectId));
    assert.deepEqual((await overviewOf(db.read, projectId)).last_requests, []);
    await setBranch('main');
    assert.ok(rows < 200, `${rows} rows`);
  });

  test('finds none of its oldest commits by what they say, for no more than its newest cost', async () => {
    const caller = { id: person.id, unpaid: false, scopes: 'all', projects: 'all' } as const;
    const names = async (typed: string): Promise<unknown[]> => {
      const found = await search(service.store.db.read, caller, typed);
      return found.map((one) => Reflect.get(one, 'name'));
    };
    assert.deepEqual(await names(`number ${commits}!`), [`number ${commits}!`]);
    assert.deepEqual(await names('number 7!'), []);
    assert.deepEqual(await names('7abc'), ['number 7!'], 'all are found by their SHA');
    const rows = await cost((queries) => search(queries, caller, 'nothing of the kind'));
    assert.ok(rows <= 5000, `${rows} rows`);
    const exact = await cost((queries) => search(queries, caller, '7abc'));
    assert.ok(exact <= 5010, `${exact} rows`);
  });
});

/** One build of each commit; all numbers are the commit's. */
async function fill(trx: Transaction, project: bigint, owner: bigint, many: number): Promise<void> {
  const numbers = sql`(
    with recursive counted (number) as (
      select 1 union all select number + 1 from counted where number < ${sql.lit(many)}
    ) select number from counted
  ) as counted`;
  await sql`
    insert into commits (id, project_id, ref, version, build_state, message, scm_author_name, scm_author_email,
      scm_authored_date, scm_committer_name, scm_committer_email, scm_committed_date, branches, tags, files, branch)
    select number, ${project}, number || 'abc', 1, 'passed', 'number ' || number || '!', '', '', '', '', '', '', '[]', '[]', '[]', 'main'
    from ${numbers}`.execute(trx);
  await sql`
    insert into build_requests (id, project_id, commit_ref, commit_id, build_state, created_by, created_at, "fetch", branch,
      started_at, finished_at)
    select number, ${project}, 'main', number, 'passed', ${owner}, 1, 'done', 'main', 1, 2 from ${numbers}`.execute(
    trx,
  );
  await sql`
    insert into builds (id, project_id, build_request_id, commit_id, suite_id, suite_name, build_state, attempt, exit_status,
      failure_reason, created_at, started_at, finished_at)
    select number, ${project}, number, number, 1, 'x', 'passed', 1, 0, '', 1, 1, 2 from ${numbers}`.execute(trx);
}

async function looks(trx: Transaction, kind: 'sqlite' | 'postgres'): Promise<number> {
  if (kind === 'sqlite') return 0;
  const { rows } = await sql<{ looks: bigint }>`
    select sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::bigint as looks
    from pg_stat_xact_user_tables where relname in ('commits', 'build_requests', 'builds')
  `.execute(trx);
  return Number(rows[0]?.looks ?? 0n);
}
