import type { Database, Queries } from '../db/open.ts';
import type { TestFlakeRow } from '../db/schema.ts';
import { cutBytes } from '../../shared/lib/cut-bytes.ts';
import { keyOf, keysIn, unpackTests, type PlacedTest, type TestName } from './packed-tests.ts';

/**
 * Tests that both failed and passed on the same commit, suite and variant. Once a build's tests are complete, the tests
 * of all attempts are compared. The results have their own rows, so listing them is fast.
 */

/** The newest attempts at a commit that are compared. */
const mostAttempts = 100;
/** If more tests failed, something else is broken. */
const mostFailed = 1000;
const longestMessage = 2048;

type Tested = Pick<TestFlakeRow, 'project_id' | 'suite_name' | 'commit_id' | 'variant'>;

interface Attempt {
  build_id: bigint;
  completed_at: bigint;
}

interface FailedTest {
  failures: number;
  passes: number;
  first: Attempt;
  last: Attempt;
  row: { build_id: bigint; start: number; state: string };
}

/** Call once the build's tests are complete. */
export async function noteFlakes(db: Database, buildId: bigint): Promise<void> {
  const tested = await findTested(db.read, buildId);
  if (!tested) return;
  const attempts = await attemptsAt(db.read, tested);
  const found = await failedIn(db.read, attempts);
  if (found.size === 0) return;
  await countPasses(db.read, attempts, found);
  for (const [key, { passes }] of found) if (passes === 0) found.delete(key);
  const rows = await describe(db.read, tested, found);
  // In a fixed order, so that two servers cannot deadlock.
  rows.sort((a, b) => (a.test_key < b.test_key ? -1 : 1));
  for (let at = 0; at < rows.length; at += 50) await store(db, rows.slice(at, at + 50));
}

async function findTested(db: Queries, buildId: bigint): Promise<Tested | undefined> {
  return db
    .selectFrom('builds')
    .select(['project_id', 'suite_name', 'commit_id', 'variant'])
    .where('id', '=', buildId)
    .executeTakeFirst();
}

/** The oldest attempt first. */
async function attemptsAt(db: Queries, { commit_id: commit, suite_name: suite, variant }: Tested): Promise<Attempt[]> {
  const newest = await db
    .selectFrom('test_runs')
    .innerJoin('builds', 'builds.id', 'test_runs.build_id')
    .select(['test_runs.build_id', 'test_runs.completed_at'])
    .where('test_runs.commit_id', '=', commit)
    .where('test_runs.suite_name', '=', suite)
    .where('builds.variant', '=', variant)
    .where('test_runs.completed_at', 'is not', null)
    .orderBy('test_runs.build_id', 'desc')
    .limit(mostAttempts)
    .execute();
  return newest.map(({ build_id, completed_at }) => ({ build_id, completed_at: completed_at ?? 0n })).toReversed();
}

async function failedIn(db: Queries, attempts: readonly Attempt[]): Promise<Map<number, FailedTest>> {
  const found = new Map<number, FailedTest>();
  for (const attempt of attempts) {
    const rows = await db
      .selectFrom('test_results')
      .select(['build_id', 'start', 'state', 'keys', 'content'])
      .where('build_id', '=', attempt.build_id)
      .where('state', 'in', ['failed', 'retried'])
      .orderBy('start')
      .execute();
    for (const { keys, content, ...row } of rows) {
      const retried = row.state === 'retried' ? await unpackTests({ ...row, content }) : [];
      let at = 0;
      for (const key of keysIn(keys)) {
        const test = retried[at];
        at += 1;
        const known = found.get(key);
        if (!known && found.size >= mostFailed) continue;
        const { failures = 0, passes = 0, first = attempt } = known ?? {};
        const more = { failures: test?.failures ?? 1, passes: test ? 1 : 0 };
        found.set(key, {
          failures: failures + more.failures,
          passes: passes + more.passes,
          first,
          last: attempt,
          row,
        });
      }
    }
  }
  return found;
}

async function countPasses(db: Queries, attempts: readonly Attempt[], found: Map<number, FailedTest>): Promise<void> {
  for (const { build_id: id } of attempts) {
    const passed = db.selectFrom('test_results').select('keys').where('build_id', '=', id);
    for (const { keys } of await passed.where('state', '=', 'passed').execute()) {
      for (const key of keysIn(keys)) {
        const test = found.get(key);
        if (test) test.passes += 1;
      }
    }
  }
}

async function describe(db: Queries, tested: Tested, found: ReadonlyMap<number, FailedTest>): Promise<TestFlakeRow[]> {
  const byRow = Map.groupBy(found, ([, { row }]) => `${row.build_id} ${row.start} ${row.state}`);
  const flakes: TestFlakeRow[] = [];
  for (const some of byRow.values()) {
    const row = some[0]?.[1].row;
    if (!row) continue;
    const packed = await db
      .selectFrom('test_results')
      .select(['state', 'content'])
      .where('build_id', '=', row.build_id)
      .where('start', '=', row.start)
      .where('state', '=', row.state)
      .executeTakeFirst();
    const tests = new Map<number, PlacedTest>();
    for (const test of packed ? await unpackTests(packed) : []) tests.set(keyOf(test), test);
    for (const [key, { failures, passes, first, last }] of some) {
      const test = tests.get(key);
      if (!test) continue;
      flakes.push({
        ...tested,
        test_key: BigInt(key),
        name: test.name,
        class: test.class,
        suite: test.suite,
        failures,
        passes,
        message: cutBytes(Buffer.from(test.message), longestMessage),
        failed_build_id: last.build_id,
        began_at: first.completed_at,
        last_seen_at: last.completed_at,
      });
    }
  }
  return flakes;
}

async function store(db: Database, flakes: TestFlakeRow[]): Promise<void> {
  await db.transaction((trx) =>
    trx
      .insertInto('test_flakes')
      .values(flakes)
      .onConflict((conflict) =>
        conflict.columns(['commit_id', 'suite_name', 'variant', 'test_key']).doUpdateSet((row) => ({
          failures: row.ref('excluded.failures'),
          passes: row.ref('excluded.passes'),
          message: row.ref('excluded.message'),
          failed_build_id: row.ref('excluded.failed_build_id'),
          last_seen_at: row.ref('excluded.last_seen_at'),
        })),
      )
      .execute(),
  );
}

const day = 24 * 60 * 60 * 1000;
/** Fixed tests disappear from the list after this time. */
export const flakyDays = 30;
const mostRows = 5000;
const mostShown = 200;

export interface FlakyTest extends TestName {
  failures: number;
  passes: number;
  commits: number;
  message: string;
  lastSeenAt: bigint;
  failedBuildId: bigint;
  beganOn: bigint;
  beganAt: bigint;
}

/** Ordered by number of commits, then the latest. */
export async function flakyTests(db: Queries, projectId: bigint, now = Date.now()): Promise<FlakyTest[]> {
  const rows = await db
    .selectFrom('test_flakes')
    .selectAll()
    .where('project_id', '=', projectId)
    .where('last_seen_at', '>=', BigInt(now - flakyDays * day))
    .orderBy('last_seen_at', 'desc')
    .limit(mostRows)
    .execute();
  const groups = Map.groupBy(rows, ({ name, class: of, suite }) => JSON.stringify([suite, of, name]));
  return Array.from(groups.values(), together)
    .toSorted((a, b) => b.commits - a.commits || Number(b.lastSeenAt - a.lastSeenAt))
    .slice(0, mostShown);
}

export async function countFlaky(db: Queries, projectId: bigint, now = Date.now()): Promise<number> {
  const counted = await db
    .selectFrom((of) =>
      of
        .selectFrom((from) =>
          from
            .selectFrom('test_flakes')
            .select(['suite', 'class', 'name'])
            .where('project_id', '=', projectId)
            .where('last_seen_at', '>=', BigInt(now - flakyDays * day))
            .orderBy('last_seen_at', 'desc')
            .limit(mostRows)
            .as('rows'),
        )
        .selectAll()
        .distinct()
        .as('tests'),
    )
    .select((of) => of.fn.countAll().as('count'))
    .executeTakeFirstOrThrow();
  return Math.min(mostShown, Number(counted.count));
}

function together(rows: TestFlakeRow[]): FlakyTest {
  const [newest] = rows as [TestFlakeRow];
  const first = rows.reduce((oldest, row) => (row.began_at < oldest.began_at ? row : oldest), newest);
  return {
    name: newest.name,
    class: newest.class,
    suite: newest.suite,
    failures: rows.reduce((sum, row) => sum + row.failures, 0),
    passes: rows.reduce((sum, row) => sum + row.passes, 0),
    commits: new Set(rows.map((row) => row.commit_id)).size,
    message: newest.message,
    lastSeenAt: newest.last_seen_at,
    failedBuildId: newest.failed_build_id,
    beganOn: first.commit_id,
    beganAt: first.began_at,
  };
}
