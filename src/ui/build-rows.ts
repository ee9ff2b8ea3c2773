import type { Queries } from '../db/open.ts';
import type { BuildRow } from '../db/schema.ts';
import { nameWithVariant } from '../lib/matrix.ts';
import { newestAttempts, ofLastSeries } from '../lifecycle/rollup.ts';

/** Builds with the names of their suites, for pages with many builds. */
export interface NamedBuild extends BuildRow {
  /** null once the suite is deleted. */
  suite_name: string | null;
}

export function suiteName({ suite_name: name }: Pick<NamedBuild, 'suite_name'>): string {
  return name ?? '(deleted suite)';
}

/** The suite with the variant of the build. */
export function buildName(build: Pick<NamedBuild, 'suite_name' | 'variant'>): string {
  return nameWithVariant(suiteName(build), build.variant);
}

/** Whether it failed, and passed when it was tried again by itself. */
export function isFlaky({ build_state: state, retry }: BuildRow): boolean {
  return state === 'passed' && retry > 0;
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

/** The newest attempt of each suite and variant, in the order in which the suites were created. */
export function newestOfSuites(builds: readonly NamedBuild[]): NamedBuild[] {
  return inOrder(newestAttempts(builds.map(identified)));
}

/** Of these, those that count for the state of the commit. */
export function countedOfCommit(builds: readonly NamedBuild[]): NamedBuild[] {
  return inOrder(ofLastSeries(newestAttempts(builds.map(identified))));
}

interface Identified {
  suiteId: bigint;
  variant: string;
  attempt: number;
  series: bigint;
  build: NamedBuild;
}

function identified(build: NamedBuild): Identified {
  const { suite_id: suiteId, variant, attempt, series } = build;
  return { suiteId, variant, attempt, series, build };
}

/** 9 comes before 10. */
const byVariant = new Intl.Collator('en', { numeric: true });

function inOrder(builds: readonly Identified[]): NamedBuild[] {
  const sorted = builds.toSorted(
    (a, b) =>
      Number(a.suiteId - b.suiteId) || byVariant.compare(a.variant, b.variant) || (a.variant < b.variant ? -1 : 1),
  );
  return sorted.map(({ build }) => build);
}
