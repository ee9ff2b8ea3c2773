import { sealedLocation, type NotificationRow } from '../db/schema.ts';
import { sealIn } from '../db/sealing.ts';
import type { Vault } from '../../shared/lib/vault.ts';
import { dropLine, tryLineNow } from './webhook-deliveries.ts';
import { enqueuePing } from './webhook-events.ts';
import type { WriteContext } from './write-context.ts';

export type NotificationSettings = Pick<NotificationRow, 'name' | 'notifiable_type' | 'url'>;

interface Secret {
  vault: Vault;
  secret: string;
}

export async function createNotification(
  context: WriteContext,
  projectId: bigint,
  settings: NotificationSettings,
  secret: Secret,
): Promise<NotificationRow> {
  const notification = await insert(context, projectId, { ...settings, repository: '', forge_id: null }, secret);
  await enqueuePing(context, notification.id);
  return notification;
}

export type StatusTargetSettings = Pick<NotificationRow, 'name' | 'url' | 'repository' | 'forge_id'>;

/** A status target gets statuses only. */
export async function createStatusTarget(
  context: WriteContext,
  projectId: bigint,
  settings: StatusTargetSettings,
  secret: Secret,
): Promise<NotificationRow> {
  return insert(context, projectId, { ...settings, notifiable_type: 'status' }, secret);
}

async function insert(
  context: WriteContext,
  projectId: bigint,
  settings: NotificationSettings & StatusTargetSettings,
  { vault, secret }: Secret,
): Promise<NotificationRow> {
  const id = context.ids.next();
  const notification: NotificationRow = {
    id,
    project_id: projectId,
    ...settings,
    secret: await sealIn(context.trx, vault, secret, sealedLocation({ table: 'notifications', column: 'secret' }, id)),
    last_position: 0n,
  };
  await context.trx.insertInto('notifications').values(notification).execute();
  return notification;
}

/** Deliveries that the old address did not accept are sent to the new one at once. */
export async function changeNotification(
  context: WriteContext,
  { id, url }: NotificationRow,
  settings: Partial<NotificationSettings>,
): Promise<void> {
  if (Object.keys(settings).length === 0) return;
  await context.trx.updateTable('notifications').set(settings).where('id', '=', id).execute();
  if (settings.url !== undefined && settings.url !== url) await tryLineNow(context, id);
}

export async function deleteNotification(context: WriteContext, id: bigint): Promise<void> {
  await dropLine(context, id);
  await context.trx.deleteFrom('notifications').where('id', '=', id).execute();
}
