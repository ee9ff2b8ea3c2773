import { sql } from 'kysely';
import { commandLineId, commandLineName } from '../command-line-client.ts';
import type { Transaction } from '../open.ts';

/**
 * The application of the command line, which nobody has registered. So an application may be without an owner. SQLite
 * cannot always change a column, so another takes its place.
 */
export async function commandLine(trx: Transaction): Promise<void> {
  await trx.schema.dropIndex('oauth_clients_of_owner').execute();
  await trx.schema
    .alterTable('oauth_clients')
    .addColumn('owner', 'bigint', (column) => column.references('users.id'))
    .execute();
  await sql`update oauth_clients set owner = owner_id`.execute(trx);
  await trx.schema.alterTable('oauth_clients').dropColumn('owner_id').execute();
  await trx.schema.alterTable('oauth_clients').renameColumn('owner', 'owner_id').execute();
  await trx.schema.createIndex('oauth_clients_of_owner').on('oauth_clients').columns(['owner_id', 'id']).execute();
  const redirects = JSON.stringify(['urn:ietf:wg:oauth:2.0:oob']);
  await sql`
    insert into oauth_clients (id, owner_id, name, redirect_uris, secret_hash, created_at)
    values (${commandLineId}, null, ${commandLineName}, ${redirects}, null, ${BigInt(Date.now())})
  `.execute(trx);
}
