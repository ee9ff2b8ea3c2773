import { holdAllForBuilds } from './apply-rollup.ts';
import { cancelHeld, cancelQueued } from './builds.ts';
import { groupOf, holdGroups } from './held-back.ts';
import type { WriteContext } from './write-context.ts';

/**
 * Without its suite, a waiting build has no settings. Running builds already have theirs, and builds configured by a
 * file use the file's. Call this once for all suites, before the transaction locks anything else. It locks these
 * builds' jobs, requests and commits in the common order (db/lock-order.ts).
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
  // The database deletes the suites' caches and service data. A build that starts locks these before its request, so
  // they are locked here first.
  await db.holdRight(trx, 'caches', projectId);
  for (const table of ['caches', 'service_data'] as const) {
    const saved = trx.selectFrom(table).select('id').where('suite_id', 'in', suites).orderBy('id');
    await db.locked(saved, table).execute();
  }
  await holdAllForBuilds(context, waiting);
  await holdGroups(context, waiting.map(groupOf));
  await cancelHeld(context, held, ending);
}
