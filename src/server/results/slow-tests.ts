import type { Queries } from '../db/open.ts';
import type { Test, TestName } from './packed-tests.ts';

/** Each build stores its slowest tests, and the newest lists are merged, because reading all tests would take long. */
const mostOfBuild = 100;
const mostBuilds = 100;
const mostShown = 100;

/** A tuple, to keep the stored lists short. */
export type SlowTest = [durationMs: number, name: string, of: string, suite: string];

export function slowestOf(tests: readonly Test[]): SlowTest[] {
  const ran = tests.filter(({ state, durationMs }) => state !== 'skipped' && durationMs > 0);
  return longest(
    ran.map(({ durationMs, name, class: of, suite }) => [durationMs, name, of, suite]),
    mostOfBuild,
  );
}

export function mergeSlowest(one: readonly SlowTest[], other: readonly SlowTest[]): SlowTest[] {
  return longest([...one, ...other], mostOfBuild);
}

function longest<T extends [number, ...unknown[]]>(tests: T[], most: number): T[] {
  return tests.toSorted(([a], [b]) => b - a).slice(0, most);
}

export interface SlowRuns extends TestName {
  durationMs: number;
  runs: number;
}

/** In the newest builds, on average. */
export async function slowTests(db: Queries, projectId: bigint): Promise<SlowRuns[]> {
  const lists = await db
    .selectFrom('test_runs')
    .select('slowest')
    .where('project_id', '=', projectId)
    .where('completed_at', 'is not', null)
    .orderBy('build_id', 'desc')
    .limit(mostBuilds)
    .execute();
  const found = new Map<string, SlowRuns>();
  for (const { slowest } of lists) {
    for (const [durationMs, name, of, suite] of JSON.parse(slowest) as SlowTest[]) {
      const key = JSON.stringify([suite, of, name]);
      const known = found.get(key) ?? { name, class: of, suite, durationMs: 0, runs: 0 };
      known.durationMs += durationMs;
      known.runs += 1;
      found.set(key, known);
    }
  }
  return Array.from(found.values(), (test) => ({ ...test, durationMs: Math.round(test.durationMs / test.runs) }))
    .toSorted((a, b) => b.durationMs - a.durationMs)
    .slice(0, mostShown);
}
