import type { Queries } from '../db/open.ts';
import { firstIdAt, timeOfId } from '../../shared/lib/ids.ts';
import { keyOf, keysIn, unpackTests, type TestName, type TestState } from './packed-tests.ts';

/** How tests went in earlier builds, found by their keys. The number of rows and keys that are read is limited. */

const mostRuns = 200;
const mostKeys = 1_000_000;
const mostShown = 60;
const day = 24 * 60 * 60 * 1000;

export interface PastRun extends TestName {
  build_id: bigint;
  suite_name: string;
  variant: string;
  commit_id: bigint;
  commit_ref: string;
  branch: string;
  pull_request: bigint | null;
  state: TestState;
  durationMs: number;
  message: string;
}

/** A test in the newest builds of a project, the newest first. */
export async function historyOf(db: Queries, projectId: bigint, key: number): Promise<PastRun[]> {
  const runs = await db
    .selectFrom('test_runs')
    .select(['build_id', 'size'])
    .where('project_id', '=', projectId)
    .where('completed_at', 'is not', null)
    .orderBy('build_id', 'desc')
    .limit(mostRuns)
    .execute();
  const found: (TestName & Pick<PastRun, 'build_id' | 'state' | 'durationMs' | 'message'>)[] = [];
  let read = 0;
  for (const { build_id: id, size } of runs) {
    read += size;
    if (found.length >= mostShown || (read > mostKeys && found.length > 0)) break;
    const results = db.selectFrom('test_results').select(['start', 'state', 'keys']).where('build_id', '=', id);
    for (const { start, state, keys } of await results.execute()) {
      if (!keysIn(keys).some((one) => one === key)) continue;
      const packed = db.selectFrom('test_results').select(['state', 'content']).where('build_id', '=', id);
      const row = await packed.where('start', '=', start).where('state', '=', state).executeTakeFirstOrThrow();
      const same = (await unpackTests(row)).find((one) => keyOf(one) === key);
      if (!same) continue;
      const { name, class: of, suite, durationMs, message } = same;
      found.push({ build_id: id, name, class: of, suite, state: same.state, durationMs, message });
      break;
    }
  }
  if (found.length === 0) return [];
  const builds = await db
    .selectFrom('builds')
    .innerJoin('commits', 'commits.id', 'builds.commit_id')
    .innerJoin('build_requests as request', 'request.id', 'builds.build_request_id')
    .select(['builds.id', 'builds.suite_name', 'builds.variant', 'builds.commit_id', 'commits.ref as commit_ref'])
    .select(['request.branch', 'request.pull_request'])
    .where(
      'builds.id',
      'in',
      found.map(({ build_id: id }) => id),
    )
    .execute();
  const byId = new Map(builds.map(({ id, ...build }) => [id, build]));
  return found.flatMap((run) => {
    const build = byId.get(run.build_id);
    return build ? [{ ...run, ...build }] : [];
  });
}

/** The first of the failures in a row that lead to the newest run of the branch. Variants of a suite differ. */
export function failingSince(runs: readonly PastRun[], branch: string): PastRun | undefined {
  const ofBranch = runs.filter((run) => run.pull_request === null && (branch === '' || run.branch === branch));
  const groups = Map.groupBy(ofBranch, ({ suite_name: suite, variant }) => JSON.stringify([suite, variant]));
  const begins = Array.from(groups.values(), (group) => {
    const end = group.findIndex(({ state }) => state !== 'failed');
    return group.slice(0, end === -1 ? undefined : end).at(-1);
  });
  return begins.filter((begin) => begin !== undefined).toSorted((a, b) => (a.build_id < b.build_id ? -1 : 1))[0];
}

export interface FailedSince {
  build_id: bigint;
  commit_id: bigint;
  commit_ref: string;
}

const mostBefore = 50;
const mostOfSuite = 300;

/**
 * Since which build of the same suite, variant and branch each of these failed tests of a build has failed. If it began
 * to fail in this build, it is this build.
 */
export async function failedSince(
  db: Queries,
  buildId: bigint,
  failed: readonly TestName[],
): Promise<Map<TestName, FailedSince>> {
  if (failed.length === 0) return new Map();
  const runs = await runsUpTo(db, buildId);
  const failures = await failedKeys(
    db,
    runs.map(({ build_id: id }) => id),
  );
  return new Map(
    failed.flatMap((test) => {
      const key = keyOf(test);
      const end = runs.findIndex(({ build_id: id }) => failures.get(id)?.has(key) !== true);
      const first = runs.slice(0, end === -1 ? undefined : end).at(-1);
      return first ? [[test, first] as const] : [];
    }),
  );
}

/** Complete runs of the same suite, variant and branch, from this build backwards. */
async function runsUpTo(db: Queries, buildId: bigint): Promise<FailedSince[]> {
  const own = await db
    .selectFrom('builds')
    .innerJoin('build_requests as request', 'request.id', 'builds.build_request_id')
    .select(['builds.project_id', 'builds.suite_name', 'builds.variant', 'request.branch', 'request.pull_request'])
    .where('builds.id', '=', buildId)
    .executeTakeFirstOrThrow();
  const ofSuite = await db
    .selectFrom('test_runs')
    .select('build_id')
    .where('project_id', '=', own.project_id)
    .where('build_id', '<=', buildId)
    .where('suite_name', '=', own.suite_name)
    .where('completed_at', 'is not', null)
    .orderBy('build_id', 'desc')
    .limit(mostOfSuite)
    .execute();
  if (ofSuite.length === 0) return [];
  const alike = db
    .selectFrom('builds')
    .innerJoin('commits', 'commits.id', 'builds.commit_id')
    .innerJoin('build_requests as request', 'request.id', 'builds.build_request_id')
    .select(['builds.id as build_id', 'builds.commit_id', 'commits.ref as commit_ref'])
    .where(
      'builds.id',
      'in',
      ofSuite.map(({ build_id: id }) => id),
    )
    .where('builds.variant', '=', own.variant)
    .where('request.branch', '=', own.branch)
    .where('request.pull_request', own.pull_request === null ? 'is' : '=', own.pull_request);
  const runs = await alike.execute();
  return runs.toSorted((a, b) => (a.build_id > b.build_id ? -1 : 1)).slice(0, mostBefore);
}

async function failedKeys(db: Queries, builds: readonly bigint[]): Promise<Map<bigint, Set<number>>> {
  const keys = new Map<bigint, Set<number>>();
  if (builds.length === 0) return keys;
  const rows = db.selectFrom('test_results').select(['build_id', 'keys']).where('build_id', 'in', builds);
  for (const row of await rows.where('state', '=', 'failed').execute()) {
    const known = keys.get(row.build_id) ?? new Set();
    for (const key of keysIn(row.keys)) known.add(key);
    keys.set(row.build_id, known);
  }
  return keys;
}

export const trendDays = 30;
const mostInTrend = 2000;

export interface DayOfTests {
  day: string;
  builds: number;
  passed: number;
  failed: number;
  skipped: number;
}

/** The results of the newest builds with tests, by day in UTC, the oldest first. */
export async function testTrend(db: Queries, projectId: bigint, now = Date.now()): Promise<DayOfTests[]> {
  const first = now - (now % day) - (trendDays - 1) * day;
  const runs = await db
    .selectFrom('test_runs')
    .select(['build_id', 'passed', 'failed', 'skipped'])
    .where('project_id', '=', projectId)
    .where('build_id', '>=', firstIdAt(first))
    .orderBy('build_id', 'desc')
    .limit(mostInTrend)
    .execute();
  const byDay = Map.groupBy(runs, ({ build_id: id }) => Math.floor(timeOfId(id) / day));
  const oldest = runs.at(-1);
  const days: DayOfTests[] = [];
  for (let at = oldest ? Math.floor(timeOfId(oldest.build_id) / day) : Infinity; at * day <= now; at += 1) {
    const some = byDay.get(at) ?? [];
    const sum = (of: 'passed' | 'failed' | 'skipped'): number => some.reduce((total, run) => total + run[of], 0);
    const counts = { passed: sum('passed'), failed: sum('failed'), skipped: sum('skipped') };
    days.push({ day: new Date(at * day).toISOString().slice(0, 10), builds: some.length, ...counts });
  }
  return days;
}
