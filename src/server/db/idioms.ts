import { sql, type RawBuilder, type SqlBool } from 'kysely';

export interface Idioms {
  /** The database's clock in milliseconds, shared by all its servers. */
  readonly clock: RawBuilder<bigint>;
  /**
   * Column = value, for a query along an index of several columns. With `=`, PostgreSQL may choose another index and
   * read much more.
   */
  isExactly(column: string, value: RawBuilder<unknown>): RawBuilder<SqlBool>;
  /** First column = value and second column > value, for a query that starts at this point of an index on both. */
  isBehind(first: Compared, second: Compared): RawBuilder<SqlBool>;
  /**
   * Column is among the results of a query with few results. Otherwise PostgreSQL may read the whole table for a
   * join.
   */
  isAmong(column: string, query: RawBuilder<unknown>): RawBuilder<SqlBool>;
  /** Whether all words of one list are in the other. Words contain no comma and no quote. */
  isSubset(words: RawBuilder<string>, of: string | RawBuilder<string>): RawBuilder<SqlBool>;
}

export interface Compared {
  column: string;
  value: RawBuilder<unknown>;
}

export const postgresIdioms: Idioms = {
  clock: sql`(extract(epoch from clock_timestamp()) * 1000)::bigint`,
  isExactly: (column, value) => sql`${sql.ref(column)} >= ${value} and ${sql.ref(column)} <= ${value}`,
  // PostgreSQL starts in the middle of an index of two columns only if they are compared as a pair.
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
