import { sealedLocation, type NotificationRow } from '../db/schema.ts';
import { sealIn } from '../db/sealing.ts';
import type { Vault } from '../../shared/lib/vault.ts';
import { dropLine, tryLineNow } from './webhook-deliveries.ts';
import { enqueuePing } from './webhook-events.ts';
import type { WriteContext } from './write-context.ts';

export type NotificationSettings = Pick<NotificationRow, 'name' | 'notifiable_type' | 'url' | 'on' | 'branches'>;

interface Secret {
  vault: Vault;
  secret: string;
}

export async function createNotification(
  context: WriteContext,
  projectId: bigint,
  settings: NotificationSettings,
  { pingTo, ...secret }: Secret & { pingTo: readonly string[] },
): Promise<NotificationRow> {
  const notification = await insert(context, projectId, { ...settings, repository: '', forge_id: null }, secret);
  await enqueuePing(context, notification, pingTo);
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
  return insert(context, projectId, { ...settings, notifiable_type: 'status', on: '', branches: '[]' }, secret);
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
    secret: await sealSecret(context, vault, secret, id),
    last_position: 0n,
  };
  await context.trx.insertInto('notifications').values(notification).execute();
  return notification;
}

/** Deliveries that the old address did not accept are sent to the new one at once. A secret is given if it changes. */
export async function changeNotification(
  context: WriteContext,
  { id, url }: NotificationRow,
  settings: Partial<NotificationSettings>,
  { vault, secret }: { vault: Vault; secret?: string | undefined },
): Promise<void> {
  const changed = {
    ...settings,
    ...(secret !== undefined && { secret: await sealSecret(context, vault, secret, id) }),
  };
  if (Object.keys(changed).length === 0) return;
  await context.trx.updateTable('notifications').set(changed).where('id', '=', id).execute();
  if (secret !== undefined || (settings.url !== undefined && settings.url !== url)) await tryLineNow(context, id);
}

const sealSecret = ({ trx }: WriteContext, vault: Vault, secret: string, id: bigint): Promise<string> =>
  sealIn(trx, vault, secret, sealedLocation({ table: 'notifications', column: 'secret' }, id));

export async function deleteNotification(context: WriteContext, id: bigint): Promise<void> {
  await dropLine(context, id);
  await context.trx.deleteFrom('notifications').where('id', '=', id).execute();
}
