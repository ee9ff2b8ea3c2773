import { sql, type SqlBool } from 'kysely';
import type { Database, Queries } from '../db/open.ts';
import { whyWaiting } from '../auth/runner-heartbeats.ts';
import { buildRequestMachine, isFinal, type BuildRequestState } from '../lifecycle/states.ts';
import { timestamp } from '../../shared/lib/timestamps.ts';
import type { OwnRequest } from '../../shared/records/overview.ts';
import { startOfMessage, withIdString } from './common.ts';

/** What of each project needs a person. The number of queries does not depend on the number of projects. */

export interface Approvals {
  count: number;
  /** The oldest ones. */
  request: bigint | null;
  deploy: bigint | null;
}

/** The conditions repeat those of the indexes, so the databases use these. */
const isUnapproved = sql<SqlBool>`build_state = 'waiting_for_approval'`;
const isUnapprovedDeploy = sql<SqlBool>`state = 'waiting_for_approval'`;

export async function approvalsOf(db: Queries, projects: readonly bigint[]): Promise<ReadonlyMap<bigint, Approvals>> {
  if (projects.length === 0) return new Map();
  const requests = await db
    .selectFrom('build_requests')
    .select((of) => ['project_id', of.fn.min('id').as('first'), of.fn.countAll().as('count')])
    .where(isUnapproved)
    .where('project_id', 'in', projects)
    .groupBy('project_id')
    .execute();
  const builds = await db
    .selectFrom('builds')
    .select((of) => ['project_id', of.fn.min('build_request_id').as('first'), of.fn.countAll().as('count')])
    .where(isUnapproved)
    .where('project_id', 'in', projects)
    .groupBy('project_id')
    .execute();
  const deploys = await db
    .selectFrom('deploys')
    .select((of) => ['project_id', of.fn.min('id').as('first'), of.fn.countAll().as('count')])
    .where(isUnapprovedDeploy)
    .where('project_id', 'in', projects)
    .groupBy('project_id')
    .execute();
  const found = new Map<bigint, Approvals>();
  const add = (project: bigint, count: unknown, first: Partial<Approvals>): void => {
    const known = found.get(project) ?? { count: 0, request: null, deploy: null };
    found.set(project, { ...known, ...first, count: known.count + Number(count) });
  };
  for (const { project_id: project, first, count } of deploys) add(project, count, { deploy: first });
  for (const { project_id: project, first, count } of [...builds, ...requests]) add(project, count, { request: first });
  return found;
}

export interface Stuck {
  reason: string;
  /** The oldest request that waits. */
  request: bigint;
}

/** Other jobs of the same account then show nothing, but the page of their request does. */
const mostReasons = 20;

/** Projects whose jobs no runner can take. */
export async function stuckProjects(
  { database, db }: { database: Database; db: Queries },
  projects: readonly { id: bigint; owner_id: bigint }[],
): Promise<ReadonlyMap<bigint, Stuck>> {
  const found = new Map<bigint, Stuck>();
  const owners = [...new Set(projects.map(({ owner_id: owner }) => owner))];
  if (owners.length === 0) return found;
  const waiting = await db
    .selectFrom('jobs')
    .select(['account_id', 'tags'])
    .distinct()
    .where('claim', 'is', null)
    .where('kind', 'in', ['fetch_commit', 'run_suite', 'check_inputs'])
    .where('account_id', 'in', owners)
    .execute();
  const shown = new Set(projects.map(({ id }) => id));
  for (const [account, jobs] of [...Map.groupBy(waiting, ({ account_id: id }) => id)].slice(0, mostReasons)) {
    const why = await whyWaiting(database, account, db);
    const inVain = jobs.flatMap(({ tags }) => {
      const reason = why.nobody(tags);
      return reason === undefined ? [] : [{ tags, reason }];
    });
    for (const { tags, reason } of inVain.slice(0, mostReasons))
      for (const { project_id: project, request } of await requestsWaiting(db, account, tags))
        if (shown.has(project) && !found.has(project)) found.set(project, { reason, request });
  }
  return found;
}

async function requestsWaiting(db: Queries, account: bigint, tags: string) {
  const jobs = db
    .selectFrom('jobs')
    .where('jobs.claim', 'is', null)
    .where('jobs.account_id', '=', account)
    .where('jobs.tags', '=', tags);
  const ofBuilds = jobs
    .innerJoin('builds', 'builds.id', 'jobs.subject_id')
    .select((of) => ['builds.project_id', of.fn.min('builds.build_request_id').as('request')])
    .where('jobs.kind', 'in', ['run_suite', 'check_inputs'])
    .groupBy('builds.project_id');
  const ofRequests = jobs
    .innerJoin('build_requests', 'build_requests.id', 'jobs.subject_id')
    .select((of) => ['build_requests.project_id', of.fn.min('build_requests.id').as('request')])
    .where('jobs.kind', '=', 'fetch_commit')
    .groupBy('build_requests.project_id');
  return [...(await ofRequests.execute()), ...(await ofBuilds.execute())];
}

const mostOwn = 5;
const mostRead = 50;
const ownForMs = 24 * 60 * 60 * 1000;

/** The newest requests of a user in these projects: the unfinished ones, and those of the last day. */
export async function requestedBy(
  db: Queries,
  user: bigint,
  projects: ReadonlyMap<bigint, string>,
): Promise<OwnRequest[]> {
  const rows = await db
    .selectFrom('build_requests')
    .select(['id', 'project_id', 'commit_ref', 'commit_id', 'build_state', 'created_at', 'started_at', 'finished_at'])
    .where('asked_by', '=', user)
    .where('deploy_id', 'is', null)
    .orderBy('id', 'desc')
    .limit(mostRead)
    .execute();
  const since = BigInt(Date.now() - ownForMs);
  const own = rows
    .filter(({ project_id: project }) => projects.has(project))
    .filter(
      ({ created_at: at, build_state: state }) =>
        at > since || !isFinal(buildRequestMachine, state as BuildRequestState),
    )
    .slice(0, mostOwn);
  const commits = own.flatMap(({ commit_id: commit }) => (commit === null ? [] : [commit]));
  const messages = new Map(
    commits.length === 0
      ? []
      : (
          await db
            .selectFrom('commits')
            .select(['id', startOfMessage('message').as('message')])
            .where('id', 'in', commits)
            .execute()
        ).map(({ id, message }) => [id, message]),
  );
  return own.map(({ id, project_id: project, commit_id: commit, started_at: start, finished_at: end, ...row }) => ({
    ...withIdString('id', id),
    ...withIdString('project_id', project),
    project_name: projects.get(project) ?? '',
    commit_ref: row.commit_ref,
    message: messages.get(commit ?? 0n) ?? '',
    build_state: row.build_state,
    created_at: timestamp(row.created_at),
    duration_ms: start === null || end === null ? null : Number(end - start),
  }));
}
