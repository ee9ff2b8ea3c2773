import type { Database, Queries, Transaction } from '../db/open.ts';
import type { TestRunRow } from '../db/schema.ts';
import { firstIdAt } from '../../shared/lib/ids.ts';
import { storedAs, unpackTests, type PackedTests, type PlacedTest, type TestState } from './packed-tests.ts';
import { mergeSlowest, type SlowTest } from './slow-tests.ts';

export const mostInBatch = 500;

export interface Batch {
  start: number;
  packed: PackedTests[];
  counts: Record<TestState, number>;
  slowest: SlowTest[];
  bytes: number;
  isLast: boolean;
}

export interface TestLimits {
  tests: number;
  bytes: number;
}

export type Added = 'stored' | 'full' | { expected: number };

/** For a build whose job the caller holds. Adding the same batch again changes nothing. */
export async function addTests(
  db: Database,
  trx: Transaction,
  buildId: bigint,
  batch: Batch,
  limits: TestLimits,
): Promise<Added> {
  const runs = trx.selectFrom('test_runs').selectAll().where('build_id', '=', buildId);
  const run = (await db.locked(runs, 'test_runs').executeTakeFirst()) ?? (await beginRun(trx, buildId));
  const count = batch.packed.reduce((sum, { count: some }) => sum + some, 0);
  if (run.completed_at !== null) return 'stored';
  if (batch.start < run.size && batch.start + count <= run.size) return 'stored';
  if (batch.start !== run.size) return { expected: run.size };
  if (run.size + count > limits.tests || Number(run.bytes) + batch.bytes > limits.bytes) return 'full';
  const after = grown(run, batch, count);
  if (count > 0) {
    const rows = batch.packed.map((packed) => ({ build_id: buildId, ...packed }));
    await trx.insertInto('test_results').values(rows).execute();
  }
  const completedAt = batch.isLast ? BigInt(Date.now()) : null;
  const { build_id: _, ...columns } = { ...after, completed_at: completedAt };
  await trx.updateTable('test_runs').set(columns).where('build_id', '=', buildId).execute();
  return 'stored';
}

async function beginRun(trx: Transaction, buildId: bigint): Promise<TestRunRow> {
  const build = await trx
    .selectFrom('builds')
    .select(['project_id', 'suite_name', 'commit_id'])
    .where('id', '=', buildId)
    .executeTakeFirstOrThrow();
  const none = { size: 0, bytes: 0n, passed: 0, failed: 0, skipped: 0, slowest: '[]', completed_at: null };
  const run: TestRunRow = { build_id: buildId, ...build, ...none };
  await trx.insertInto('test_runs').values(run).execute();
  return run;
}

function grown(run: TestRunRow, { counts, slowest, bytes }: Batch, count: number): TestRunRow {
  return {
    ...run,
    size: run.size + count,
    bytes: run.bytes + BigInt(bytes),
    passed: run.passed + counts.passed,
    failed: run.failed + counts.failed,
    skipped: run.skipped + counts.skipped,
    slowest: JSON.stringify(mergeSlowest(JSON.parse(run.slowest) as SlowTest[], slowest)),
  };
}

export function countsOf(trx: Transaction, buildId: bigint): Promise<Pick<TestRunRow, TestState>> {
  const runs = trx.selectFrom('test_runs').select(['passed', 'failed', 'skipped']).where('build_id', '=', buildId);
  return runs.executeTakeFirstOrThrow();
}

export interface Wanted {
  state?: TestState | undefined;
  text?: string;
  /** Positions; `to` is exclusive. */
  from?: number;
  to?: number;
  fromEnd?: boolean;
  limit: number;
}

const readAtOnce = 10 * mostInBatch;

/** In the order of the build's reports. Reads no more rows than it needs. */
export async function testsOf(db: Queries, buildId: bigint, wanted: Wanted): Promise<PlacedTest[]> {
  const { state, text = '', from = 0, to = Infinity, fromEnd = false, limit } = wanted;
  const all = db
    .selectFrom('test_results')
    .innerJoin('test_runs', 'test_runs.build_id', 'test_results.build_id')
    .where('test_results.build_id', '=', buildId)
    .where('test_runs.completed_at', 'is not', null);
  const some = state === undefined ? all : all.where('test_results.state', 'in', storedAs[state]);
  const heads = await some
    .select(['start', 'state', 'count'])
    .orderBy('start', fromEnd ? 'desc' : 'asc')
    .execute();
  const left = heads.filter(({ start }) => start + mostInBatch > from && start < to);
  const found: PlacedTest[] = [];
  while (left.length > 0 && found.length < limit) {
    const starts = new Set<number>();
    let sure = 0; // tests that are certainly between the two positions
    for (let next = left[0]; next; next = left[0]) {
      if (sure >= (text === '' ? limit - found.length : readAtOnce) && !starts.has(next.start)) break;
      left.shift();
      starts.add(next.start);
      if (next.start >= from && next.start + mostInBatch <= to) sure += next.count;
    }
    const rows = await some
      .select(['test_results.state', 'content'])
      .where('start', 'in', [...starts])
      .execute();
    const tests = (await Promise.all(rows.map(unpackTests))).flat();
    found.push(...tests.filter((test) => test.at >= from && test.at < to && hasText(test, text.toLowerCase())));
  }
  found.sort((a, b) => a.at - b.at);
  return fromEnd ? found.slice(-limit) : found.slice(0, limit);
}

function hasText({ name, class: of, suite, file }: PlacedTest, text: string): boolean {
  return [name, of, suite, file].some((field) => field.toLowerCase().includes(text));
}

const day = 24 * 60 * 60 * 1000;
/** Small transactions let other transactions run in between. */
const atOnce = 100;

/** The counts stay in the build. Tests whose last batch never came are removed when their build is over. */
export async function forgetOldTests(db: Database, days: number, now = Date.now()): Promise<number> {
  let forgotten = await forgetUnfinished(db);
  if (days === 0) return forgotten;
  const before = BigInt(now - days * day);
  for (;;) {
    const old = await db.read
      .selectFrom('test_runs')
      .select('build_id')
      .where('build_id', '<', firstIdAt(Number(before)))
      .where('completed_at', '<', before)
      .orderBy('build_id')
      .limit(atOnce)
      .execute();
    if (old.length === 0) break;
    forgotten += await forget(
      db,
      old.map(({ build_id: id }) => id),
    );
  }
  await db.transaction((trx) => trx.deleteFrom('test_flakes').where('last_seen_at', '<', before).execute());
  return forgotten;
}

async function forgetUnfinished(db: Database): Promise<number> {
  const left = await db.read
    .selectFrom('test_runs')
    .innerJoin('builds', 'builds.id', 'test_runs.build_id')
    .select('test_runs.build_id')
    .where('test_runs.completed_at', 'is', null)
    .where('builds.finished_at', 'is not', null)
    .execute();
  return forget(
    db,
    left.map(({ build_id: id }) => id),
  );
}

async function forget(db: Database, builds: bigint[]): Promise<number> {
  if (builds.length === 0) return 0;
  await db.transaction((trx) => trx.deleteFrom('test_runs').where('build_id', 'in', builds).execute());
  return builds.length;
}
