import { sealedLocation } from '../db/schema.ts';
import { exactJson, parseExactJson } from '../../shared/lib/exact-json.ts';
import type { Vault } from '../../shared/lib/vault.ts';
import type { Outgoing } from '../lifecycle/webhook-deliveries.ts';
import type { StatusReport } from '../lifecycle/status-reports.ts';
import { statusCall } from './statuses.ts';
import type { HttpCall } from './http-call.ts';
import { signedHeaders } from './signature.ts';

export interface CallParts {
  vault: Vault;
  origin: string;
}

export function callFor(delivery: Outgoing, { vault, origin }: CallParts): HttpCall {
  const { name, url, repository, notification_id: notificationId } = delivery;
  const { forge_id: forgeId, forge_token: ofForge } = delivery;
  const secret =
    forgeId !== null && ofForge !== null
      ? vault.open(ofForge, sealedLocation({ table: 'forges', column: 'token' }, forgeId))
      : vault.open(delivery.secret, sealedLocation({ table: 'notifications', column: 'secret' }, notificationId));
  if (name === 'webhook') return webhookCall(delivery, vault, secret);
  const report = JSON.parse(delivery.payload) as StatusReport;
  return statusCall(name, report, { url, repository, token: secret, origin });
}

/** The stored text of the event, plus the project's constant public key. A delivery always gives the same bytes. */
function webhookCall(delivery: Outgoing, vault: Vault, secret: string): HttpCall {
  const { id, url, project_id: projectId } = delivery;
  const payload = parseExactJson(delivery.payload) as { project: Record<string, unknown> };
  const keyLocation = sealedLocation({ table: 'projects', column: 'ssh_public_key' }, projectId);
  payload.project.ssh_public_key = vault.open(delivery.ssh_public_key, keyLocation);
  const body = exactJson(payload);
  return { url, body, headers: signedHeaders(secret, String(id), body, Date.now()), secrets: [] };
}
