import { sql } from 'kysely';
import type { SqlValue } from './dump.ts';
import type { Database, Transaction } from './open.ts';
import { migrateWithin } from './migrate.ts';
import type { TableShape } from './snapshot.ts';

/** Loads a dump inside one transaction, into a database without tables. */
export interface Loader {
  begin(table: TableShape): Promise<void>;
  add(row: SqlValue[]): Promise<void>;
  /** Applies the remaining migrations and checks all references. */
  finish(): Promise<void>;
}

const mostValues = 2_000;
const mostBytes = 1024 * 1024;

export async function startLoading(trx: Transaction, { kind }: Database, madeWith: readonly string[]): Promise<Loader> {
  await migrateWithin(trx, kind, (name) => madeWith.includes(name));
  const holdReferences = await releaseReferences(trx, kind);
  let table: TableShape = { name: '', columns: [] };
  let rows: SqlValue[][] = [];
  let bytes = 0;

  const flush = async (): Promise<void> => {
    if (rows.length === 0) return;
    const columns = table.columns.map((column) => sql.ref(column));
    const values = rows.map((row) => sql`(${sql.join(row)})`);
    await sql`insert into ${sql.table(table.name)} (${sql.join(columns)}) values ${sql.join(values)}`.execute(trx);
    rows = [];
    bytes = 0;
  };

  return {
    async begin(next) {
      await flush();
      table = next;
      await sql`delete from ${sql.table(next.name)}`.execute(trx); // rows that migrations inserted are in the dump too
    },
    async add(row) {
      rows.push(row);
      bytes += row.reduce((sum: number, value) => sum + sizeOf(value), 0);
      if (rows.length * table.columns.length >= mostValues || bytes >= mostBytes) await flush();
    },
    async finish() {
      await flush();
      await holdReferences();
      await migrateWithin(trx, kind);
    },
  };
}

function sizeOf(value: SqlValue): number {
  return typeof value === 'string' || value instanceof Uint8Array ? value.length : 8;
}

/**
 * Tables come in any order, and their references may form cycles. SQLite counts broken references until the commit.
 * PostgreSQL would store a note for every row in memory. So on PostgreSQL the constraints are dropped and added
 * again, as in its own dumps. Adding them checks all rows at once.
 */
async function releaseReferences(trx: Transaction, kind: Database['kind']): Promise<() => Promise<void>> {
  if (kind === 'sqlite') {
    await sql`pragma defer_foreign_keys = on`.execute(trx);
    return async () => {};
  }
  const { rows } = await sql<{ owner: string; name: string; definition: string }>`
    select conrelid::regclass::text as owner, quote_ident(conname) as name, pg_get_constraintdef(oid) as definition
    from pg_constraint where contype = 'f' and connamespace = current_schema()::regnamespace
  `.execute(trx);
  for (const { owner, name } of rows) await sql.raw(`alter table ${owner} drop constraint ${name}`).execute(trx);
  return async () => {
    for (const { owner, name, definition } of rows) {
      await sql.raw(`alter table ${owner} add constraint ${name} ${definition}`).execute(trx);
    }
  };
}

export async function tablesOf(db: Database): Promise<string[]> {
  return (await db.read.introspection.getTables()).map((table) => table.name);
}
