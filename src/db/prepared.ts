import { CompiledQuery, type Compilable } from 'kysely';
import type { Queries } from './open.ts';
import type { ReadNow } from './sqlite.ts';

/**
 * A query that is put into SQL once and then only run: for the few that every request makes. Kysely would
 * build the same text anew each time, which costs more than SQLite takes to answer.
 */
export function prepared<Values extends object, Row>(
  build: (db: Queries, value: <Name extends keyof Values & string>(name: Name) => Values[Name]) => Compilable<Row>,
): (db: Queries, values: Values) => Promise<readonly Readonly<Row>[]> {
  const compiledFor = new Map<string, { query: CompiledQuery<Row>; names: string[] }>();

  return async (db, values) => {
    const dialect = db.getExecutor().adapter.constructor.name;
    let compiled = compiledFor.get(dialect);
    if (!compiled) {
      const query = build(db, (name) => new Blank(name) as never).compile();
      const names = query.parameters.map((parameter) => {
        if (parameter instanceof Blank) return parameter.name;
        throw new Error('a prepared query takes its values by name');
      });
      compiled = { query, names };
      compiledFor.set(dialect, compiled);
    }
    const query = { ...compiled.query, parameters: compiled.names.map((name) => values[name as keyof Values]) };
    const readNow = directReaders.get(db);
    return readNow ? readNow<Row>(query) : (await db.executeQuery<Row>(query)).rows;
  };
}

const directReaders = new WeakMap<Queries, ReadNow>();

/** Lets prepared queries on this database, outside transactions, go straight to it. */
export function readDirectly(db: Queries, readNow: ReadNow): void {
  directReaders.set(db, readNow);
}

/** Stands where a value will be. */
class Blank {
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }
}
