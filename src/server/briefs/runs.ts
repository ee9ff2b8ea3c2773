import type { Queries } from '../db/open.ts';
import type { BuildRow } from '../db/schema.ts';
import { firstIdAt } from '../../shared/lib/ids.ts';
import { runColumns, type Run } from './line-hashes.ts';

const day = 24 * 60 * 60 * 1000;
const days = 90;
/** Passed runs whose lines are compared, and failed ones whose ends are. */
const mostRuns = 200;
/** How many of the newest builds of a suite are searched for them. */
const mostSearched = 2000;

export interface PastRun extends Run {
  branch: string;
}

/** A fork's runs count for its own pull request alone. */
export interface Origin {
  branch: string;
  fork: bigint | undefined;
}

type Compared = Pick<BuildRow, 'id' | 'project_id' | 'suite_id' | 'suite_name' | 'variant' | 'build_request_id'>;

export async function originOf(db: Queries, { build_request_id: request }: Pick<BuildRow, 'build_request_id'>) {
  const { branch, from_fork, pull_request } = await db
    .selectFrom('build_requests')
    .select(['branch', 'from_fork', 'pull_request'])
    .where('id', '=', request)
    .executeTakeFirstOrThrow();
  return { branch, fork: from_fork === 1 ? (pull_request ?? 0n) : undefined };
}

/** Runs of the suite, the newest first. The conditions decide what counts as a run. */
function runsOf(db: Queries, suite: Compared, isNewestOf: 'any' | 'before') {
  const ran = db
    .selectFrom('builds')
    .select([...runColumns, 'variant', 'build_request_id', 'commit_id'])
    .where('project_id', '=', suite.project_id)
    .where('started_at', 'is not', null)
    .where('reused_from_id', 'is', null)
    .where('finished_at', 'is not', null);
  const own =
    suite.suite_id === null
      ? ran.where('suite_id', 'is', null).where('suite_name', '=', suite.suite_name)
      : ran.where('suite_id', '=', suite.suite_id);
  const from =
    isNewestOf === 'before'
      ? own.where('id', '<', suite.id)
      : own.where('id', '>=', firstIdAt(Date.now() - days * day));
  return db
    .selectFrom(from.orderBy('id', 'desc').limit(mostSearched).as('b'))
    .innerJoin('build_requests as r', 'r.id', 'b.build_request_id')
    .orderBy('b.id', 'desc');
}

/** Of the last 90 days: on any branch, but a fork's runs for its own pull request alone. */
export async function pastRuns(
  db: Queries,
  build: Compared,
  { fork }: Origin,
): Promise<{ passed: PastRun[]; red: PastRun[] }> {
  const of = (states: string[], most: number): Promise<PastRun[]> =>
    runsOf(db, build, 'any')
      .select(runColumns.map((name) => `b.${name}` as const))
      .select('r.branch')
      .where('b.build_state', 'in', states)
      .where((one) =>
        fork === undefined
          ? one('r.from_fork', '=', 0)
          : one.or([one('r.from_fork', '=', 0), one('r.pull_request', '=', fork)]),
      )
      .limit(most)
      .execute();
  return { passed: await of(['passed'], mostRuns), red: await of(['failed', 'errored', 'timed_out'], mostRuns) };
}

export interface LastPassed {
  id: bigint;
  build_request_id: bigint;
  commit_id: bigint;
}

/** The newest one before the build that passed, in the same variant: of its branch, else of the default branch. */
export async function lastPassed(
  db: Queries,
  build: Compared,
  { branch, fork }: Origin,
): Promise<LastPassed | undefined> {
  const passed = runsOf(db, build, 'before')
    .select(['b.id', 'b.build_request_id', 'b.commit_id'])
    .where('b.build_state', '=', 'passed')
    .where('b.variant', '=', build.variant)
    .limit(1);
  const onBranch = (name: string) =>
    passed.where('r.from_fork', '=', 0).where('r.branch', '=', name).executeTakeFirst();
  const own =
    fork === undefined
      ? branch !== '' && (await onBranch(branch))
      : await passed.where('r.from_fork', '=', 1).where('r.pull_request', '=', fork).executeTakeFirst();
  if (own) return own;
  const { default_branch: name } = await db
    .selectFrom('projects')
    .select('default_branch')
    .where('id', '=', build.project_id)
    .executeTakeFirstOrThrow();
  return name === '' || (fork === undefined && name === branch) ? undefined : onBranch(name);
}
