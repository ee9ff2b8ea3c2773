import { sql } from 'kysely';
import type { Queries, Transaction } from '../db/open.ts';
import type { ForgeRow, WebhookDeliveryRow, NotificationRow, ProjectRow } from '../db/schema.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import { deliveryJobOf, dropDeliveryJob, ensureDeliveryJobs, makeDeliveryJobDue } from '../queue/delivery-jobs.ts';
import type { WriteContext } from './write-context.ts';
import { deliveryMachine, statesBefore, type DeliveryState } from './states.ts';
import { takePosition } from './webhook-events.ts';

export interface Attempt {
  /** null without a response. */
  status: number | null;
  durationMs: number;
  answer: string;
  error: string;
}

/** A literal: with a parameter, no database would use the index of waiting deliveries. */
const waiting = sql.lit(deliveryMachine.initial);

export async function headOfLine(db: Queries, notificationId: bigint): Promise<Readonly<Outgoing> | undefined> {
  return db
    .selectFrom('webhook_deliveries')
    .innerJoin('notifications', 'notifications.id', 'webhook_deliveries.notification_id')
    .innerJoin('projects', 'projects.id', 'notifications.project_id')
    .leftJoin('forges', 'forges.id', 'notifications.forge_id')
    .select([
      'webhook_deliveries.id',
      'webhook_deliveries.payload',
      'webhook_deliveries.since',
      'webhook_deliveries.created_at',
      'webhook_deliveries.position',
      'webhook_deliveries.notification_id',
    ])
    .select(['notifications.url', 'notifications.secret', 'notifications.project_id', 'projects.ssh_public_key'])
    .select(['notifications.name', 'notifications.repository', 'notifications.forge_id', 'forges.token as forge_token'])
    .select((of) => [
      of.fn.coalesce('forges.url', sql.lit('')).as('forge_url'),
      of.fn.coalesce('forges.login', sql.lit('')).as('forge_login'),
    ])
    .where('webhook_deliveries.notification_id', '=', notificationId)
    .where('webhook_deliveries.state', '=', waiting)
    .orderBy('webhook_deliveries.position')
    .limit(1)
    .executeTakeFirst();
}

export interface Outgoing
  extends
    Pick<WebhookDeliveryRow, 'id' | 'payload' | 'since' | 'created_at' | 'position' | 'notification_id'>,
    Pick<NotificationRow, 'url' | 'secret' | 'project_id' | 'name' | 'repository' | 'forge_id'>,
    Pick<ProjectRow, 'ssh_public_key'> {
  forge_token: ForgeRow['token'] | null;
  /** Blank without a connection. */
  forge_url: string;
  forge_login: string;
}

export async function recordAttempt(
  { trx, ids }: { trx: Transaction; ids: IdSource },
  deliveryId: bigint,
  { status, durationMs, answer, error }: Attempt,
): Promise<void> {
  const delivery = await trx
    .selectFrom('webhook_deliveries')
    .select('id')
    .where('id', '=', deliveryId)
    .executeTakeFirst();
  if (!delivery) return;
  const row = { id: ids.next(), delivery_id: deliveryId, status, duration_ms: Math.round(durationMs), answer, error };
  await trx
    .insertInto('webhook_attempts')
    .values({ ...row, created_at: BigInt(Date.now()) })
    .execute();
}

/** False if it was over before. */
export async function markDelivered(trx: Transaction, deliveryId: bigint): Promise<boolean> {
  const moved = await move(trx, 'delivered').where('id', '=', deliveryId).executeTakeFirst();
  return moved.numUpdatedRows === 1n;
}

/** The receiver will never accept it, so later deliveries need not wait. */
export async function markRefused(trx: Transaction, deliveryId: bigint): Promise<void> {
  await move(trx, 'failed').where('id', '=', deliveryId).execute();
}

/**
 * Gives up on deliveries that have waited since before the time. They wait since their creation, or since a user last
 * sent them again.
 */
export async function giveUpOn(trx: Transaction, notificationId: bigint, before: number): Promise<bigint> {
  const line = move(trx, 'failed').where('notification_id', '=', notificationId).where('state', '=', waiting);
  const old = line.where('since', '<=', BigInt(before));
  return (await old.executeTakeFirst()).numUpdatedRows;
}

function move(trx: Transaction, to: DeliveryState) {
  return trx
    .updateTable('webhook_deliveries')
    .set({ state: to })
    .where('state', 'in', statesBefore(deliveryMachine, to));
}

/**
 * A finished delivery moves to the end of the queue. The user expects a response now, so the whole queue is tried at
 * once.
 */
export async function sendAgain(
  context: WriteContext,
  accountId: bigint,
  delivery: WebhookDeliveryRow,
): Promise<WebhookDeliveryRow> {
  const { db, trx, ids } = context;
  const [last] = await takePosition(context, delivery.notification_id);
  const again = { state: deliveryMachine.initial, since: BigInt(Date.now()) };
  const isOver = delivery.state !== deliveryMachine.initial;
  const position = isOver && last ? last.position : delivery.position;
  // Lock the delivery job first. The sender holds it before it writes deliveries.
  await ensureDeliveryJobs(db, trx, ids, [{ subjectId: delivery.notification_id, accountId }]);
  await makeDeliveryJobDue(db, trx, delivery.notification_id);
  await trx
    .updateTable('webhook_deliveries')
    .set({ position, ...again })
    .where('id', '=', delivery.id)
    .execute();
  return { ...delivery, ...again, position };
}

export async function tryLineNow({ db, trx }: WriteContext, notificationId: bigint): Promise<void> {
  await makeDeliveryJobDue(db, trx, notificationId);
}

/** When the first waiting delivery is tried. Undefined if none waits. */
export async function nextTryOf(db: Queries, notificationId: bigint): Promise<bigint | undefined> {
  return (await deliveryJobOf(db, notificationId))?.run_after;
}

export async function dropLine(context: WriteContext, notificationId: bigint): Promise<void> {
  // A transaction with a new delivery waits here, then finds that the notification is gone.
  await takePosition(context, notificationId);
  await dropDeliveryJob(context.trx, notificationId);
}

/** Deletes at most `most` deliveries and returns their number. */
export async function forgetDeliveries(trx: Transaction, before: bigint, most: number): Promise<number> {
  const old = trx
    .selectFrom('webhook_deliveries')
    .select('id')
    .where('id', '<', before)
    .where('state', '!=', deliveryMachine.initial)
    .orderBy('id')
    .limit(most);
  const { numDeletedRows } = await trx.deleteFrom('webhook_deliveries').where('id', 'in', old).executeTakeFirst();
  return Number(numDeletedRows);
}
