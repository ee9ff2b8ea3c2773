import { sql } from 'kysely';
import type { Database, Transaction } from './open.ts';
import { migrations } from './migrations/index.ts';

/** Applies all migrations or none. Servers that start together wait for each other here. */
export async function migrate(db: Database): Promise<string[]> {
  return db.transaction((trx) => migrateWithin(trx, db.kind));
}

/** `wanted` limits it to the migrations that an older program had. */
export async function migrateWithin(
  trx: Transaction,
  kind: Database['kind'],
  wanted: (name: string) => boolean = () => true,
): Promise<string[]> {
  if (kind === 'postgres') await sql`select pg_advisory_xact_lock(4927715)`.execute(trx);
  await trx.schema
    .createTable('applied_migrations')
    .ifNotExists()
    .addColumn('name', 'text', (column) => column.notNull().primaryKey())
    .addColumn('applied_at', 'bigint', (column) => column.notNull())
    .execute();
  const rows = await trx.selectFrom('applied_migrations').select('name').execute();
  const applied = new Set(rows.map((row) => row.name));
  const unknown = unknownMigrations([...applied]);
  if (unknown.length > 0) {
    throw new Error(
      `the database is newer than this program: it has ${unknown.join(', ')}. ` +
        'Start the newer headrace, or restore a backup from before its start into another folder (--data-dir).',
    );
  }
  const missing = migrations.filter((one) => wanted(one.name) && !applied.has(one.name));
  for (const migration of missing) {
    await migration.apply(trx, kind);
    await trx
      .insertInto('applied_migrations')
      .values({ name: migration.name, applied_at: BigInt(Date.now()) })
      .execute();
  }
  return missing.map((one) => one.name);
}

export function unknownMigrations(names: readonly string[]): string[] {
  return names.filter((name) => !migrations.some((one) => one.name === name));
}
