import type { Queries } from '../db/open.ts';
import type { BuildRow } from '../db/schema.ts';
import type { StoredStep } from '../views/build-steps.ts';
import type { WriteContext } from './write-context.ts';

/** A step is slow if it takes this much longer than its median, by both measures. */
const slowerBy = { share: 1.3, ms: 10_000 };
const inARow = 5;
/** How many builds before those five make the median. */
const [leastBefore, mostBefore] = [5, 50];
/** How many builds of a suite, on all branches, are searched for those of one branch. */
const mostSearched = 1000;

export interface StepRun {
  tookMs: number;
  commitId: bigint;
}

export function isSlow(tookMs: number, medianMs: number): boolean {
  return tookMs >= medianMs * slowerBy.share && tookMs >= medianMs + slowerBy.ms;
}

/** `runs` are those of one step that passed, the newest first. Undefined unless the last five were all slow. */
export function slowSince(runs: readonly StepRun[]): { medianMs: number; first: StepRun } | undefined {
  const before = runs.slice(inARow, inARow + mostBefore).map(({ tookMs }) => tookMs);
  const first = runs[inARow - 1];
  if (!first || before.length < leastBefore) return undefined;
  const medianMs = before.toSorted((a, b) => a - b)[Math.ceil(before.length / 2) - 1] ?? 0;
  return runs.slice(0, inARow).every(({ tookMs }) => isSlow(tookMs, medianMs)) ? { medianMs, first } : undefined;
}

type Ended = Pick<BuildRow, 'project_id' | 'suite_id' | 'variant' | 'build_request_id' | 'counts'>;

/** Names the steps of a suite that became slow, and drops those that are quick again. Call it when a build has ended. */
export async function watchSteps(
  { trx, ids }: WriteContext,
  build: Ended,
  steps: readonly StoredStep[],
): Promise<void> {
  const { suite_id: suite, variant, counts } = build;
  if (suite === null || counts === 0) return;
  const known = await trx
    .selectFrom('slow_steps')
    .select(['id', 'branch', 'step', 'median_ms'])
    .where('suite_id', '=', suite)
    .where('variant', '=', variant)
    .execute();
  const isLong = steps.some((step) => (tookOf(step) ?? 0) >= slowerBy.ms);
  if (!isLong && known.length === 0) return;
  const { branch, from_fork: fromFork } = await trx
    .selectFrom('build_requests')
    .select(['branch', 'from_fork'])
    .where('id', '=', build.build_request_id)
    .executeTakeFirstOrThrow();
  if (branch === '' || fromFork === 1) return;
  const runs = await runsOf(trx, { suite, variant, branch });
  const here = known.filter((one) => one.branch === branch);
  const over = here.filter(({ step, median_ms: median }) => {
    const last = runs.get(step)?.[0];
    return !last || !isSlow(last.tookMs, median);
  });
  if (over.length > 0)
    await trx
      .deleteFrom('slow_steps')
      .where(
        'id',
        'in',
        over.map(({ id }) => id),
      )
      .execute();
  for (const [step, some] of runs) {
    const found = here.some((one) => one.step === step) ? undefined : slowSince(some);
    if (!found) continue;
    const about = { project_id: build.project_id, suite_id: suite, variant, branch, step };
    const { medianMs: median_ms, first } = found;
    await trx
      .insertInto('slow_steps')
      .values({ id: ids.next(), ...about, commit_id: first.commitId, median_ms, is_quiet: 0 })
      .onConflict((on) => on.doNothing())
      .execute();
  }
}

/** False if the step is not slow. */
export async function quietStep(trx: Queries, suite: bigint, step: string): Promise<boolean> {
  const quieted = await trx
    .updateTable('slow_steps')
    .set({ is_quiet: 1 })
    .where('suite_id', '=', suite)
    .where('step', '=', step)
    .returning('id')
    .execute();
  return quieted.length > 0;
}

export async function forgetSlowSteps(trx: Queries, suite: bigint): Promise<void> {
  await trx.deleteFrom('slow_steps').where('suite_id', '=', suite).execute();
}

function tookOf({ state, from, to }: StoredStep): number | undefined {
  return state === 'passed' && from !== undefined && to !== undefined ? to - from : undefined;
}

/** By step, the newest first by the age of their requests. A step that the last build does not have is left out. */
async function runsOf(
  db: Queries,
  { suite, variant, branch }: { suite: bigint; variant: string; branch: string },
): Promise<Map<string, StepRun[]>> {
  const builds = await db
    .selectFrom((of) =>
      of
        .selectFrom('builds')
        .select(['id', 'steps', 'commit_id', 'build_request_id'])
        .where('suite_id', '=', suite)
        .where('variant', '=', variant)
        .where('finished_at', 'is not', null)
        .where('counts', '=', 1)
        .where('reused_from_id', 'is', null)
        .orderBy('id', 'desc')
        .limit(mostSearched)
        .as('b'),
    )
    .innerJoin('build_requests as r', 'r.id', 'b.build_request_id')
    .select(['b.steps', 'b.commit_id'])
    .where('r.branch', '=', branch)
    .where('r.from_fork', '=', 0)
    .orderBy('b.build_request_id', 'desc')
    .orderBy('b.id', 'desc')
    .limit(inARow + mostBefore)
    .execute();
  const parsed = builds.map(({ steps, commit_id: commitId }) => ({
    commitId,
    steps: steps === '' ? [] : (JSON.parse(steps) as StoredStep[]),
  }));
  const names = new Set((parsed[0]?.steps ?? []).map(({ name }) => name));
  const runs = new Map<string, StepRun[]>();
  for (const { commitId, steps } of parsed)
    for (const step of steps) {
      const tookMs = tookOf(step);
      if (tookMs === undefined || !names.has(step.name)) continue;
      runs.set(step.name, [...(runs.get(step.name) ?? []), { tookMs, commitId }]);
    }
  return runs;
}
