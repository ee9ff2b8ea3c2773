import type { CreateTableBuilder } from 'kysely';
import type { Transaction } from '../open.ts';

/** Applications that act for people, and how people sign in. */
export async function oauth(trx: Transaction): Promise<void> {
  const table = <T extends string>(name: T): CreateTableBuilder<T, 'id'> =>
    trx.schema.createTable(name).addColumn('id', 'bigint', (column) => column.primaryKey());

  await table('oauth_clients')
    .addColumn('owner_id', 'bigint', (column) => column.notNull().references('users.id'))
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('redirect_uris', 'text', (column) => column.notNull())
    .addColumn('secret_hash', 'text')
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .execute();
  await trx.schema.createIndex('oauth_clients_of_owner').on('oauth_clients').columns(['owner_id', 'id']).execute();

  await table('oauth_codes')
    .addColumn('code_hash', 'text', (column) => column.notNull().unique())
    .addColumn('client_id', 'bigint', (column) => column.notNull().references('oauth_clients.id').onDelete('cascade'))
    .addColumn('user_id', 'bigint', (column) => column.notNull().references('users.id'))
    .addColumn('scopes', 'text', (column) => column.notNull())
    .addColumn('redirect_uri', 'text', (column) => column.notNull())
    .addColumn('redirect_uri_sent', 'integer', (column) => column.notNull())
    .addColumn('code_challenge', 'text')
    .addColumn('expires_at', 'bigint', (column) => column.notNull())
    .execute();
  await trx.schema.createIndex('oauth_codes_of_client').on('oauth_codes').columns(['client_id', 'user_id']).execute();
  await trx.schema.createIndex('oauth_codes_expiring').on('oauth_codes').column('expires_at').execute();

  await table('access_tokens')
    .addColumn('token_hash', 'text', (column) => column.notNull().unique())
    .addColumn('client_id', 'bigint', (column) => column.notNull().references('oauth_clients.id').onDelete('cascade'))
    .addColumn('user_id', 'bigint', (column) => column.notNull().references('users.id'))
    .addColumn('scopes', 'text', (column) => column.notNull())
    .addColumn('code_hash', 'text', (column) => column.unique())
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .addColumn('last_used_at', 'bigint')
    .execute();
  await trx.schema.createIndex('access_tokens_of_user').on('access_tokens').columns(['user_id', 'client_id']).execute();
  await trx.schema.createIndex('access_tokens_of_client').on('access_tokens').column('client_id').execute();

  await table('sessions')
    .addColumn('token_hash', 'text', (column) => column.notNull().unique())
    .addColumn('user_id', 'bigint', (column) => column.notNull().references('users.id'))
    .addColumn('expires_at', 'bigint', (column) => column.notNull())
    .execute();
  await trx.schema.createIndex('sessions_of_user').on('sessions').column('user_id').execute();
  await trx.schema.createIndex('sessions_expiring').on('sessions').column('expires_at').execute();

  await table('password_links')
    .addColumn('token_hash', 'text', (column) => column.notNull().unique())
    .addColumn('user_id', 'bigint', (column) => column.notNull().unique().references('users.id'))
    .addColumn('expires_at', 'bigint', (column) => column.notNull())
    .execute();

  await table('sign_in_failures')
    .addColumn('subject', 'text', (column) => column.notNull().unique())
    .addColumn('failures', 'integer', (column) => column.notNull())
    .addColumn('last_at', 'bigint', (column) => column.notNull())
    .addColumn('refused_until', 'bigint', (column) => column.notNull())
    .execute();
  await trx.schema.createIndex('sign_in_failures_old').on('sign_in_failures').column('last_at').execute();
}
