import { sql } from 'kysely';
import type { Queries, Transaction } from '../db/open.ts';
import { prepared, preparedChange } from '../db/prepared.ts';
import type { DeliveryRow, NotificationRow, ProjectRow } from '../db/schema.ts';
import type { IdSource } from '../lib/ids.ts';
import { dropDeliveryJob, ensureDeliveryJobs, hurryDeliveryJob } from '../queue/delivery-jobs.ts';
import type { WriteContext } from './write-context.ts';
import { deliveryMachine, statesBefore, type DeliveryState } from './states.ts';
import { takePlace } from './webhook-events.ts';

/** What came of sending something once. */
export interface Attempt {
  /** null when there was no answer; then `error` says why. */
  status: number | null;
  durationMs: number;
  answer: string;
  error: string;
}

/** As a literal: with a parameter in its place, neither database would see that the index of what waits applies. */
const waiting = sql.lit(deliveryMachine.initial);

/** The first in a notification's line, with what sending it takes; undefined when nothing waits. */
export async function headOfLine(db: Queries, notificationId: bigint): Promise<Readonly<Outgoing> | undefined> {
  const [head] = await findHead(db, { notification: notificationId });
  return head;
}

export interface Outgoing
  extends
    Pick<DeliveryRow, 'id' | 'payload' | 'since' | 'notification_id'>,
    Pick<NotificationRow, 'url' | 'secret' | 'project_id' | 'name' | 'repository'>,
    Pick<ProjectRow, 'ssh_public_key'> {}

const findHead = prepared<{ notification: bigint }, Outgoing>((db, value) =>
  db
    .selectFrom('deliveries')
    .innerJoin('notifications', 'notifications.id', 'deliveries.notification_id')
    .innerJoin('projects', 'projects.id', 'notifications.project_id')
    .select(['deliveries.id', 'deliveries.payload', 'deliveries.since', 'deliveries.notification_id'])
    .select(['notifications.url', 'notifications.secret', 'notifications.project_id', 'projects.ssh_public_key'])
    .select(['notifications.name', 'notifications.repository'])
    .where('deliveries.notification_id', '=', value('notification'))
    .where('deliveries.state', '=', waiting)
    .orderBy('deliveries.position')
    .limit(sql.lit(1)),
);

/** Keeps what came of an attempt; nothing when the delivery was deleted meanwhile. */
export async function recordAttempt(
  { trx, ids }: { trx: Transaction; ids: IdSource },
  deliveryId: bigint,
  { status, durationMs, answer, error }: Attempt,
): Promise<void> {
  const kept = await trx.selectFrom('deliveries').select('id').where('id', '=', deliveryId).executeTakeFirst();
  if (!kept) return;
  const row = { id: ids.next(), delivery_id: deliveryId, status, duration_ms: Math.round(durationMs), answer, error };
  await trx
    .insertInto('delivery_attempts')
    .values({ ...row, created_at: BigInt(Date.now()) })
    .execute();
}

export async function markDelivered(trx: Transaction, deliveryId: bigint): Promise<void> {
  await move(trx, 'delivered').where('id', '=', deliveryId).execute();
}

const moveTo = preparedChange<Pick<DeliveryRow, 'id' | 'position' | 'state' | 'since'>>((db, value) =>
  db
    .updateTable('deliveries')
    .set({ state: value('state'), since: value('since'), position: value('position') })
    .where('id', '=', value('id')),
);

/** The receiver says that it will never take this one: what comes after it need not wait. */
export async function markRefused(trx: Transaction, deliveryId: bigint): Promise<void> {
  await move(trx, 'failed').where('id', '=', deliveryId).execute();
}

/** Gives up on everything in a notification's line that has been tried, or has waited, since before the moment. */
export async function giveUpOn(trx: Transaction, notificationId: bigint, before: number): Promise<bigint> {
  const line = move(trx, 'failed').where('notification_id', '=', notificationId).where('state', '=', waiting);
  const old = line.where('since', '<=', BigInt(before));
  return (await old.executeTakeFirst()).numUpdatedRows;
}

function move(trx: Transaction, to: DeliveryState) {
  return trx.updateTable('deliveries').set({ state: to }).where('state', 'in', statesBefore(deliveryMachine, to));
}

/**
 * Sends something once more: at the end of the line when it was over, where it stands when it waits. Somebody asks for
 * this who believes that the receiver is there, so the whole line is tried at once.
 */
export async function sendAgain(context: WriteContext, accountId: bigint, delivery: DeliveryRow): Promise<DeliveryRow> {
  const { db, trx, ids } = context;
  const [place] = await takePlace(context, delivery.notification_id);
  const again = { state: deliveryMachine.initial, since: BigInt(Date.now()) };
  const isOver = delivery.state !== deliveryMachine.initial;
  const position = isOver && place ? place.position : delivery.position;
  // The delivery job first: whoever runs it holds it, and touches deliveries then.
  await ensureDeliveryJobs(db, trx, ids, [{ subjectId: delivery.notification_id, accountId }]);
  await hurryDeliveryJob(db, trx, delivery.notification_id);
  await moveTo(trx, { id: delivery.id, position, ...again });
  return { ...delivery, ...again, position };
}

/** Tries everything that waits for a receiver at once: there is reason to believe that it answers now. */
export async function tryLineNow({ db, trx }: WriteContext, notificationId: bigint): Promise<void> {
  await hurryDeliveryJob(db, trx, notificationId);
}

/** Lets go of everything that waits for a receiver: its notification is about to be deleted, and the line with it. */
export async function dropLine(context: WriteContext, notificationId: bigint): Promise<void> {
  await takePlace(context, notificationId); // whoever has news for it waits here, and then finds nobody to tell
  await dropDeliveryJob(context.trx, notificationId);
}

/** Forgets what was over before the identifier was made, a little at a time; answers how much it was. */
export async function forgetDeliveries(trx: Transaction, before: bigint, most: number): Promise<number> {
  const old = trx
    .selectFrom('deliveries')
    .select('id')
    .where('id', '<', before)
    .where('state', '!=', deliveryMachine.initial)
    .orderBy('id')
    .limit(most);
  const { numDeletedRows } = await trx.deleteFrom('deliveries').where('id', 'in', old).executeTakeFirst();
  return Number(numDeletedRows);
}
