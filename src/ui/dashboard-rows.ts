import { sql } from 'kysely';
import { allRows } from '../api/pages.ts';
import { callerInBrowser } from '../auth/callers.ts';
import { projectsSeenBy } from '../auth/projects.ts';
import type { Queries } from '../db/open.ts';
import type { UserRow } from '../db/schema.ts';
import { most } from '../lib/bounds.ts';
import { startOfMessage } from './parts.ts';

/** The data that the dashboard shows for a project. */
export interface DashboardRow {
  id: bigint;
  name: string;
  description: string;
  build_state: string;
  owner_id: bigint;
  /** Since when its default branch fails; null where it does not. */
  failed_since: bigint | null;
  /** The newest build request. */
  commit_ref: string | null;
  request_state: string | null;
  requested_at: bigint | null;
  /** The newest commit. */
  commit_id: bigint | null;
  message: string | null;
  author: string | null;
  /** The start of its first build and the end of its last build, in its newest request. */
  started_at: bigint | null;
  finished_at: bigint | null;
  /** The states of the last commits, oldest first. */
  strip: string[];
}

export const stripLength = 20;

/** The order in which people sort names, on every database: case does not matter, and 9 comes before 10. */
const inOrder = new Intl.Collator('en', { numeric: true });

/** The states of a project's last commits in one text, so that a project is one row. */
const lastStates = sql<string | null>`(
  select string_agg(s.build_state, ' ' order by s.id)
  from (
    select n.id, n.build_state from commits as n
    where n.project_id = p.id order by n.id desc limit ${sql.lit(stripLength)}
  ) as s
)`;

/** The projects whose name contains a text, up to as many as a page shows, and how many there are. */
export async function dashboardRows(
  db: Queries,
  person: Readonly<UserRow>,
  { wanted, sort }: { wanted: string; sort: 'name' | 'failed' },
): Promise<{ shown: DashboardRow[]; count: number; fitting: number }> {
  const all = await allRows(
    projectsSeenBy(db, callerInBrowser(person)).select(['p.id', 'p.name', 'p.failed_since']),
    'p.id',
  );
  const fitting = all
    .map(({ id, name, failed_since: red }) => ({
      id,
      name: name.toLowerCase(),
      isFirst: sort === 'failed' && red !== null,
    }))
    .filter(({ name }) => name.includes(wanted));
  // To compare so many as people do would take too long.
  if (fitting.length > most.tiles)
    fitting.sort((a, b) => Number(b.isFirst) - Number(a.isFirst) || (a.name < b.name ? -1 : 1));
  const ids = fitting.slice(0, most.tiles).map(({ id }) => id);
  return { shown: await rowsOf(db, ids), count: all.length, fitting: fitting.length };
}

/**
 * A few queries for any number of projects, and each uses an index. The newest records of a project are read by their
 * identifiers afterwards: with a join, PostgreSQL would compare every commit and build with every project.
 */
async function rowsOf(db: Queries, ids: readonly bigint[]): Promise<DashboardRow[]> {
  if (ids.length === 0) return [];
  const projects = await db
    .selectFrom('projects as p')
    .select(['p.id', 'p.name', 'p.description', 'p.build_state', 'p.owner_id', 'p.failed_since'])
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
  projects.sort((a, b) => inOrder.compare(a.name, b.name));
  const commitIds = projects.map(({ commit_id: id }) => id);
  const requests = await byId(
    projects.map(({ request_id: id }) => id),
    (ids) => requestsOf(db, ids),
  );
  const commits = await byId(commitIds, (ids) => commitsOf(db, ids));
  const times = await byId(commitIds, (ids) => timesOf(db, ids));
  return projects.map(({ states, request_id: request, ...project }) => ({
    ...project,
    ...(requests.get(request ?? 0n) ?? { commit_ref: null, request_state: null, requested_at: null }),
    ...(commits.get(project.commit_id ?? 0n) ?? { message: null, author: null }),
    ...(times.get(project.commit_id ?? 0n) ?? { started_at: null, finished_at: null }),
    strip: states?.split(' ') ?? [],
  }));
}

/** Every database allows this many values in a statement. */
const mostAtOnce = 1000;

/** Rows by the identifier that they are about; of several with the same one, the last counts. */
async function byId<T extends { about: bigint }>(
  ids: readonly (bigint | null)[],
  load: (ids: bigint[]) => Promise<T[]>,
): Promise<Map<bigint, Omit<T, 'about'>>> {
  const wanted = ids.filter((id) => id !== null);
  const found = new Map<bigint, Omit<T, 'about'>>();
  for (let at = 0; at < wanted.length; at += mostAtOnce) {
    for (const { about, ...row } of await load(wanted.slice(at, at + mostAtOnce))) found.set(about, row);
  }
  return found;
}

function requestsOf(db: Queries, ids: bigint[]) {
  return db
    .selectFrom('build_requests')
    .select(['id as about', 'commit_ref', 'build_state as request_state', 'created_at as requested_at'])
    .where('id', 'in', ids)
    .execute();
}

function commitsOf(db: Queries, ids: bigint[]) {
  return db
    .selectFrom('commits')
    .select(['id as about', startOfMessage('message').as('message'), 'scm_author_name as author'])
    .where('id', 'in', ids)
    .execute();
}

/**
 * Of a commit that was asked for several times, the newest request counts: it comes last. Sorted here: to have them in
 * order, PostgreSQL would read every build there is (db/postgres.ts).
 */
async function timesOf(db: Queries, commitIds: bigint[]) {
  const rows = await db
    .selectFrom('builds')
    .select(['commit_id as about', 'build_request_id as request'])
    .select((of) => [of.fn.min('started_at').as('started_at'), of.fn.max('finished_at').as('finished_at')])
    .where('commit_id', 'in', commitIds)
    .groupBy(['commit_id', 'build_request_id'])
    .execute();
  rows.sort((a, b) => (a.request < b.request ? -1 : 1));
  return rows.map(({ about, started_at, finished_at }) => ({ about, started_at, finished_at }));
}
