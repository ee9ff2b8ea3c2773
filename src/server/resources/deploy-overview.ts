import { sql } from 'kysely';
import { onPage } from '../api/pages.ts';
import { projectRoute } from '../api/route.ts';
import { hasScope, type Caller } from '../auth/callers.ts';
import type { Queries } from '../db/open.ts';
import { pageOf, type Page } from '../http/paging.ts';
import { timeOfId } from '../../shared/lib/ids.ts';
import { timestamp, timestampOrNull } from '../../shared/lib/timestamps.ts';
import { deployLineRecord, deployOverviewRecord } from '../../shared/records/deploy.ts';
import { listOf } from '../../shared/records/schema.ts';
import { startOfMessage, withIdString } from './common.ts';
import { strategiesOf, strategyView } from './deploy-strategies.ts';

const lastDeploys = 10;
const commitsOffered = 30;

type Reading = { db: Queries; caller: Pick<Caller, 'scopes'> };

function deploysOf(db: Queries) {
  return db
    .selectFrom('deploys')
    .innerJoin('users', 'users.id', 'deploys.created_by')
    .leftJoin('deploy_strategies', 'deploy_strategies.id', 'deploys.deploy_strategy_id')
    .select(['deploys.id', 'deploys.state', 'deploys.commit_id', 'deploys.started_at', 'deploys.finished_at'])
    .select(['users.email', 'deploys.deploy_strategy_id', 'deploy_strategies.name as strategy']);
}
type Row = Awaited<ReturnType<ReturnType<typeof deploysOf>['execute']>>[number];

async function linesOf({ db, caller }: Reading, rows: readonly Row[]) {
  const commits = await commitsOf(db, caller, [...new Set(rows.map(({ commit_id: commit }) => commit))]);
  return rows.map((row) => ({
    ...withIdString('id', row.id),
    ...withIdString('deploy_strategy_id', row.deploy_strategy_id),
    strategy_name: row.strategy ?? '',
    state: row.state,
    created_by: row.email,
    created_at: timestamp(timeOfId(row.id)),
    deploy_started_at: timestampOrNull(row.started_at),
    deploy_finished_at: timestampOrNull(row.finished_at),
    commit: commits.get(row.commit_id) ?? null,
  }));
}

const commitColumns = ['id', 'ref', 'build_state', startOfMessage('message').as('message')] as const;

/** A token sees only data that its scopes also show elsewhere. */
async function commitsOf(db: Queries, caller: Pick<Caller, 'scopes'>, ids: readonly bigint[]) {
  if (ids.length === 0 || !hasScope(caller, 'commits')) return new Map<bigint, never>();
  const rows = await db.selectFrom('commits').select(commitColumns).where('id', 'in', ids).execute();
  return new Map(rows.map((row) => [row.id, { ...row, ...withIdString('id', row.id) }]));
}

/** A strategy's IDs are joined into one text, so that its other deploys are not read. */
const idsWhere = (condition: string, count: number) => sql<string | null>`(
  select string_agg(cast(d.id as text), ' ' order by d.id desc) from (
    select id from deploys where deploy_strategy_id = s.id ${sql.raw(condition)} order by id desc limit ${sql.lit(count)}
  ) as d
)`;

async function idsOf(db: Queries, projectId: bigint) {
  const rows = await db
    .selectFrom('deploy_strategies as s')
    .select('s.id')
    .select([
      idsWhere('', lastDeploys).as('last'),
      // The condition repeats the index's. A rollback needs the last two.
      idsWhere("and state = 'deployed'", 2).as('deployed'),
    ])
    .where('s.project_id', '=', projectId)
    .execute();
  return new Map(rows.map(({ id, last, deployed }) => [id, { last: numbers(last), deployed: numbers(deployed) }]));
}

const numbers = (text: string | null): bigint[] => (text === null ? [] : text.split(' ').map(BigInt));

async function suiteNames(db: Queries, strategies: readonly { suite_id: bigint | null }[]) {
  const ids = strategies.flatMap(({ suite_id: suite }) => (suite === null ? [] : [suite]));
  if (ids.length === 0) return new Map<bigint, string>();
  const rows = await db.selectFrom('suites').select(['id', 'name']).where('id', 'in', ids).execute();
  return new Map(rows.map(({ id, name }) => [id, name]));
}

async function overviewOf(call: Reading, projectId: bigint) {
  const { db, caller } = call;
  const strategies = await strategiesOf(db, projectId).orderBy('id').execute();
  const suites = await suiteNames(db, strategies);
  const ids = await idsOf(db, projectId);
  const all = [...new Set([...ids.values()].flatMap(({ last, deployed }) => [...last, ...deployed]))];
  const rows = all.length === 0 ? [] : await deploysOf(db).where('deploys.id', 'in', all).execute();
  const lines = new Map((await linesOf(call, rows)).map((line) => [line.id, line]));
  const linesFor = (some: readonly bigint[] = []) => some.flatMap((id) => lines.get(id) ?? []);
  const newest = db.selectFrom('commits').select('id').where('project_id', '=', projectId).orderBy('id', 'desc');
  const offered = await newest.limit(commitsOffered).execute();
  const commits = await commitsOf(
    db,
    caller,
    offered.map(({ id }) => id),
  );
  return {
    strategies: strategies.map((strategy) => {
      const [deployed, before] = linesFor(ids.get(strategy.id)?.deployed);
      return {
        ...strategyView(strategy),
        suite_name: suites.get(strategy.suite_id ?? 0n) ?? '',
        deployed: deployed ?? null,
        deployed_before: before ?? null,
        last_deploys: linesFor(ids.get(strategy.id)?.last),
      };
    }),
    commits: offered.flatMap(({ id }) => commits.get(id) ?? []),
  };
}

async function pageOfDeploys(call: Reading, projectId: bigint, page: Page) {
  const deploys = deploysOf(call.db).where('deploys.project_id', '=', projectId);
  const { items, ...shown } = pageOf(page, await onPage(deploys, 'deploys.id', page).execute());
  return { ...shown, items: await linesOf(call, items) };
}

export const routes = [
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/deploys/overview',
    access: 'viewer',
    scope: 'deploys',
    summary:
      'The deploy strategies of a project, each with its newest successful deploy, the one that a rollback would bring back, ' +
      'and its last deploys; and the newest commits. Commits are for a token with the scope commits',
    answer: deployOverviewRecord,
    handle: async (call) => overviewOf(call, call.project.id),
  }),
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/deploys/details',
    access: 'viewer',
    scope: 'deploys',
    summary: 'List the deploys of a project with strategy and commit (for a token with the scope commits)',
    paged: true,
    answer: listOf(deployLineRecord),
    handle: async (call) => pageOfDeploys(call, call.project.id, call.page),
  }),
];
