import { runAgain, type Transaction } from '../db/open.ts';
import type { ProjectRow } from '../db/schema.ts';
import { handOver, handOverDeliveries } from '../queue/queue.ts';
import { mends } from './forges.ts';
import { deleteNotification } from './notifications.ts';
import { holdHooks } from './projects.ts';
import { projectTopic, type WriteContext } from './write-context.ts';

type Moved = Pick<ProjectRow, 'id' | 'owner_id' | 'forge_id'>;

const noForge = {
  forge_id: null,
  forge_state: 'incomplete',
  forge_state_reason: 'The project has a new owner, who has not connected this forge. Connect it again.',
  forge_check_at: null,
  forge_mends: 0,
};

/**
 * Gives a project to another account. What runs goes on, at the cost of the new owner. The project's connection stays
 * if the new owner has the same forge. The old owner's token is never used again. Undefined if another hand-over came
 * first.
 */
export async function giveProject(
  context: WriteContext,
  project: Moved,
  owner: bigint,
): Promise<Partial<ProjectRow> | undefined> {
  const { db, trx } = context;
  await holdHooks(context, project.id);
  const own = (table: 'build_requests' | 'builds' | 'deploys' | 'connection_checks') =>
    trx.selectFrom(table).select('id').where('project_id', '=', project.id);
  const subjects = own('build_requests')
    .unionAll(own('builds'))
    .unionAll(own('deploys'))
    .unionAll(own('connection_checks'));
  await handOver(db, trx, subjects as never, owner);
  const locked = trx.selectFrom('projects').select('owner_id').where('id', '=', project.id);
  const now = await db.lockedForRemoval(locked, 'projects').executeTakeFirst();
  if (now?.owner_id !== project.owner_id) return undefined;
  // A transaction enqueued a job for the old owner before the project was locked.
  const late = trx
    .selectFrom('jobs')
    .select('id')
    .where('subject_id', 'in', subjects as never);
  if (await late.where('account_id', '<>', owner).executeTakeFirst()) runAgain();
  const link: Partial<ProjectRow> = project.forge_id === null ? {} : await linkAt(context, project.forge_id, owner);
  const given = { owner_id: owner, offered_to_id: null, offered_by_id: null, ...link };
  await trx.updateTable('projects').set(given).where('id', '=', project.id).execute();
  const notifications = trx.selectFrom('notifications').select('id').where('project_id', '=', project.id).orderBy('id');
  const receivers = await db.locked(notifications, 'notifications').execute();
  if (project.forge_id !== null) await moveTargets(context, project.id, link.forge_id ?? null);
  await handOverDeliveries(
    trx,
    receivers.map(({ id }) => id),
    owner,
  );
  await db.announce(trx, projectTopic(project.id));
  return given;
}

async function linkAt({ trx }: WriteContext, forgeId: bigint, owner: bigint) {
  const forge = trx.selectFrom('forges').select(['provider', 'url']).where('id', '=', forgeId);
  const { provider, url } = await forge.executeTakeFirstOrThrow();
  const same = trx.selectFrom('forges').select('id').where('owner_id', '=', owner).where('deleted_at', 'is', null);
  const found = await same.where('provider', '=', provider).where('url', '=', url).orderBy('id').executeTakeFirst();
  return found ? { forge_id: found.id, forge_check_at: BigInt(Date.now()), forge_mends: mends.atOnce } : noForge;
}

/** Statuses go out with the token of the project's forge. Without one there are none. */
async function moveTargets(context: WriteContext, projectId: bigint, forgeId: bigint | null): Promise<void> {
  const { trx } = context;
  const targets = trx.selectFrom('notifications').select('id').where('project_id', '=', projectId);
  const ids = (await targets.where('forge_id', 'is not', null).orderBy('id').execute()).map(({ id }) => id);
  if (ids.length === 0) return;
  if (forgeId === null) for (const id of ids) await deleteNotification(context, id);
  else await trx.updateTable('notifications').set({ forge_id: forgeId }).where('id', 'in', ids).execute();
}

export async function offerProject(
  { trx }: Pick<WriteContext, 'trx'>,
  projectId: bigint,
  offer: Pick<ProjectRow, 'offered_to_id' | 'offered_by_id'>,
): Promise<void> {
  await trx.updateTable('projects').set(offer).where('id', '=', projectId).execute();
}

export async function withdrawOffersTo(trx: Transaction, userId: bigint): Promise<void> {
  const none = { offered_to_id: null, offered_by_id: null };
  await trx.updateTable('projects').set(none).where('offered_to_id', '=', userId).execute();
}
