import type { Queries } from '../db/open.ts';
import type { BuildRow } from '../db/schema.ts';
import { most } from '../../shared/domain/bounds.ts';
import { enqueue } from '../queue/queue.ts';
import { beginLogs } from '../streams/logs.ts';
import { insertRows } from '../db/insert.ts';
import { holdForBuilds } from './apply-rollup.ts';
import { buildMachine } from './states.ts';
import type { WriteContext } from './write-context.ts';

/*
 * Some reused builds are run all the same, to find suites whose result depends on more than their inputs. Such a build
 * counts for nothing, and has numbers of attempts below those of the others. If it fails, its suite is not reused any
 * more until a user switches that on.
 */

/** Runners take these after all other jobs (dispatch/orders.ts). */
export const spareKind = 'check_reuse';

/** Runs a reused build all the same. */
export async function addCheck(
  context: WriteContext,
  id: bigint,
  { accountId, tags }: { accountId: bigint; tags: string },
): Promise<void> {
  const { db, trx, ids } = context;
  const reused = await trx.selectFrom('builds').selectAll().where('id', '=', id).executeTakeFirstOrThrow();
  const { project_id: projectId, suite_name: suiteName, commit_id: commitId, variant } = reused;
  await holdForBuilds(context, reused.build_request_id, commitId);
  const open = trx
    .selectFrom('builds')
    .select('id')
    .where('checks_id', 'is not', null)
    .where('finished_at', 'is', null);
  const ofSuite = open.where('project_id', '=', projectId).where('suite_name', '=', suiteName);
  if ((await ofSuite.execute()).length >= most.checksOfSuite) return;
  // A bigint on SQLite, which has no type for the result of a function.
  const attempts = trx.selectFrom('builds').select((of) => of.fn.min<bigint | number>('attempt').as('first'));
  const { first } = await attempts
    .where('commit_id', '=', commitId)
    .where('suite_name', '=', suiteName)
    .where('variant', '=', variant)
    .executeTakeFirstOrThrow();
  const check: BuildRow = {
    ...reused,
    id: ids.next(),
    build_state: buildMachine.initial,
    attempt: Number(first) - 1,
    created_at: BigInt(Date.now()),
    finished_at: null,
    series: ids.next(),
    retries_left: 0,
    tests_passed: 0,
    tests_failed: 0,
    tests_skipped: 0,
    steps: '', // as its suite has them when it begins
    needs: '[]',
    concurrency_group: '', // it joins the group when it begins
    counts: 0,
    may_reuse: 0,
    reused_from_id: null,
    checks_id: id,
  };
  await insertRows(trx, 'builds', [check]);
  await beginLogs(trx, [check.id], projectId);
  await enqueue(db, trx, ids, { kind: spareKind, subjectId: check.id, accountId, tags });
}

/** An image or the machine may be another one by the time that a check runs, and then it proves nothing. */
export async function stoodOnTheSame(db: Queries, check: bigint, reused: bigint): Promise<boolean> {
  const digests = db.selectFrom('build_inputs').select(['ordered_key', 'reported_key']).distinct();
  return (await digests.where('id', 'in', [check, reused]).execute()).length === 1;
}

/** The suite is not reused any more, whatever its file says. */
export async function stopReuse(
  { trx }: WriteContext,
  { id, project_id: projectId, suite_name: name }: Pick<BuildRow, 'id' | 'project_id' | 'suite_name'>,
): Promise<void> {
  const stop = { id, project_id: projectId, suite_name: name };
  await trx
    .insertInto('reuse_stops')
    .values(stop)
    .onConflict((known) => known.columns(['project_id', 'suite_name']).doNothing())
    .execute();
}

export async function stoppedSuites(db: Queries, projectId: bigint): Promise<ReadonlySet<string>> {
  const stops = db.selectFrom('reuse_stops').select('suite_name').where('project_id', '=', projectId);
  return new Set((await stops.execute()).map(({ suite_name: name }) => name));
}

/** A user has switched it on again. A file's suites stay off: what it asks is changed before (config-reuse.ts). */
export async function allowReuse(db: Queries, projectId: bigint, name: string): Promise<void> {
  await db.deleteFrom('reuse_stops').where('project_id', '=', projectId).where('suite_name', '=', name).execute();
}

export async function renameStop(
  db: Queries,
  { projectId, from, to }: { projectId: bigint; from: string; to: string },
): Promise<void> {
  await allowReuse(db, projectId, to); // of an earlier suite
  const stops = db.updateTable('reuse_stops').set({ suite_name: to }).where('project_id', '=', projectId);
  await stops.where('suite_name', '=', from).execute();
}
