import type { Transaction } from '../db/open.ts';
import { dropUserTokensOf } from './user-tokens.ts';

/** Nothing signs in or calls as the user any more. */
export async function dropCredentialsOf(trx: Transaction, id: bigint): Promise<void> {
  for (const table of ['sessions', 'password_links', 'access_tokens', 'passkeys', 'recovery_codes'] as const)
    await trx.deleteFrom(table).where('user_id', '=', id).execute();
  await dropUserTokensOf(trx, id);
  const none = { password_hash: null, api_key_hash: null, password_by_link: 0, asks_passkey: 0, by_invitation: 0 };
  await trx.updateTable('users').set(none).where('id', '=', id).execute();
}

/** The row stays for records that name it, such as build requests, without the address and every credential. */
export async function retireUser(trx: Transaction, id: bigint): Promise<void> {
  await dropCredentialsOf(trx, id);
  for (const table of ['organisation_members', 'identities'] as const)
    await trx.deleteFrom(table).where('user_id', '=', id).execute();
  const gone = { email: `deleted ${id}`, kind: 'deleted', operator: 0 };
  await trx.updateTable('users').set(gone).where('id', '=', id).execute();
}
