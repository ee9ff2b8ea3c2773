import type { Queries } from '../db/open.ts';
import { unpackTests, type PlacedTest } from './packed-tests.ts';

/** The first failed test of each of these builds, in the order of its reports. */
export async function firstFailures(db: Queries, builds: readonly bigint[]): Promise<ReadonlyMap<bigint, PlacedTest>> {
  if (builds.length === 0) return new Map();
  const failed = db
    .selectFrom('test_results')
    .innerJoin('test_runs', 'test_runs.build_id', 'test_results.build_id')
    .where('test_results.build_id', 'in', builds)
    .where('test_results.state', '=', 'failed')
    .where('test_runs.completed_at', 'is not', null);
  const heads = await failed
    .select((of) => ['test_results.build_id', of.fn.min('start').as('start')])
    .groupBy('test_results.build_id')
    .execute();
  if (heads.length === 0) return new Map();
  const rows = await failed
    .select(['test_results.build_id', 'test_results.state', 'content'])
    .where((of) => of.or(heads.map(({ build_id: build, start }) => of.and({ 'test_results.build_id': build, start }))))
    .execute();
  const found = new Map<bigint, PlacedTest>();
  for (const { build_id: build, ...row } of rows) {
    const [first] = await unpackTests(row);
    if (first) found.set(build, first);
  }
  return found;
}
