import { sealedPlace } from '../db/schema.ts';
import { exactJson, parseExactJson } from '../lib/exact-json.ts';
import type { Vault } from '../lib/vault.ts';
import type { Outgoing } from '../lifecycle/deliveries.ts';
import type { HttpCall } from './http-call.ts';
import { signedHeaders } from './signature.ts';

/**
 * What goes out for a delivery. The text is the one that was written with the event, and in it the project's public key,
 * which never changes and is kept sealed. The same delivery gives the same bytes every time.
 */
export function callFor(delivery: Outgoing, vault: Vault): HttpCall {
  const { id, project_id: projectId, notification_id: notificationId } = delivery;
  const told = parseExactJson(delivery.payload) as { project: Record<string, unknown> };
  const keyPlace = sealedPlace({ table: 'projects', column: 'ssh_public_key' }, projectId);
  told.project.ssh_public_key = vault.openPublic(delivery.ssh_public_key, keyPlace);
  const body = exactJson(told);
  const secret = vault.open(delivery.secret, sealedPlace({ table: 'notifications', column: 'secret' }, notificationId));
  return { url: delivery.url, body, headers: signedHeaders(secret, String(id), body, Date.now()) };
}
