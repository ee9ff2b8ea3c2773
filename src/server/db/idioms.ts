import { sql, type RawBuilder, type SqlBool } from 'kysely';

/** What the two databases say differently. */
export interface Idioms {
  /** The database's own clock in milliseconds: the one that all servers on it share. */
  readonly clock: RawBuilder<bigint>;
  /**
   * That a column has a value, for a query that follows an index of several columns: with an equality PostgreSQL may take
   * another index and read much more; SQLite needs the equality.
   */
  isExactly(column: string, value: RawBuilder<unknown>): RawBuilder<SqlBool>;
  /** That a column has a value and a second one a greater value, for a query that begins there in an index of both. */
  isBehind(first: Compared, second: Compared): RawBuilder<SqlBool>;
  /** That a column has one of the few values that a query finds. PostgreSQL must not read the whole table to join them. */
  isAmong(column: string, query: RawBuilder<unknown>): RawBuilder<SqlBool>;
  /** Whether all words of a list are in another one. Words have no comma and no quote in them. */
  isSubset(words: RawBuilder<string>, of: string): RawBuilder<SqlBool>;
}

export interface Compared {
  column: string;
  value: RawBuilder<unknown>;
}

export const postgresIdioms: Idioms = {
  clock: sql`(extract(epoch from clock_timestamp()) * 1000)::bigint`,
  isExactly: (column, value) => sql`${sql.ref(column)} >= ${value} and ${sql.ref(column)} <= ${value}`,
  // PostgreSQL begins in the middle of an index of two columns only if they are compared as a pair.
  isBehind: ({ column, value }, { column: second, value: after }) =>
    sql`(${sql.ref(column)}, ${sql.ref(second)}) > (${value}, ${after}) and ${sql.ref(column)} <= ${value}`,
  isAmong: (column, query) => sql`${sql.ref(column)} = any(array(${query}))`,
  isSubset: (words, of) => sql`string_to_array(${words}, ',') <@ string_to_array(${of}, ',')`,
};

export const sqliteIdioms: Idioms = {
  clock: sql`cast(unixepoch('subsec') * 1000 as integer)`,
  isExactly: (column, value) => sql`${sql.ref(column)} = ${value}`,
  isBehind: ({ column, value }, { column: second, value: after }) =>
    sql`${sql.ref(column)} = ${value} and ${sql.ref(second)} > ${after}`,
  isAmong: (column, query) => sql`${sql.ref(column)} in (${query})`,
  isSubset: (words, of) => sql`(${words} = '' or not exists (
    select 1 from json_each('["' || replace(${words}, ',', '","') || '"]') as one
    where instr(',' || ${of} || ',', ',' || one.value || ',') = 0
  ))`,
};
