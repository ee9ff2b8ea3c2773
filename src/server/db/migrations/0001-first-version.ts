import { sql } from 'kysely';
import { commandLineId, commandLineName } from '../command-line-client.ts';
import type { Database, Transaction } from '../open.ts';
import { applyFile } from './tables.ts';

export async function firstVersion(trx: Transaction, kind: Database['kind']): Promise<void> {
  await applyFile(trx, kind, '0001-first-version.sql');
  for (const statement of kind === 'sqlite' ? sqliteWall : postgresWall) await sql.raw(statement).execute(trx);
  if (kind === 'postgres' && (await hasLz4(trx)))
    await sql`alter table log_chunks alter column bytes set compression lz4`.execute(trx);

  // The command line's application. No user registered it, so it has no owner.
  const application = {
    id: commandLineId,
    owner_id: null,
    name: commandLineName,
    redirect_uris: JSON.stringify(['urn:ietf:wg:oauth:2.0:oob']),
    secret_hash: null,
    created_at: BigInt(Date.now()),
  };
  await trx.insertInto('oauth_clients').values(application).execute();
}

/** Row triggers: a restore may still empty a table without rows. */
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

/** PostgreSQL's default compression takes longer than all other work on a piece of log. */
async function hasLz4(trx: Transaction): Promise<boolean> {
  const { rows } = await sql`
    select 1 from pg_settings where name = 'default_toast_compression' and 'lz4' = any(enumvals)
  `.execute(trx);
  return rows.length > 0;
}
