import { holdAllForBuilds } from './apply-rollup.ts';
import { cancelHeld, cancelQueued } from './builds.ts';
import { groupOf, holdGroups } from './held-back.ts';
import type { WriteContext } from './write-context.ts';

/**
 * Cancels the builds that wait for suites which are about to be deleted: they have no settings then. A running build has
 * them and goes on. A build by a file in the repository has the settings of the file.
 *
 * A transaction that deletes several suites calls this once for all of them before it locks anything else: the jobs,
 * requests and commits of all these builds are locked here, in the order of db/lock-order.ts.
 */
export async function cancelWaitingBuilds(
  context: WriteContext,
  projectId: bigint,
  suites: readonly bigint[],
): Promise<void> {
  if (suites.length === 0) return;
  const { db, trx } = context;
  await db.holdRight(trx, 'suites', projectId);
  const waiting = await trx
    .selectFrom('builds')
    .innerJoin('build_requests', 'build_requests.id', 'builds.build_request_id')
    .selectAll('builds')
    .where('builds.suite_id', 'in', suites)
    .where('builds.finished_at', 'is', null)
    .where('builds.build_state', 'in', ['enqueued', 'waiting_for_approval'])
    .where('build_requests.config_digest', '=', '')
    .orderBy('builds.id')
    .execute();
  if (waiting.length === 0) return;
  const ending = { failure_reason: 'suite_deleted' };
  const held = await cancelQueued(context, waiting, undefined, ending);
  // The database deletes what the suites have saved. A build that begins locks it before its request.
  await db.holdRight(trx, 'caches', projectId);
  for (const table of ['caches', 'service_data'] as const) {
    const saved = trx.selectFrom(table).select('id').where('suite_id', 'in', suites).orderBy('id');
    await db.locked(saved, table).execute();
  }
  await holdAllForBuilds(context, waiting);
  await holdGroups(context, waiting.map(groupOf));
  await cancelHeld(context, held, ending);
}
