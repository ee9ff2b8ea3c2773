import { allRows } from '../api/pages.ts';
import { accountRoute } from '../api/route.ts';
import { hasScope, type Caller } from '../auth/callers.ts';
import { accountsManagedBy, managesProject, projectsSeenBy } from '../auth/projects.ts';
import { endingTokensOf } from '../auth/user-tokens.ts';
import { whyNobodyTakes } from '../auth/runner-heartbeats.ts';
import type { Database, Queries } from '../db/open.ts';
import { described, oneOf, text } from '../../shared/records/fields.ts';
import { most } from '../../shared/domain/bounds.ts';
import { timestamp, timestampOrNull } from '../../shared/lib/timestamps.ts';
import {
  dashboardRecord,
  type OwnRequest,
  type ProjectLine,
  type ReuseStopped,
  type SlowStep,
} from '../../shared/records/overview.ts';
import { startOfMessage, withIdString } from './common.ts';
import { barOf, isRunning, startsOf, stripsOf } from './last-builds.ts';
import { slowStepsOf } from './suite-figures.ts';
import { reuseStoppedOf } from './reuse-stopped.ts';
import { approvalsOf, requestedBy, stuckProjects } from './dashboard-attention.ts';

/** Gives the same order on every database: without case, and 9 before 10. */
const inOrder = new Intl.Collator('en', { numeric: true });

const sorts = ['name', 'failed'] as const;

interface Wanted {
  filter: string;
  sort: (typeof sorts)[number];
}

export async function dashboardOf(
  { database, db }: Reading,
  caller: Pick<Caller, 'id' | 'unpaid' | 'scopes' | 'projects'>,
  { filter, sort }: Wanted,
): Promise<{
  projects: ProjectLine[];
  requested: OwnRequest[];
  slow_steps: SlowStep[];
  reuse_stopped: ReuseStopped[];
  found: number;
  all: number;
  waits: bigint | undefined;
}> {
  const all = await allRows(projectsSeenBy(db, caller).select(['p.id', 'p.name', 'p.failed_since']), 'p.id');
  const wanted = filter.trim().toLowerCase();
  const fitting = all
    .map(({ id, name, failed_since: red }) => ({
      id,
      name: name.toLowerCase(),
      isFirst: sort === 'failed' && red !== null,
    }))
    .filter(({ name }) => name.includes(wanted));
  // A collation would take too long for so many projects.
  if (fitting.length > most.tiles)
    fitting.sort((a, b) => Number(b.isFirst) - Number(a.isFirst) || (a.name < b.name ? -1 : 1));
  const rows = await rowsOf(
    { database, db },
    fitting.slice(0, most.tiles).map(({ id }) => id),
  );
  const isFirst = ({ failed_since: red }: { failed_since: bigint | null }) => sort === 'failed' && red !== null;
  const managed = await accountsManagedBy(db, caller);
  rows.sort((a, b) => Number(isFirst(b)) - Number(isFirst(a)) || inOrder.compare(a.name, b.name));
  return {
    projects: rows.map((row) => lineOf(row, caller, managed)),
    requested: hasScope(caller, 'build_requests')
      ? await requestedBy(db, caller.id, new Map(all.map(({ id, name }) => [id, name])))
      : [],
    slow_steps: hasScope(caller, 'commits') ? await slowStepsOf(db, caller) : [],
    reuse_stopped: hasScope(caller, 'commits') ? await reuseStoppedOf(db, caller) : [],
    found: fitting.length,
    all: all.length,
    waits: rows.find(({ request }) => request?.build_state === 'enqueued')?.owner_id,
  };
}

type Row = Awaited<ReturnType<typeof rowsOf>>[number];

function lineOf(
  { id, request, decided, ...row }: Row,
  caller: Pick<Caller, 'scopes'>,
  managed: ReadonlySet<bigint>,
): ProjectLine {
  // A token sees only data that its scopes also show elsewhere.
  const seesCommits = hasScope(caller, 'commits');
  const { commit, decision } = row;
  return {
    ...withIdString('id', id),
    name: row.name,
    description: row.description,
    build_state: row.build_state,
    owned: managed.has(row.owner_id),
    failed_since: timestampOrNull(row.failed_since),
    newest_request: request
      ? {
          ...withIdString('id', request.id),
          ...withIdString('commit_id', request.commit_id),
          commit_ref: request.commit_ref,
          build_state: request.build_state,
          created_at: timestamp(request.created_at),
        }
      : null,
    newest_commit:
      commit && seesCommits
        ? { ...withIdString('id', commit.id), message: commit.message, scm_author_name: commit.scm_author_name }
        : null,
    state_commit:
      decided && seesCommits
        ? {
            ...decided,
            ...withIdString('id', decided.id),
            branch: row.default_head_id === null ? decided.branch : row.default_branch || decided.branch,
            ...withIdString('build_request_id', decision?.id ?? null),
            requested_at: timestampOrNull(decision?.created_at ?? null),
          }
        : null,
    started_at: timestampOrNull(decision?.started_at ?? null),
    finished_at: timestampOrNull(decision?.finished_at ?? null),
    default_branch: row.default_branch,
    last_builds: row.strip,
    approvals: row.approvals?.count ?? 0,
    ...withIdString('approval_request_id', row.approvals?.request ?? null),
    ...withIdString('approval_deploy_id', row.approvals?.deploy ?? null),
    no_runner: row.stuck?.reason ?? '',
    ...withIdString('no_runner_request_id', row.stuck?.request ?? null),
    ...withIdString('forge_id', row.forge_id),
    forge_state: row.forge_state,
    forge_state_reason: row.forge_state_reason,
  };
}

type Reading = { database: Database; db: Queries };

/** The newest records are read by ID later. A join would make PostgreSQL compare all builds with all projects. */
async function rowsOf({ database, db }: Reading, ids: readonly bigint[]) {
  if (ids.length === 0) return [];
  const projects = await db
    .selectFrom('projects as p')
    .select(['p.id', 'p.name', 'p.description', 'p.build_state', 'p.owner_id', 'p.failed_since'])
    .select(['p.default_branch', 'p.default_head_id', 'p.forge_id', 'p.forge_state', 'p.forge_state_reason'])
    .select((of) => [
      of
        .selectFrom('build_requests as n')
        .select((n) => n.fn.max('n.id').as('id'))
        .whereRef('n.project_id', '=', 'p.id')
        .as('request_id'),
      of
        .selectFrom('commits as n')
        .select((n) => n.fn.max('n.id').as('id'))
        .whereRef('n.project_id', '=', 'p.id')
        .as('commit_id'),
    ])
    .where('p.id', 'in', ids)
    .execute();
  const decidingOf = ({ default_head_id: head, commit_id: newest }: (typeof projects)[number]): bigint | null =>
    head ?? newest;
  const deciding = present(projects.map(decidingOf));
  const commits = await commitsOf(db, [...new Set([...deciding, ...present(projects.map((one) => one.commit_id))])]);
  const decisions = await newestOfCommits(db, deciding);
  const requests = await requestsOf(db, present(projects.map((one) => one.request_id)));
  const strips = await stripsOf(db, projects);
  const running = [...[...strips.values()].flat(), ...decisions.values()].filter(isRunning);
  const starts = await startsOf(db, [...new Set(running.map(({ id }) => id))]);
  const approvals = await approvalsOf(db, ids);
  const stuck = await stuckProjects({ database, db }, projects);
  return projects.map((project) => {
    const decision = decisions.get(decidingOf(project) ?? 0n);
    return {
      ...project,
      request: requests.get(project.request_id ?? 0n),
      commit: commits.get(project.commit_id ?? 0n),
      decided: commits.get(decidingOf(project) ?? 0n),
      decision: decision && { ...decision, started_at: decision.started_at ?? starts.get(decision.id) ?? null },
      strip: (strips.get(project.id) ?? []).map((one) => barOf(one, starts)),
      approvals: approvals.get(project.id),
      stuck: stuck.get(project.id),
    };
  });
}

const present = (ids: readonly (bigint | null)[]): bigint[] => ids.filter((id) => id !== null);

const requestColumns = ['id', 'commit_id', 'commit_ref', 'build_state', 'created_at'] as const;

async function requestsOf(db: Queries, ids: bigint[]) {
  if (ids.length === 0) return new Map<bigint, never>();
  const rows = await db
    .selectFrom('build_requests')
    .select([...requestColumns, 'started_at', 'finished_at'])
    .where('id', 'in', ids)
    .execute();
  return new Map(rows.map((row) => [row.id, row]));
}

async function commitsOf(db: Queries, ids: bigint[]) {
  if (ids.length === 0) return new Map<bigint, never>();
  const columns = ['id', 'ref', 'branch', startOfMessage('message').as('message'), 'scm_author_name'] as const;
  const rows = await db.selectFrom('commits').select(columns).where('id', 'in', ids).execute();
  return new Map(rows.map((row) => [row.id, row]));
}

/** By commit. */
async function newestOfCommits(db: Queries, commits: bigint[]) {
  if (commits.length === 0) return new Map<bigint, never>();
  const newest = await db
    .selectFrom('build_requests')
    .select((of) => of.fn.max('id').as('id'))
    .where('commit_id', 'in', commits)
    .where('deploy_id', 'is', null)
    .groupBy('commit_id')
    .execute();
  const requests = await requestsOf(
    db,
    newest.map(({ id }) => id),
  );
  return new Map(Array.from(requests.values(), (row) => [row.commit_id ?? 0n, row]));
}

/** Users whom this user invited and who cannot sign in yet. */
async function withoutPassword(db: Queries, caller: Pick<Caller, 'id' | 'unpaid' | 'projects'>): Promise<string[]> {
  const rows = await projectsSeenBy(db, caller)
    .innerJoin('collaborators as c', 'c.project_id', 'p.id')
    .innerJoin('users as u', 'u.id', 'c.user_id')
    .select('u.email')
    .distinct()
    .where('p.owner_id', '=', caller.id)
    .where('u.password_hash', 'is', null)
    .orderBy('u.email')
    .execute();
  return rows.map(({ email }) => email);
}

/** No token sees other tokens. */
async function endingTokens(db: Queries, { id, scopes }: Pick<Caller, 'id' | 'scopes'>) {
  const ending = scopes === 'all' ? await endingTokensOf(db, id) : [];
  return ending.map((token) => ({
    ...withIdString('id', token.id),
    name: token.name,
    expires_at: timestamp(token.expires_at),
  }));
}

/** Projects that others hand over to this user, and who does. */
async function offersTo(db: Queries, userId: bigint) {
  const rows = await db
    .selectFrom('projects as p')
    .innerJoin('users as u', 'u.id', 'p.offered_by_id')
    .select(['p.id', 'p.name', 'p.owner_id', 'u.email', 'u.id as by'])
    .where('p.offered_to_id', '=', userId)
    .where('u.suspended', '=', 0)
    .where('u.shut_out', '=', '')
    .orderBy('p.id')
    .execute();
  const offers = [];
  for (const { id, name, email, by, ...project } of rows)
    if (await managesProject(db, project, by)) offers.push({ ...withIdString('project_id', id), name, email });
  return offers;
}

export const routes = [
  accountRoute({
    method: 'GET',
    path: '/dashboard',
    access: 'both',
    scope: 'projects',
    forSomeProjects: true,
    summary:
      'The status of your projects and those you collaborate on, at most 500: the commit that decides their state and the ' +
      'newest one (for a token with the scope commits), their newest build request, the last builds of their default ' +
      'branch, what waits for approval or finds no runner, whether anything is missing at their forge, why builds wait if ' +
      'no runner takes them, your own last build requests (for a token with the scope build_requests), invited users ' +
      'who have no password yet, your own tokens that end within three days (for no token), and projects that are handed ' +
      'over to you',
    query: {
      filter: text('filter', { description: 'Only projects with this in their name' }),
      sort: described(oneOf(sorts), 'By name, or those first whose default branch fails'),
    },
    answer: dashboardRecord,
    async handle({ db, database, caller, query }) {
      const { waits, ...shown } = await dashboardOf({ database, db }, caller, query);
      return {
        ...shown,
        waiting_reason: (waits !== undefined && (await whyNobodyTakes(database, waits))) || '',
        invited: await withoutPassword(db, { ...caller, unpaid: false }),
        ending_tokens: await endingTokens(db, caller),
        offers: caller.projects === 'all' ? await offersTo(db, caller.id) : [],
      };
    },
  }),
];
