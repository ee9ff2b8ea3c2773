import { sql } from 'kysely';
import { accountRoute } from '../api/route.ts';
import { hasScope, type Caller } from '../auth/callers.ts';
import { projectsSeenBy } from '../auth/projects.ts';
import type { Queries } from '../db/open.ts';
import { required, text } from '../../shared/records/fields.ts';
import type { Scope } from '../http/route.ts';
import { searchHitRecord, type SearchHit } from '../../shared/records/project.ts';
import { listOf } from '../../shared/records/schema.ts';
import { testsOf } from '../results/test-results.ts';
import { likePattern, withIdString } from './common.ts';

/**
 * Searches everything that the caller sees by name, and commits by SHA or message. The number of rows is limited,
 * because a SQLite query blocks everyone else.
 */

interface Hit {
  kind: SearchHit['kind'];
  project_id: bigint;
  /** The commit of the last build for a branch, the build of a test, or else the ID of the record. */
  id: bigint;
  name: string;
  /** The SHA for commits and branches, the suite for tests. */
  ref: string;
  build_state: string;
}

const mostOfKind = 10;
const mostCompared = 100;
/** If a caller has more projects, only the newest are searched. A database limits the values in a query. */
const mostProjects = 1000;
/** Rows read per kind. Each project gets the same share of the commits. */
const mostRead = 5000;
/** The searched length of a message, usually its subject. */
const searchedText = 200;
/** A shorter prefix of a SHA would match too much. */
const shaForm = /^[0-9a-f]{4,64}$/;
/** A shorter text would match too many tests. */
const shortestTest = 3;
/** Only the newest builds with tests are read, one of each suite, and the first tests of each. */
const mostRuns = 8;
const mostTests = 3000;
/** The tests of one build may be many megabytes, with their messages. Larger ones are not searched. */
const mostTestBytes = 4_000_000n;
const runsOfProject = 10;
const branchPrefix = 'refs/heads/';

interface Search {
  db: Queries;
  wanted: string;
  within: bigint[];
}

/** Puts names that begin with the text first. */
function best(found: Hit[], wanted: string): Hit[] {
  const rank = ({ name }: Hit): number => Number(!name.toLowerCase().startsWith(wanted));
  return found.toSorted((a, b) => rank(a) - rank(b) || (a.name < b.name ? -1 : 1)).slice(0, mostOfKind);
}

async function branches({ db, wanted, within }: Search): Promise<Hit[]> {
  const rows = await db
    .selectFrom((of) =>
      of
        .selectFrom('built_refs')
        .select(['project_id', 'name', 'commit_id'])
        .where('project_id', 'in', within)
        .limit(mostRead)
        .as('looked'),
    )
    .innerJoin('commits as c', 'c.id', 'looked.commit_id')
    .select(['looked.project_id', 'looked.name', 'c.id', 'c.ref', 'c.build_state'])
    .where('looked.name', 'like', `${branchPrefix}%`)
    .where(
      sql<boolean>`lower(substr(looked.name, ${sql.lit(branchPrefix.length + 1)})) like ${likePattern(wanted)} escape '!'`,
    )
    .limit(mostCompared)
    .execute();
  return rows.map((row) => ({ ...row, kind: 'branch', name: row.name.slice(branchPrefix.length) }));
}

async function suites({ db, wanted, within }: Search): Promise<Hit[]> {
  const rows = await db
    .selectFrom((of) =>
      of
        .selectFrom('suites')
        .select(['id', 'project_id', 'name'])
        .where('project_id', 'in', within)
        .limit(mostRead)
        .as('looked'),
    )
    .selectAll()
    .where(sql<boolean>`lower(looked.name) like ${likePattern(wanted)} escape '!'`)
    .limit(mostCompared)
    .execute();
  return rows.map((row) => ({ ...row, kind: 'suite', ref: '', build_state: '' }));
}

/** Finds commits by the prefix of the SHA, and each project's newest commits by the start of the message. */
async function commits(search: Search): Promise<Hit[]> {
  const { db, wanted } = search;
  const ids = [...(shaForm.test(wanted) ? await bySha(search) : []), ...(await byMessage(search))];
  if (ids.length === 0) return [];
  const rows = await db
    .selectFrom('commits')
    .select(['id', 'project_id', 'ref', 'build_state'])
    .select(sql<string>`substr(message, 1, ${sql.lit(searchedText)})`.as('message'))
    .where('id', 'in', ids.slice(0, 2 * mostOfKind))
    .execute();
  return rows
    .map(({ message, ...row }): Hit => ({
      ...row,
      kind: 'commit',
      name: message.trimStart().split('\n', 1)[0] ?? '',
    }))
    .toSorted((a, b) => (a.id > b.id ? -1 : 1))
    .slice(0, mostOfKind);
}

async function bySha({ db, wanted, within }: Search): Promise<bigint[]> {
  const rows = await db
    .selectFrom('commits')
    .select('id')
    .where('project_id', 'in', within)
    .where('ref', '>=', wanted)
    .where('ref', '<', `${wanted}g`) // after every SHA with this prefix
    .limit(mostOfKind)
    .execute();
  return rows.map(({ id }) => id);
}

/** Reads the newest commits of each project by an index. A join would read all commits. */
async function byMessage({ db, wanted, within }: Search): Promise<bigint[]> {
  const share = Math.max(1, Math.floor(mostRead / within.length));
  const rows = await db
    .selectFrom('projects as p')
    .select(
      sql<string | null>`(
        select string_agg(cast(s.id as text), ' ')
        from (
          select n.id, n.message from commits as n
          where n.project_id = p.id order by n.id desc limit ${sql.lit(share)}
        ) as s
        where lower(substr(s.message, 1, ${sql.lit(searchedText)})) like ${likePattern(wanted)} escape '!'
      )`.as('found'),
    )
    .where('p.id', 'in', within)
    .execute();
  return rows
    .flatMap(({ found }) => (found === null ? [] : found.split(' ').map(BigInt)))
    .toSorted((a, b) => (a > b ? -1 : 1));
}

async function tests({ db, wanted, within }: Search): Promise<Hit[]> {
  if (wanted.length < shortestTest) return [];
  const newest = await db
    .selectFrom('projects as p')
    .select(
      sql<string | null>`(
        select string_agg(cast(s.build_id as text), ' ')
        from (
          select r.build_id from test_runs as r
          where r.project_id = p.id and r.completed_at is not null
          order by r.build_id desc limit ${sql.lit(runsOfProject)}
        ) as s
      )`.as('runs'),
    )
    .where('p.id', 'in', within)
    .execute();
  const ids = newest
    .flatMap(({ runs }) => (runs === null ? [] : runs.split(' ').map(BigInt)))
    .toSorted((a, b) => (a > b ? -1 : 1))
    .slice(0, mostCompared);
  if (ids.length === 0) return [];
  const runs = await db
    .selectFrom('test_runs')
    .select(['build_id', 'project_id', 'suite_name'])
    .where('build_id', 'in', ids)
    .where('bytes', '<=', mostTestBytes)
    .orderBy('build_id', 'desc')
    .execute();
  const ofSuites = Map.groupBy(runs, ({ project_id: project, suite_name: suite }) => `${project} ${suite}`);
  const found: Hit[] = [];
  for (const [run] of Array.from(ofSuites.values()).slice(0, mostRuns)) {
    if (!run || found.length >= mostOfKind) break;
    const { build_id: id, project_id, suite_name: ref } = run;
    for (const { name, state } of await testsOf(db, id, { text: wanted, to: mostTests, limit: mostOfKind }))
      found.push({ kind: 'test', id, project_id, name, ref, build_state: state });
  }
  return found;
}

export async function search(
  db: Queries,
  caller: Pick<Caller, 'id' | 'unpaid' | 'scopes' | 'projects'>,
  typed: string,
): Promise<SearchHit[]> {
  const wanted = typed.trim().toLowerCase();
  const projects = await projectsSeenBy(db, caller)
    .select(['p.id', 'p.name', 'p.build_state'])
    .orderBy('p.id', 'desc')
    .execute();
  const names = new Map(projects.map(({ id, name }) => [id, name]));
  const within = projects.slice(0, mostProjects).map(({ id }) => id);
  if (within.length === 0) return [];
  // A token sees only data that its scopes also show elsewhere.
  const may = (scope: Scope): boolean => hasScope(caller, scope);
  const parts = { db, wanted, within };
  const found = [
    ...best(
      projects
        .filter(({ name }) => name.toLowerCase().includes(wanted))
        .map((project): Hit => ({ ...project, kind: 'project', project_id: project.id, ref: '' })),
      wanted,
    ),
    ...(may('commits') ? best(await branches(parts), wanted) : []),
    ...(may('suites') ? best(await suites(parts), wanted) : []),
    ...(may('commits') ? await commits(parts) : []),
    ...(may('commits') ? best(await tests(parts), wanted) : []),
  ];
  return found.map(({ kind, id, project_id: project, ...rest }) => ({
    kind,
    ...withIdString('id', id),
    ...withIdString('project_id', project),
    project_name: names.get(project) ?? '',
    ...rest,
  }));
}

export const routes = [
  accountRoute({
    method: 'GET',
    path: '/search',
    access: 'both',
    scope: 'projects',
    forSomeProjects: true,
    summary:
      'Search your projects, their branches, suites, commits and tests by name; a token without the scope commits gets ' +
      'no branches, commits and tests, one without the scope suites gets no suites',
    query: { q: required(text('filter', { description: 'A part of a name, or the beginning of a SHA' })) },
    answer: listOf(searchHitRecord),
    handle: ({ db, caller, query }) => search(db, caller, query.q),
  }),
];
