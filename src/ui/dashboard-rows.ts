import type { Queries } from '../db/open.ts';
import type { UserRow } from '../db/schema.ts';
import { visibleTo } from './visible.ts';

/** What the dashboard shows of a project. */
export interface DashboardRow {
  id: bigint;
  name: string;
  description: string;
  build_state: string;
  owner_id: bigint;
  /** The newest build request. */
  commit_ref: string | null;
  request_state: string | null;
  requested_at: bigint | null;
  /** The newest commit. */
  commit_id: bigint | null;
  message: string | null;
  author: string | null;
  /** When the first of its builds began, and when the last of them was over, in its newest request. */
  started_at: bigint | null;
  finished_at: bigint | null;
  /** The results of the last commits, oldest first. */
  strip: { id: bigint; build_state: string }[];
}

export const stripLength = 20;

/** As people order names, whatever the database: case does not matter, and 9 comes before 10. */
const inOrder = new Intl.Collator('en', { numeric: true });

/** The same number of queries, however many projects there are; each finds its rows by an index. */
export async function dashboardRows(db: Queries, person: Readonly<UserRow>): Promise<DashboardRow[]> {
  const projects = await visibleTo(db, person)
    .leftJoin('build_requests as r', (join) =>
      join.on('r.id', '=', (newest) =>
        newest
          .selectFrom('build_requests as n')
          .select((of) => of.fn.max('n.id').as('id'))
          .whereRef('n.project_id', '=', 'p.id'),
      ),
    )
    .leftJoin('commits as c', (join) =>
      join.on('c.id', '=', (newest) =>
        newest
          .selectFrom('commits as n')
          .select((of) => of.fn.max('n.id').as('id'))
          .whereRef('n.project_id', '=', 'p.id'),
      ),
    )
    .select(['p.id', 'p.name', 'p.description', 'p.build_state', 'p.owner_id'])
    .select(['r.commit_ref', 'r.build_state as request_state', 'r.created_at as requested_at'])
    .select(['c.id as commit_id', 'c.message', 'c.scm_author_name as author'])
    .orderBy('p.id')
    .execute();
  projects.sort((a, b) => inOrder.compare(a.name, b.name));
  const [strips, times] = [await stripsOf(db, person), await timesOf(db, person)];
  return projects.map((project) => ({
    ...project,
    started_at: null,
    finished_at: null,
    ...times.get(project.commit_id ?? 0n),
    strip: (strips.get(project.id) ?? []).toSorted((a, b) => (a.id < b.id ? -1 : 1)),
  }));
}

async function stripsOf(db: Queries, person: Readonly<UserRow>) {
  const rows = await visibleTo(db, person)
    .innerJoin('commits as c', (join) =>
      join.on('c.id', 'in', (newest) =>
        newest
          .selectFrom('commits as n')
          .select('n.id')
          .whereRef('n.project_id', '=', 'p.id')
          .orderBy('n.id', 'desc')
          .limit(stripLength),
      ),
    )
    .select(['c.id', 'c.project_id', 'c.build_state'])
    .execute();
  return Map.groupBy(rows, ({ project_id: projectId }) => projectId);
}

async function timesOf(db: Queries, person: Readonly<UserRow>) {
  const rows = await visibleTo(db, person)
    .innerJoin('builds as b', (join) =>
      join.on('b.commit_id', '=', (newest) =>
        newest
          .selectFrom('commits as n')
          .select((of) => of.fn.max('n.id').as('id'))
          .whereRef('n.project_id', '=', 'p.id'),
      ),
    )
    .select(['b.commit_id', 'b.build_request_id'])
    .select((of) => [of.fn.min('b.started_at').as('started_at'), of.fn.max('b.finished_at').as('finished_at')])
    .groupBy(['b.commit_id', 'b.build_request_id'])
    .orderBy('b.build_request_id')
    .execute();
  // Of a commit that was asked for several times, the newest request counts: it comes last.
  return new Map(rows.map((row) => [row.commit_id, { started_at: row.started_at, finished_at: row.finished_at }]));
}
