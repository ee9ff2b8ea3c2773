import { sealedLocation } from '../db/schema.ts';
import { exactJson, parseExactJson } from '../../shared/lib/exact-json.ts';
import type { Vault } from '../../shared/lib/vault.ts';
import type { Outgoing } from '../lifecycle/webhook-deliveries.ts';
import type { StatusReport } from '../lifecycle/status-reports.ts';
import { takersAmong, type NewsReport } from '../lifecycle/news.ts';
import type { Mailer } from '../mail/mailer.ts';
import { isProvider } from '../../shared/domain/forge-providers.ts';
import type { Options } from '../../shared/records/notification.ts';
import { secretsOf } from '../forges/index.ts';
import type { DeedReport } from '../lifecycle/forge-deeds.ts';
import { chatCall } from './chats.ts';
import { doDeed, type DeedParts } from './deeds.ts';
import { makeCall, type CallResult, type CallRules, type HttpCall } from './http-call.ts';
import { letterOf, pingLetter } from './letter.ts';
import { messageOf, type MessageParts } from './message.ts';
import { noTaker, statusCall } from './statuses.ts';
import { signedHeaders } from './signature.ts';

export interface CallParts extends Omit<MessageParts, 'db'>, DeedParts {
  vault: Vault;
  /** Undefined if no mail server is set. */
  mailer: Mailer | undefined;
}

export interface Sending {
  /** Must not be stored, even if the receiver sends them back. */
  secrets: readonly string[];
  send(rules: CallRules): Promise<CallResult>;
}

export async function sendingOf(delivery: Outgoing, parts: CallParts): Promise<Sending> {
  if (delivery.name === 'email') return { secrets: [], send: ({ signal }) => sendLetter(delivery, parts, signal) };
  const secret = secretOf(delivery, parts);
  if (isProvider(delivery.name)) {
    const { name } = delivery;
    const report = JSON.parse(delivery.payload) as StatusReport | DeedReport;
    const target = { name, delivery, token: secret };
    if ('deed' in report) return { secrets: secretsOf(secret), send: (rules) => doDeed(parts, target, report, rules) };
  }
  const call = await callFor(delivery, parts, secret);
  return { secrets: call.secrets, send: (rules) => makeCall(call, rules) };
}

function secretOf(delivery: Outgoing, { vault }: CallParts): string {
  const { notification_id: notificationId, forge_id: forgeId, forge_token: ofForge } = delivery;
  return forgeId !== null && ofForge !== null
    ? vault.open(ofForge, sealedLocation({ table: 'forges', column: 'token' }, forgeId))
    : vault.open(delivery.secret, sealedLocation({ table: 'notifications', column: 'secret' }, notificationId));
}

async function callFor(delivery: Outgoing, parts: CallParts, secret: string): Promise<HttpCall> {
  const { vault, origin } = parts;
  const { id, name, url, repository } = delivery;
  if (name === 'webhook') return webhookCall(delivery, vault, secret);
  if (isProvider(name)) {
    const report = JSON.parse(delivery.payload) as StatusReport;
    return statusCall(name, report, { url, repository, token: secret, origin });
  }
  if (name === 'email') throw new Error('an e-mail is no call');
  const report = JSON.parse(delivery.payload) as NewsReport;
  const message = report.state === 'ping' ? 'ping' : await messageOf(parts, delivery.project_id, report);
  return chatCall(name, message ?? 'ping', JSON.parse(secret) as Options, id);
}

/** Whether its recipient takes it may have changed since it was written. */
async function sendLetter(delivery: Outgoing, parts: CallParts, signal: AbortSignal): Promise<CallResult> {
  const { mailer, db, origin } = parts;
  const startedAt = performance.now();
  const report = JSON.parse(delivery.payload) as NewsReport;
  const { to = '' } = report;
  const failed = (error: string, status: number | null = null): CallResult => ({
    status,
    answer: '',
    error,
    durationMs: performance.now() - startedAt,
  });
  if (!mailer) return failed('the server has no mail server: the operator sets HEADRACE_SMTP_URL');
  if ((await takersAmong(db.read, delivery.project_id, [to])).length === 0)
    return failed('the recipient takes no news of this project any more', noTaker);
  const message = report.state === 'ping' ? undefined : await messageOf(parts, delivery.project_id, report);
  const projects = db.read.selectFrom('projects').select('name').where('id', '=', delivery.project_id);
  const { name } = await projects.executeTakeFirstOrThrow();
  const letter = message ? letterOf(message, to, origin) : pingLetter(to, name, origin);
  const result = await mailer.send(letter, signal);
  return { ...result, durationMs: performance.now() - startedAt };
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
