import type { Transaction } from '../db/open.ts';

/** The row stays for records that name it, such as build requests, without the address and every credential. */
export async function retireUser(trx: Transaction, id: bigint): Promise<void> {
  for (const table of ['sessions', 'password_links', 'access_tokens', 'organisation_members'] as const)
    await trx.deleteFrom(table).where('user_id', '=', id).execute();
  const gone = { email: `deleted ${id}`, kind: 'deleted', password_hash: null, api_key_hash: null, operator: 0 };
  await trx.updateTable('users').set(gone).where('id', '=', id).execute();
}
