import { sql } from 'kysely';
import type { Database } from '../../src/server/db/open.ts';

/** What a database has: the columns of its tables, and its indexes, in a form that both have. */
export async function shapeOf({ kind, read }: Database): Promise<string[]> {
  const bytes = kind === 'sqlite' ? 'blob' : 'bytea';
  const types: Record<string, string> = { int4: 'integer', int8: 'bigint', [bytes]: 'bytes' };
  const columns = (await read.introspection.getTables()).flatMap((table) =>
    table.columns.map(({ name, dataType, isNullable }) => {
      const type = types[dataType.toLowerCase()] ?? dataType.toLowerCase();
      return `${table.name}.${name} ${type}${isNullable ? ' or null' : ''}`;
    }),
  );
  const inSqlite = sql<{ name: string }>`
    select name from sqlite_master where type = 'index' and sql is not null`;
  const inPostgres = sql<{ name: string }>`
    select indexname as name from pg_indexes where schemaname = current_schema()
    and indexname not in (select conname from pg_constraint)`;
  const indexes = await (kind === 'sqlite' ? inSqlite : inPostgres).execute(read);
  return [...columns, ...indexes.rows.map(({ name }) => `index ${name}`)].toSorted();
}
