import { sql } from 'kysely';
import { allRows } from '../api/pages.ts';
import { accountRoute } from '../api/route.ts';
import { hasScope, type Caller } from '../auth/callers.ts';
import { accountsManagedBy, projectsSeenBy } from '../auth/projects.ts';
import { whyNobodyTakes } from '../auth/runner-heartbeats.ts';
import type { Queries } from '../db/open.ts';
import { described, oneOf, text } from '../../shared/records/fields.ts';
import { most } from '../../shared/domain/bounds.ts';
import { timestamp, timestampOrNull } from '../../shared/lib/timestamps.ts';
import { dashboardRecord, type ProjectLine } from '../../shared/records/overview.ts';
import { startOfMessage, withIdString } from './common.ts';

const stripLength = 20;

/** Gives the same order on every database: without case, and 9 before 10. */
const inOrder = new Intl.Collator('en', { numeric: true });

/** The states are joined into one text, so that a project stays one row. */
const lastStates = sql<string | null>`(
  select string_agg(s.build_state, ' ' order by s.id)
  from (
    select n.id, n.build_state from commits as n
    where n.project_id = p.id order by n.id desc limit ${sql.lit(stripLength)}
  ) as s
)`;

const sorts = ['name', 'failed'] as const;

interface Wanted {
  filter: string;
  sort: (typeof sorts)[number];
}

export async function dashboardOf(
  db: Queries,
  caller: Pick<Caller, 'id' | 'unpaid' | 'scopes'>,
  { filter, sort }: Wanted,
): Promise<{ projects: ProjectLine[]; found: number; all: number; waits: bigint | undefined }> {
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
    db,
    fitting.slice(0, most.tiles).map(({ id }) => id),
  );
  const isFirst = ({ failed_since: red }: { failed_since: bigint | null }) => sort === 'failed' && red !== null;
  const managed = await accountsManagedBy(db, caller);
  rows.sort((a, b) => Number(isFirst(b)) - Number(isFirst(a)) || inOrder.compare(a.name, b.name));
  return {
    projects: rows.map((row) => lineOf(row, caller, managed)),
    found: fitting.length,
    all: all.length,
    waits: rows.find(({ request }) => request?.build_state === 'enqueued')?.owner_id,
  };
}

type Row = Awaited<ReturnType<typeof rowsOf>>[number];

function lineOf(
  { id, commit, request, times, ...row }: Row,
  caller: Pick<Caller, 'scopes'>,
  managed: ReadonlySet<bigint>,
): ProjectLine {
  return {
    ...withIdString('id', id),
    name: row.name,
    description: row.description,
    build_state: row.build_state,
    owned: managed.has(row.owner_id),
    failed_since: timestampOrNull(row.failed_since),
    newest_request: request ? { ...request, created_at: timestamp(request.created_at) } : null,
    // A token sees only data that its scopes also show elsewhere.
    newest_commit: commit && hasScope(caller, 'commits') ? { ...commit, ...withIdString('id', commit.id) } : null,
    started_at: timestampOrNull(times?.started_at ?? null),
    finished_at: timestampOrNull(times?.finished_at ?? null),
    last_states: row.states?.split(' ') ?? [],
    forge_id: row.forge_id,
    forge_id_str: row.forge_id === null ? '' : String(row.forge_id),
    forge_state: row.forge_state,
    forge_state_reason: row.forge_state_reason,
  };
}

/** The newest records are read by ID later. A join would make PostgreSQL compare all builds with all projects. */
async function rowsOf(db: Queries, ids: readonly bigint[]) {
  if (ids.length === 0) return [];
  const projects = await db
    .selectFrom('projects as p')
    .select(['p.id', 'p.name', 'p.description', 'p.build_state', 'p.owner_id', 'p.failed_since'])
    .select(['p.forge_id', 'p.forge_state', 'p.forge_state_reason'])
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
      lastStates.as('states'),
    ])
    .where('p.id', 'in', ids)
    .execute();
  const numbers = (of: 'request_id' | 'commit_id'): bigint[] =>
    projects.map((project) => project[of]).filter((id) => id !== null);
  const requests = await requestsOf(db, numbers('request_id'));
  const commits = await commitsOf(db, numbers('commit_id'));
  const times = await timesOf(db, numbers('commit_id'));
  return projects.map((project) => ({
    ...project,
    request: requests.get(project.request_id ?? 0n),
    commit: commits.get(project.commit_id ?? 0n),
    times: times.get(project.commit_id ?? 0n),
  }));
}

async function requestsOf(db: Queries, ids: bigint[]) {
  if (ids.length === 0) return new Map<bigint, never>();
  const columns = ['id', 'commit_ref', 'build_state', 'created_at'] as const;
  const rows = await db.selectFrom('build_requests').select(columns).where('id', 'in', ids).execute();
  return new Map(rows.map(({ id, ...row }) => [id, row]));
}

async function commitsOf(db: Queries, ids: bigint[]) {
  if (ids.length === 0) return new Map<bigint, never>();
  const columns = ['id', startOfMessage('message').as('message'), 'scm_author_name'] as const;
  const rows = await db.selectFrom('commits').select(columns).where('id', 'in', ids).execute();
  return new Map(rows.map((row) => [row.id, row]));
}

/** Sorted here, newest request last: an ordered query would make PostgreSQL read every build (db/postgres.ts). */
async function timesOf(db: Queries, commitIds: bigint[]) {
  if (commitIds.length === 0) return new Map<bigint, never>();
  const rows = await db
    .selectFrom('builds')
    .select(['commit_id', 'build_request_id as request'])
    .select((of) => [of.fn.min('started_at').as('started_at'), of.fn.max('finished_at').as('finished_at')])
    .where('commit_id', 'in', commitIds)
    .where('deploy_id', 'is', null)
    .groupBy(['commit_id', 'build_request_id'])
    .execute();
  return new Map(rows.toSorted((a, b) => (a.request < b.request ? -1 : 1)).map((row) => [row.commit_id, row]));
}

/** Users whom this user invited and who cannot sign in yet. */
async function withoutPassword(db: Queries, owner: bigint): Promise<string[]> {
  const rows = await db
    .selectFrom('projects as p')
    .innerJoin('collaborators as c', 'c.project_id', 'p.id')
    .innerJoin('users as u', 'u.id', 'c.user_id')
    .select('u.email')
    .distinct()
    .where('p.owner_id', '=', owner)
    .where('u.password_hash', 'is', null)
    .orderBy('u.email')
    .execute();
  return rows.map(({ email }) => email);
}

/** Projects that others hand over to this user, and who does. */
async function offersTo(db: Queries, userId: bigint) {
  const rows = await db
    .selectFrom('projects as p')
    .innerJoin('users as u', 'u.id', 'p.offered_by_id')
    .select(['p.id', 'p.name', 'u.email'])
    .where('p.offered_to_id', '=', userId)
    .orderBy('p.id')
    .execute();
  return rows.map(({ id, name, email }) => ({ ...withIdString('project_id', id), name, email }));
}

export const routes = [
  accountRoute({
    method: 'GET',
    path: '/dashboard',
    access: 'both',
    scope: 'projects',
    summary:
      'The status of your projects and those you collaborate on, at most 500: their newest build request and ' +
      'commit (for a token with the scope commits), the states of their last commits, whether anything is missing ' +
      'at their forge, why builds wait if no runner takes them, invited users who have no password yet, and projects that are handed over to you',
    query: {
      filter: text('filter', { description: 'Only projects with this in their name' }),
      sort: described(oneOf(sorts), 'By name, or those first whose default branch fails'),
    },
    answer: dashboardRecord,
    async handle({ db, database, caller, query }) {
      const { waits, ...shown } = await dashboardOf(db, caller, query);
      return {
        ...shown,
        waiting_reason: (waits !== undefined && (await whyNobodyTakes(database, waits))) || '',
        invited: await withoutPassword(db, caller.id),
        offers: await offersTo(db, caller.id),
      };
    },
  }),
];
