import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { isForeignKeyViolation, type Database } from '../db/open.ts';
import { sealedLocation, type HookDeliveryRow } from '../db/schema.ts';
import { ApiError } from '../../shared/errors.ts';
import type { PlainAnswer, PlainCall, PlainRoutes, Head } from '../http/plain-routes.ts';
import { addressOf } from '../http/client-address.ts';
import { longest } from '../../shared/domain/bounds.ts';
import { exactJson } from '../../shared/lib/exact-json.ts';
import { parseId, type IdSource } from '../../shared/lib/ids.ts';
import { isLoopback, networkOf } from '../../shared/lib/networks.ts';
import type { Vault } from '../../shared/lib/vault.ts';
import { withIdString } from '../views/id-string.ts';
import { BrokenBodyError, TooLongError, type ReadBody } from './bodies.ts';
import { hookById, noteUnreadable, receive, type HookOfAccount } from './hook-deliveries.ts';
import type { Facts } from './facts.ts';
import { readPayload, textIn, type PayloadThread } from './payload.ts';
import { checkHeadProof } from './proofs.ts';
import { providerOf } from './providers.ts';
import type { Refusals } from './refusals.ts';
import type { Observers } from '../lifecycle/write-context.ts';

export interface HookDeps {
  db: Database;
  ids: IdSource;
  observers: Observers;
  vault: Vault;
  readBody: ReadBody;
  payloads: PayloadThread;
  refusals: Refusals;
  isBehindProxy: boolean;
}

interface Admitted {
  hook: HookOfAccount;
  secret: string;
  isProven: boolean;
}

/** Takes no API credentials: the sender only has to prove that it knows the hook's secret. */
export function hookEndpoint(deps: HookDeps): PlainRoutes<Admitted> {
  return {
    provenBy: 'signature',
    admit: (head) => admit(deps, head),
    routes: [{ method: 'POST', path: '/hooks/:hook_id', handle: (call) => take(deps, call) }],
  };
}

/** A call that no body could prove is refused before the body is read. */
async function admit({ db, vault, refusals }: HookDeps, { params, headers }: Head): Promise<Admitted> {
  const id = parseId((params as { hook_id: string }).hook_id);
  const hook = id === undefined ? undefined : await hookById(db.read, id);
  if (!hook) throw new ApiError('not_found');
  const secret = vault.open(hook.secret, secretLocation(hook.id));
  const verdict = checkHeadProof(providerOf(hook).proofs, secret, headers);
  if (verdict !== 'wrong') return { hook, secret, isProven: verdict === 'proven' };
  refusals.note(hook.id, 'proof');
  throw new ApiError('unauthorized');
}

export const secretLocation = (id: bigint): string => sealedLocation({ table: 'hooks', column: 'secret' }, id);

async function take(deps: HookDeps, { head, admitted }: PlainCall<Admitted>): Promise<PlainAnswer> {
  const { hook } = admitted;
  const facts = await factsIn(deps, head, admitted);
  // A comment counts once, under whatever identifier it is sent again.
  const { comment } = facts;
  const key = comment
    ? `comment ${comment.pullRequest} ${comment.id}`
    : deliveryKey(providerOf(hook).deliveryHeaders, head.headers);
  const delivery = { key, facts };
  const { db, ids, observers } = deps;
  return accepted(await db.transaction((trx) => receive({ db, trx, ids, observers }, hook.id, delivery)));
}

/** Reads the body, checks the proof over its exact bytes, and only then parses it. */
async function factsIn(deps: HookDeps, head: Head, { hook, secret, isProven }: Admitted): Promise<Facts> {
  const { refusals } = deps;
  const provider = providerOf(hook);
  const bytes = await deps.readBody(head.raw, sharesOf(deps, head, hook)).catch((error: unknown) => {
    if (error instanceof TooLongError) {
      refusals.note(hook.id, 'size');
      throw ApiError.ofHttp(413, 'invalid_format');
    }
    if (!(error instanceof BrokenBodyError)) throw error;
    refusals.note(hook.id, 'body');
    throw ApiError.ofHttp(408, 'invalid_format');
  });
  const { provider: name } = hook;
  const found = await readPayload(deps.payloads, hook.id, {
    provider: name,
    secret,
    headers: head.headers,
    isProven,
    bytes,
  });
  if ('facts' in found) return found.facts;
  if ('isUnproven' in found) {
    refusals.note(hook.id, 'proof');
    throw new ApiError('unauthorized');
  }
  const { refused } = found;
  await recordUnreadable(deps, hook.id, textIn(head.headers, provider.eventHeader), refused.message);
  throw new ApiError(refused.code, refused.field);
}

/** Senders on this machine count for no network: a proxy here serves many senders. */
function sharesOf({ isBehindProxy }: HookDeps, { raw }: Head, { owner_id: owner }: HookOfAccount): string[] {
  const address = addressOf(raw, isBehindProxy);
  const account = `account ${owner}`;
  return address === 'local' || isLoopback(address) ? [account] : [account, `network ${networkOf(address)}`];
}

async function recordUnreadable({ db, ids }: HookDeps, hookId: bigint, event: string, reason: string): Promise<void> {
  const noting = db.transaction((trx) => noteUnreadable({ trx, ids }, hookId, { event, reason }));
  await noting.catch((error: unknown) => {
    if (!isForeignKeyViolation(error)) throw error;
  });
}

/** The prefix separates the forge's identifiers from our own keys. */
function deliveryKey(names: readonly string[], headers: IncomingHttpHeaders): string | null {
  const sent = names.map((name) => textIn(headers, name)).find((value) => value !== '');
  if (sent === undefined) return null;
  return `sent ${sent.length <= longest.deliveryKey ? sent : createHash('sha256').update(sent).digest('hex')}`;
}

function accepted({ id, outcome, reason, build_request_id: requestId }: HookDeliveryRow): PlainAnswer {
  const request = { build_request_id: requestId, build_request_id_str: requestId === null ? '' : String(requestId) };
  const response = { outcome, reason, ...request, ...withIdString('delivery_id', id) };
  return {
    status: 202,
    headers: { 'content-type': 'application/json; charset=utf-8' },
    content: Buffer.from(exactJson({ response })),
  };
}
