import { CompiledQuery, type Compilable, type QueryResult } from 'kysely';
import type { Queries } from './open.ts';
import type { Schema } from './schema.ts';

/**
 * Queries that are put into SQL once and then only run: for the few that every request and every build makes. Kysely
 * would build the same text anew each time, which costs more than SQLite takes to answer.
 */
type Build<Values, Row> = (
  db: Queries,
  value: <Name extends keyof Values & string>(name: Name) => Values[Name],
  example: Values,
) => Compilable<Row>;

/** Answers rows. */
export function prepared<Values extends object, Row>(
  build: Build<Values, Row>,
): (db: Queries, values: Values) => Promise<readonly Readonly<Row>[]> {
  const execute = preparedOnce(build);
  return async (db, values) => (await execute(db, values)).rows;
}

/** Answers how many rows it changed. */
export function preparedWrite<Values extends object>(
  build: Build<Values, unknown>,
): (db: Queries, values: Values) => Promise<bigint> {
  const execute = preparedOnce(build);
  return async (db, values) => (await execute(db, values)).numAffectedRows ?? 0n;
}

/** Inserts whole rows. The columns are those of the first one. */
export function preparedInsert<Table extends keyof Schema>(
  table: Table,
): (db: Queries, row: Schema[Table]) => Promise<bigint> {
  const execute = preparedOnce<Schema[Table], unknown>((db, value, row) => {
    const columns = Object.keys(row) as (keyof Schema[Table] & string)[];
    return db.insertInto(table).values(Object.fromEntries(columns.map((column) => [column, value(column)])) as never);
  });
  return async (db, row) => (await execute(db, row)).numAffectedRows ?? 0n;
}

function preparedOnce<Values extends object, Row>(build: Build<Values, Row>) {
  const compiledFor = new Map<string, { query: CompiledQuery<Row>; names: string[] }>();

  return (db: Queries, values: Values): QueryResult<Row> | Promise<QueryResult<Row>> => {
    const dialect = db.getExecutor().adapter.constructor.name;
    let compiled = compiledFor.get(dialect);
    if (!compiled) {
      const query = build(db, (name) => new Blank(name) as never, values).compile();
      const names = query.parameters.map((parameter) => {
        if (parameter instanceof Blank) return parameter.name;
        throw new Error('a prepared query takes its values by name');
      });
      compiled = { query, names };
      compiledFor.set(dialect, compiled);
    }
    const query = { ...compiled.query, parameters: compiled.names.map((name) => values[name as keyof Values]) };
    const executeNow = directWays.get(db);
    return executeNow ? executeNow<Row>(query) : db.executeQuery<Row>(query);
  };
}

/** Runs a query at once, without the detour through Kysely's connections, which takes longer than SQLite itself. */
export type ExecuteNow = <R>(query: CompiledQuery<R>) => QueryResult<R>;

const directWays = new WeakMap<Queries, ExecuteNow>();

/** Lets prepared queries on this database, or in this transaction, go straight to it. */
export function executeDirectly(db: Queries, executeNow: ExecuteNow): void {
  directWays.set(db, executeNow);
}

/** A transaction that is over has no way to the database any more. */
export function endDirectWay(db: Queries): void {
  directWays.delete(db);
}

/** Stands where a value will be. */
class Blank {
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }
}
