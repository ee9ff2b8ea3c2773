import type { Queries } from '../db/open.ts';
import { firstIdAt } from '../../shared/lib/ids.ts';

/**
 * How a project did in the last days, from its builds and build requests. Nothing is stored for it: a limited number of
 * rows is read, the newest first. If there are more, `since` is later.
 */
export const statisticsDays = 30;
const mostBuilds = 2000;
const mostRequests = 1000;
const mostSuites = 100;
const day = 24 * 60 * 60 * 1000;

const outcomes: readonly string[] = ['passed', 'failed', 'errored', 'timed_out'];

interface BuildTimes {
  build_request_id: bigint;
  suite_name: string;
  build_state: string;
  created_at: bigint;
  started_at: bigint | null;
  finished_at: bigint | null;
  by_machine: number;
  /** Whether it could start as soon as it was created. */
  isFree: boolean;
}

interface RequestEnd {
  passed: boolean;
  /** From the start of its first build. */
  took: number;
  endedAt: number;
}

/** Times are in milliseconds. A median is null without values. */
export interface DayOfProject {
  day: string;
  finished: number;
  passed: number;
  took: number | null;
  waited: number | null;
  timeToGreen: number | null;
}

export interface SuiteOfProject {
  name: string;
  builds: number;
  passed: number;
  /** Builds that were tried again because of the machine. */
  byMachine: number;
  /** Of the builds that passed. */
  median: number | null;
  /** 95 of 100 passed builds took at most this long. */
  slow: number | null;
}

export interface Statistics extends Omit<DayOfProject, 'day'> {
  since: number;
  days: DayOfProject[];
  suites: SuiteOfProject[];
}

/** `branch` is the default branch. If it is blank, all branches count. */
export async function statisticsOf(
  db: Queries,
  projectId: bigint,
  branch: string,
  now = Date.now(),
): Promise<Statistics> {
  const midnight = now - (now % day);
  const first = midnight - (statisticsDays - 1) * day;
  const builds = await buildsSince(db, projectId, first);
  const oldest = builds.length === mostBuilds ? builds.at(-1) : undefined;
  const since = Math.max(first, Number(oldest?.created_at ?? 0n));
  const ends = await endsSince(db, { projectId, branch, since, builds });
  const greens = timesToGreen(ends);
  const waits = builds.flatMap(({ isFree, created_at: created, started_at: started }) =>
    isFree && started !== null ? [{ at: Number(started), waited: Math.max(0, Number(started - created)) }] : [],
  );
  const summary = (isIn: (at: number) => boolean): Omit<DayOfProject, 'day'> => {
    const some = ends.filter(({ endedAt }) => isIn(endedAt));
    return {
      finished: some.length,
      passed: some.filter(({ passed }) => passed).length,
      took: median(some.filter(({ passed }) => passed).map(({ took }) => took)),
      waited: median(waits.filter(({ at }) => isIn(at)).map(({ waited }) => waited)),
      timeToGreen: median(greens.filter(({ at }) => isIn(at)).map(({ took }) => took)),
    };
  };
  const days: DayOfProject[] = [];
  for (let from = since - (since % day); from <= now; from += day) {
    const isIn = (at: number): boolean => at >= from && at < from + day;
    days.push({ day: new Date(from).toISOString().slice(0, 10), ...summary(isIn) });
  }
  return { since, ...summary(() => true), days, suites: suitesOf(builds) };
}

async function buildsSince(db: Queries, projectId: bigint, since: number): Promise<BuildTimes[]> {
  const rows = await db
    .selectFrom('builds')
    .select(['build_request_id', 'suite_name', 'build_state', 'created_at', 'started_at', 'finished_at'])
    .select(['needs', 'approval', 'concurrency_group', 'by_machine'])
    .where('project_id', '=', projectId)
    .where('id', '>=', firstIdAt(since))
    .where('counts', '=', 1)
    .where('reused_from_id', 'is', null)
    .orderBy('id', 'desc')
    .limit(mostBuilds)
    .execute();
  return rows.map(({ needs, approval, concurrency_group: group, ...build }) => ({
    ...build,
    isFree: needs === '[]' && approval === 0 && group === '' && build.by_machine === 0,
  }));
}

interface Wanted {
  projectId: bigint;
  branch: string;
  since: number;
  builds: readonly BuildTimes[];
}

/** The requests that ended, in the order of their ends. */
async function endsSince(db: Queries, { projectId, branch, since, builds }: Wanted): Promise<RequestEnd[]> {
  const requests = db
    .selectFrom('build_requests')
    .select(['id', 'build_state'])
    .where('project_id', '=', projectId)
    .where('id', '>=', firstIdAt(since))
    .where('deploy_id', 'is', null);
  // The condition on pull requests repeats the index's.
  const wanted = branch === '' ? requests : requests.where('branch', '=', branch).where('pull_request', 'is', null);
  const newest = await wanted.orderBy('id', 'desc').limit(mostRequests).execute();
  const byRequest = Map.groupBy(builds, ({ build_request_id: id }) => id);
  return newest
    .filter(({ build_state: state }) => outcomes.includes(state))
    .flatMap(({ id, build_state: state }) => {
      const own = (byRequest.get(id) ?? []).filter(({ started_at: at }) => at !== null);
      if (own.length === 0) return [];
      const from = Math.min(...own.map(({ started_at: at }) => Number(at)));
      const endedAt = Math.max(...own.map(({ started_at: at, finished_at: end }) => Number(end ?? at)));
      return [{ passed: state === 'passed', took: endedAt - from, endedAt }];
    })
    .toSorted((a, b) => a.endedAt - b.endedAt);
}

/** From the first request that did not pass to the next one that did. */
function timesToGreen(ends: readonly RequestEnd[]): { at: number; took: number }[] {
  const times: { at: number; took: number }[] = [];
  let redSince: number | undefined;
  for (const { passed, endedAt } of ends) {
    if (!passed) redSince ??= endedAt;
    else if (redSince !== undefined) {
      times.push({ at: endedAt, took: endedAt - redSince });
      redSince = undefined;
    }
  }
  return times;
}

function suitesOf(builds: readonly BuildTimes[]): SuiteOfProject[] {
  const over = builds.filter(({ build_state: state }) => outcomes.includes(state));
  return Array.from(
    Map.groupBy(over, ({ suite_name: name }) => name),
    ([name, some]) => {
      const passed = some.filter(({ build_state: state }) => state === 'passed');
      const took = passed.flatMap(({ started_at: from, finished_at: to }) =>
        from === null || to === null ? [] : [Number(to - from)],
      );
      const times = { median: median(took), slow: quantile(took, 0.95) };
      const byMachine = some.filter(({ by_machine: one }) => one === 1).length;
      return { name, builds: some.length, passed: passed.length, byMachine, ...times };
    },
  )
    .toSorted((a, b) => (b.median ?? 0) - (a.median ?? 0))
    .slice(0, mostSuites);
}

function median(values: readonly number[]): number | null {
  return quantile(values, 0.5);
}

/** The smallest value that at least this share of the values does not exceed. */
function quantile(values: readonly number[], share: number): number | null {
  if (values.length === 0) return null;
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.ceil(share * sorted.length) - 1] ?? null;
}
