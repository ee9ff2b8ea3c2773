import { sql } from 'kysely';
import type { Database, Transaction } from '../open.ts';
import type { ColumnTypes } from '../migrate.ts';

/** Who did what, kept for ever; and the people who may read it. */
export async function audit(trx: Transaction, _types: ColumnTypes, kind: Database['kind']): Promise<void> {
  await trx.schema
    .alterTable('users')
    .addColumn('operator', 'integer', (column) => column.notNull().defaultTo(0))
    .execute();
  // There must be an operator, and the first user most likely runs the installation.
  await sql`
    update users set operator = 1
    where id = (select id from users where kind = 'user' order by created_at, id limit 1)
  `.execute(trx);

  // It refers to no other table, so entries stay readable when their subjects are deleted.
  await trx.schema
    .createTable('audit_entries')
    .addColumn('id', 'bigint', (column) => column.primaryKey())
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .addColumn('action', 'text', (column) => column.notNull())
    .addColumn('actor_id', 'bigint')
    .addColumn('actor_email', 'text')
    .addColumn('via', 'text', (column) => column.notNull())
    .addColumn('application', 'text')
    .addColumn('address', 'text')
    .addColumn('subject_id', 'bigint')
    .addColumn('subject_name', 'text', (column) => column.notNull())
    .addColumn('project_id', 'bigint')
    .addColumn('details', 'text', (column) => column.notNull())
    .execute();
  for (const statement of kind === 'sqlite' ? sqliteWall : postgresWall) await sql.raw(statement).execute(trx);

  // When the audit log last noted failed sign-ins, so that it does not note every one.
  await trx.schema
    .alterTable('sign_in_failures')
    .addColumn('noted_at', 'bigint', (column) => column.notNull().defaultTo(0))
    .execute();
}

/** Row triggers: a restore may still empty a table that has no rows. */
const sqliteWall = ['update', 'delete'].map(
  (change) => `
    create trigger audit_entries_no_${change} before ${change} on audit_entries
    begin select raise(abort, 'audit entries are never changed'); end`,
);

const postgresWall = [
  `create or replace function audit_entries_stay() returns trigger language plpgsql as
    $$ begin raise exception 'audit entries are never changed'; end $$`,
  `create trigger audit_entries_stay before update or delete on audit_entries
    for each row execute function audit_entries_stay()`,
  `create trigger audit_entries_stay_all before truncate on audit_entries
    for each statement execute function audit_entries_stay()`,
];
