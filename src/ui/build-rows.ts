import type { Queries } from '../db/open.ts';
import type { BuildRow } from '../db/schema.ts';

/** Builds with the names of their suites, for pages with many builds. */
export interface NamedBuild extends BuildRow {
  /** null once the suite is deleted. */
  suite_name: string | null;
}

export function suiteName({ suite_name: name }: Pick<NamedBuild, 'suite_name'>): string {
  return name ?? '(deleted suite)';
}

function namedBuilds(db: Queries) {
  return db
    .selectFrom('builds')
    .leftJoin('suites', 'suites.id', 'builds.suite_id')
    .selectAll('builds')
    .select('suites.name as suite_name');
}

/** The builds of each commit, newest attempt first. */
export async function buildsOfCommits(db: Queries, commits: readonly bigint[]): Promise<Map<bigint, NamedBuild[]>> {
  if (commits.length === 0) return new Map();
  // Sorted here: to have them in order, PostgreSQL would read every build there is (db/postgres.ts).
  const rows = await namedBuilds(db).where('builds.commit_id', 'in', commits).execute();
  rows.sort((a, b) => (a.id < b.id ? 1 : -1));
  return Map.groupBy(rows, ({ commit_id: commit }) => commit);
}

/** Newest attempt first. */
export async function buildsOfRequest(db: Queries, request: bigint): Promise<NamedBuild[]> {
  return namedBuilds(db).where('builds.build_request_id', '=', request).orderBy('builds.id', 'desc').execute();
}

/** The newest attempt of each suite, in the order in which the suites were created. */
export function newestOfSuites(builds: readonly NamedBuild[]): NamedBuild[] {
  const newest = new Map<bigint, NamedBuild>();
  for (const build of builds) if (!newest.has(build.suite_id)) newest.set(build.suite_id, build);
  return [...newest.values()].toSorted((a, b) => (a.suite_id < b.suite_id ? -1 : 1));
}
