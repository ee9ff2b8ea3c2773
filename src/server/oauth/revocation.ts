import { recordAudit } from '../auth/audit.ts';
import { revokeTokenItself } from '../auth/tokens.ts';
import { findUserById } from '../auth/users.ts';
import type { Database } from '../db/open.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import type { Client } from './clients.ts';
import { acting } from './codes.ts';
import { OauthError } from './parameters.ts';

/**
 * RFC 7009 section 2.1: an application revokes only its own tokens. Unknown tokens count as revoked (section 2.2).
 * Other applications' tokens are refused.
 */
export async function revokeToken(
  { db, ids }: { db: Database; ids: IdSource },
  client: Client,
  token: string | undefined,
  address: string,
): Promise<void> {
  if (token === undefined) throw new OauthError('invalid_request', 'token is missing');
  await db.transaction(async (trx) => {
    const found = await revokeTokenItself(trx, token, client.id);
    if (found === 'of another application')
      throw new OauthError('invalid_grant', 'the token was issued to another application');
    const person = found && (await findUserById(trx, found.user_id));
    if (!person) return;
    const by = acting(client, { id: person.id, email: person.email }, address);
    const subject = { id: found.id, name: client.name };
    await recordAudit(trx, ids, by, { action: 'token.revoked', subject, details: { reason: 'given_back' } });
  });
}
