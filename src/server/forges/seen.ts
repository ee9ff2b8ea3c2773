import { recordAudit } from '../auth/audit.ts';
import type { Database } from '../db/open.ts';
import type { ForgeRow } from '../db/schema.ts';
import { scopesInWords, tokensAt } from '../../shared/domain/forge-providers.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import type { Vault } from '../../shared/lib/vault.ts';
import { forgesTopic } from '../lifecycle/forge-holds.ts';
import { breakLinks, changeForge, holdForge } from '../lifecycle/forges.ts';
import type { WriteContext } from '../lifecycle/write-context.ts';
import type { ForgeState } from '../../shared/records/forge.ts';
import { ForgeError, type Forge } from './forge.ts';

export interface SeenForge {
  login: string;
  may: string;
  state: ForgeState;
  state_reason: string;
}

export async function seenAt(forge: Forge): Promise<SeenForge> {
  const { login, may, lacks } = await forge.whoami();
  const reason = lacks.length === 0 ? '' : `The token lacks the ${scopesInWords(lacks)} that Headrace needs.`;
  return { login: cut(login), may: JSON.stringify(may), state: 'connected', state_reason: reason };
}

const cut = (text: string): string =>
  text
    .replaceAll(/\p{Cc}/gu, ' ')
    .toWellFormed()
    .slice(0, 255);

type Known = Pick<ForgeRow, 'provider' | 'url'>;

export function refusalInWords(forge: Known, { message }: ForgeError): string {
  const sentence = /[.!?]$/.test(message) ? message : `${message}.`;
  return `${sentence} A token needs the ${scopesInWords(tokensAt(forge).scopes)}.`;
}

/** Undefined if the error is not about the forge as a whole. */
export function stateAfter(forge: Known, error: unknown): Pick<SeenForge, 'state' | 'state_reason'> | undefined {
  if (!(error instanceof ForgeError)) return undefined;
  if (error.kind === 'refused') return { state: 'refused', state_reason: refusalInWords(forge, error) };
  if (error.kind === 'unavailable' || error.kind === 'not_a_forge')
    return { state: 'unreachable', state_reason: error.message };
  return undefined;
}

/** A rejected token makes all projects of the forge incomplete. The audit log records that once. */
export async function noteSeen(
  { vault, ...context }: Pick<WriteContext, 'db' | 'trx' | 'ids'> & { vault: Vault },
  forge: ForgeRow,
  seen: Partial<SeenForge>,
): Promise<ForgeRow> {
  const changed = await changeForge({ trx: context.trx, vault }, forge, seen);
  if (seen.state !== 'refused') return changed;
  await breakLinks(context, forge.id, seen.state_reason ?? '');
  if (forge.state === 'refused') return changed;
  const subject = { id: forge.id, name: forge.url };
  const deed = { action: 'forge.refused', subject, details: { reason: seen.state_reason } } as const;
  await recordAudit(context.trx, context.ids, { actor: null, via: 'forge', application: null, address: null }, deed);
  return changed;
}

/**
 * A connected forge refused a call. Some forges refuse one repository in the same way as a bad token. So the token
 * itself is checked before the forge and its projects are marked.
 */
export async function noteRefusal(
  { db, ids, vault }: { db: Database; ids: IdSource; vault: Vault },
  client: Forge,
  forge: ForgeRow,
): Promise<void> {
  const answer: unknown = await client.whoami().catch((error: unknown) => error);
  if (!(answer instanceof ForgeError) || answer.kind !== 'refused') return;
  const seen = stateAfter(forge, answer);
  await db.transaction(async (trx) => {
    const current = await holdForge(trx, forge);
    if (!current || !seen) return;
    await noteSeen({ db, trx, ids, vault }, current, seen);
    await db.announce(trx, forgesTopic);
  });
}
