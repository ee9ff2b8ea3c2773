import type { Database, Transaction } from '../db/open.ts';
import type { OauthCodeRow } from '../db/schema.ts';
import { recordAudit, type Deed, type Doer } from '../auth/audit.ts';
import { insertToken, revokeTokenOfCode, splitScopes, type Grant } from '../auth/tokens.ts';
import { findUserById } from '../auth/users.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import { hashSecret, randomSecret } from '../../shared/lib/passwords.ts';
import type { Scope } from '../http/route.ts';
import { dropUnusedDocuments, type Client } from './clients.ts';
import { OauthError, type readResource } from './parameters.ts';
import { verifierFits } from './pkce.ts';

/** Valid for ten minutes and one exchange. The token stores the code's hash, which detects a second use. */
const lifetime = 10 * 60 * 1000;

export interface Allowed extends Grant {
  redirectUri: string;
  /** If false, the application relied on its only address. */
  redirectUriSent: boolean;
  challenge: string | undefined;
}

export async function insertCode(trx: Transaction, ids: IdSource, allowed: Allowed): Promise<string> {
  const code = randomSecret('hrc');
  const row: OauthCodeRow = {
    id: ids.next(),
    code_hash: hashSecret(code),
    client_id: allowed.clientId,
    user_id: allowed.userId,
    scopes: allowed.scopes.join(' '),
    redirect_uri: allowed.redirectUri,
    redirect_uri_sent: allowed.redirectUriSent ? 1 : 0,
    code_challenge: allowed.challenge ?? null,
    expires_at: BigInt(Date.now() + lifetime),
    for_mcp: allowed.forMcp ? 1 : 0,
  };
  await trx.insertInto('oauth_codes').values(row).execute();
  return code;
}

export interface Redemption {
  code: string;
  redirectUri: string | undefined;
  verifier: string | undefined;
  resource: ReturnType<typeof readResource>;
  address: string;
}

export interface Redeemed {
  token: string;
  scopes: readonly Scope[];
}

/** Undefined without a match. The code stays valid: 256 random bits cannot be guessed. */
export async function redeem(
  db: Database,
  ids: IdSource,
  client: Client,
  redemption: Redemption,
): Promise<Redeemed | undefined> {
  const codeHash = hashSecret(redemption.code);
  return db.transaction(async (trx) => {
    const found = await trx
      .selectFrom('oauth_codes as c')
      .innerJoin('users as u', 'u.id', 'c.user_id')
      .leftJoin('identities as i', 'i.user_id', 'c.user_id')
      .selectAll('c')
      .select(['u.suspended', 'u.shut_out', 'u.email', 'i.id as linked'])
      .where('c.code_hash', '=', codeHash)
      .executeTakeFirst();
    // RFC 6749 section 4.1.2: a second use of a code revokes its token.
    if (!found) {
      await takeBack(trx, ids, client, { codeHash, address: redemption.address });
      return undefined;
    }
    const isRefused = found.suspended === 1 || found.shut_out !== '';
    // Whoever had the account before it was linked may have requested it.
    const isOlder = found.linked !== null && found.linked > found.id;
    if (isRefused || isOlder || !isFit(found, client, redemption)) return undefined;
    const forMcp = found.for_mcp === 1;
    if (forMcp && redemption.resource === 'server')
      throw new OauthError('invalid_target', 'the code is for a token that opens only /mcp');
    const { numDeletedRows: deleted } = await trx
      .deleteFrom('oauth_codes')
      .where('id', '=', found.id)
      .executeTakeFirst();
    // Another request redeemed it between the two statements.
    if (deleted !== 1n) {
      await takeBack(trx, ids, client, { codeHash, address: redemption.address });
      return undefined;
    }
    const scopes = splitScopes(found.scopes);
    const isNarrow = forMcp || redemption.resource === 'mcp';
    const grant = { clientId: client.id, userId: found.user_id, scopes, forMcp: isNarrow };
    const { id, token } = await insertToken(trx, ids, grant, codeHash);
    const person = { id: found.user_id, email: found.email };
    await recordAudit(trx, ids, acting(client, person, redemption.address), tokenIssued(id, client, scopes));
    return { token, scopes };
  });
}

export function acting({ name }: Client, actor: { id: bigint; email: string }, address: string): Doer {
  return { actor, via: 'token', application: name, address };
}

export function tokenIssued(id: bigint, { name }: Client, scopes: readonly Scope[]): Deed {
  return { action: 'token.issued', subject: { id, name }, details: { scopes } };
}

async function takeBack(
  trx: Transaction,
  ids: IdSource,
  client: Client,
  { codeHash, address }: { codeHash: string; address: string },
): Promise<void> {
  const revoked = await revokeTokenOfCode(trx, codeHash, client.id);
  const person = revoked && (await findUserById(trx, revoked.user_id));
  if (!person) return;
  const subject = { id: revoked.id, name: client.name };
  const by = acting(client, { id: person.id, email: person.email }, address);
  await recordAudit(trx, ids, by, { action: 'token.revoked', subject, details: { reason: 'code_used_twice' } });
}

function isFit(code: OauthCodeRow, client: Client, { redirectUri, verifier }: Redemption): boolean {
  // RFC 6749 section 4.1.3: the code is this application's, and not expired (section 4.1.2).
  if (code.client_id !== client.id || code.expires_at <= BigInt(Date.now())) return false;
  // RFC 6749 section 4.1.3: an address in the first request must be repeated unchanged.
  if (redirectUri === undefined ? code.redirect_uri_sent === 1 : redirectUri !== code.redirect_uri) return false;
  // RFC 9700 section 4.8.2: a verifier without a challenge means that an attacker removed it, or injected another code.
  if (code.code_challenge === null) return verifier === undefined && !client.isPublic;
  // RFC 7636 section 4.6, for every code with a challenge, by any application.
  return verifier !== undefined && verifierFits(verifier, code.code_challenge);
}

/** A revoked application also loses its unused codes. */
export async function dropCodesOf(trx: Transaction, userId: bigint, clientId: bigint): Promise<number> {
  const codes = trx.deleteFrom('oauth_codes').where('user_id', '=', userId).where('client_id', '=', clientId);
  return Number((await codes.executeTakeFirst()).numDeletedRows);
}

export async function forgetOldCodes(db: Database): Promise<void> {
  const now = BigInt(Date.now());
  await db.transaction(async (trx) => {
    await trx.deleteFrom('oauth_codes').where('expires_at', '<=', now).execute();
    await dropUnusedDocuments(trx);
  });
}
