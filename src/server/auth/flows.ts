import type { Database, Transaction } from '../db/open.ts';
import { sealIn } from '../db/sealing.ts';
import { sealedLocation, type SignInFlowRow } from '../db/schema.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import { hashSecret, randomSecret } from '../../shared/lib/passwords.ts';
import type { Vault } from '../../shared/lib/vault.ts';
import type { Vouched } from './identities.ts';

/**
 * A step that a browser has to come back from: the issuer's page, a passkey, or the proof that an account is the
 * user's. Its token is in a cookie, so a browser has one flow at a time. Taking a flow deletes it: no answer counts
 * twice.
 */
export type Flow =
  | {
      step: 'issuer';
      state: string;
      nonce: string;
      verifier: string;
      returnTo: string;
      /** An operator's link, which links its account. */
      link?: string | undefined;
      /** The user who has to sign in again, in a session that exists. */
      confirms?: string | undefined;
    }
  | { step: 'linking'; vouched: Vouched; userId: string; returnTo: string }
  | { step: 'second'; userId: string; challenge: string; returnTo: string; vouched?: Vouched; link?: string }
  | { step: 'passkey'; challenge: string; returnTo: string; userId?: string };

export interface FlowServices {
  db: Database;
  ids: IdSource;
  vault: Vault;
}

const lifetime = 10 * 60 * 1000;
const place = { table: 'sign_in_flows', column: 'data' } as const;

export async function beginFlow({ db, ids, vault }: FlowServices, flow: Flow): Promise<string> {
  const token = randomSecret('hrf');
  await db.transaction(async (trx) => {
    const id = ids.next();
    const data = await sealIn(trx, vault, JSON.stringify(flow), sealedLocation(place, id));
    const row = { id, token_hash: hashSecret(token), data, expires_at: BigInt(Date.now() + lifetime) };
    await trx.insertInto('sign_in_flows').values(row).execute();
  });
  return token;
}

type FlowOf<Step extends Flow['step']> = Extract<Flow, { step: Step }>;

/** Undefined if there is none for this step: it is over, too old, or of another browser. */
export async function takeFlow<Step extends Flow['step']>(
  { db, vault }: FlowServices,
  token: string | undefined,
  step: Step,
): Promise<FlowOf<Step> | undefined> {
  if (token === undefined) return undefined;
  const found = await db.transaction((trx) =>
    trx.deleteFrom('sign_in_flows').where('token_hash', '=', hashSecret(token)).returningAll().executeTakeFirst(),
  );
  return opened(vault, found, step);
}

/** For the page that shows what has to be answered. */
export async function readFlow<Step extends Flow['step']>(
  { db, vault }: FlowServices,
  token: string,
  step: Step,
): Promise<FlowOf<Step> | undefined> {
  const all = db.read.selectFrom('sign_in_flows').selectAll();
  return opened(vault, await all.where('token_hash', '=', hashSecret(token)).executeTakeFirst(), step);
}

function opened<Step extends Flow['step']>(
  vault: Vault,
  found: SignInFlowRow | undefined,
  step: Step,
): FlowOf<Step> | undefined {
  if (!found || found.expires_at <= BigInt(Date.now())) return undefined;
  const flow = JSON.parse(vault.open(found.data, sealedLocation(place, found.id))) as Flow;
  return flow.step === step ? (flow as FlowOf<Step>) : undefined;
}

export async function forgetOldFlows(db: Database): Promise<void> {
  const now = BigInt(Date.now());
  await db.transaction((trx: Transaction) => trx.deleteFrom('sign_in_flows').where('expires_at', '<=', now).execute());
}
