import { CompiledQuery, type Compilable, type QueryResult } from 'kysely';
import { takingTurns } from '../lib/turns.ts';
import type { Database, Queries, Transaction } from './open.ts';
import type { Schema } from './schema.ts';

/**
 * Queries whose SQL is built once: for the few that every request and every build runs. Kysely would build the same
 * text each time, which costs more than SQLite takes to answer.
 */
type Build<Values, Row> = (
  db: Queries,
  value: <Name extends keyof Values & string>(name: Name) => Values[Name],
) => Compilable<Row>;

/** Returns rows. */
export function prepared<Values extends object, Row>(
  build: Build<Values, Row>,
): (db: Queries, values: Values) => Promise<readonly Readonly<Row>[]> {
  const compiled = compiledOnce(build);
  return async (db, values) => (await execute(db, compiled(db, values))).rows;
}

/** Returns how many rows it changed. */
export function preparedWrite<Values extends object>(
  build: Build<Values, unknown>,
): (db: Queries, values: Values) => Promise<bigint> {
  const compiled = compiledOnce(build);
  return async (db, values) => (await execute(db, compiled(db, values))).numAffectedRows ?? 0n;
}

/**
 * Makes a change whose result is not read. Where that saves a round trip, the change is not awaited: a failure then
 * ends the transaction, at its next query or at its end. `explain` names the error that is thrown there. A caller that
 * catches errors of the awaited change would miss it.
 */
export function preparedChange<Values extends object>(
  build: Build<Values, unknown>,
  explain?: Explain,
): (trx: Transaction, values: Values) => Promise<void> {
  const compiled = compiledOnce(build);
  return async (trx, values) => change(trx, compiled(trx, values), explain);
}

/**
 * The last statement of a transaction. Where that saves a round trip, it is sent together with the commit: what it has
 * changed is committed whatever it answers. So it says itself when nothing is to be changed.
 */
export function preparedLast<Values extends object, Row>(
  build: Build<Values, Row>,
): (trx: Transaction, values: Values) => Promise<readonly Readonly<Row>[]> {
  const compiled = compiledOnce(build);
  return async (trx, values) => {
    const query = compiled(trx, values);
    const way = (trx as WithWay)[directWay];
    return (await (way?.executeLast?.(query) ?? execute(trx, query))).rows;
  };
}

/** Statements in which the two databases differ, made once for each. */
export function forEachKind<T>(make: (db: Database) => T): (db: Database) => T {
  const made = new Map<string, T>();
  return (db) => {
    const known = made.get(db.kind) ?? make(db);
    made.set(db.kind, known);
    return known;
  };
}

/** Rows are inserted in batches of these sizes, the largest first, so that a few statements serve any number. */
const batches = [64, 16, 6, 5, 4, 3, 2, 1];

/** Inserts whole rows in order, like `preparedChange`. The first row determines the columns. */
export function preparedInsert<Table extends keyof Schema>(
  table: Table,
  explain?: Explain,
): (trx: Transaction, ...rows: Schema[Table][]) => Promise<void> {
  const insertOne = insertOf(table, 1);
  const inserts = batches.map((size) => ({ size, compiled: size === 1 ? insertOne : insertOf(table, size) }));
  return async (trx, ...rows) => {
    if (rows.length === 1) return change(trx, insertOne(trx, rows), explain);
    const turn = takingTurns(); // a request may bring thousands of builds
    for (let at = 0; at < rows.length;) {
      const { size, compiled } = inserts.find((batch) => batch.size <= rows.length - at) ?? {
        size: 1,
        compiled: insertOne,
      };
      await change(trx, compiled(trx, rows.slice(at, at + size)), explain);
      at += size;
      await turn();
    }
  };
}

function insertOf<Table extends keyof Schema>(table: Table, size: number) {
  const compiledFor = new Map<string, { query: CompiledQuery; places: (readonly [number, keyof Schema[Table]])[] }>();

  return (db: Queries, rows: Schema[Table][]): CompiledQuery => {
    const dialect = dialectOf(db);
    let compiled = compiledFor.get(dialect);
    if (!compiled) {
      const columns = Object.keys(rows[0] ?? {}) as (keyof Schema[Table] & string)[];
      const blanks = Array.from({ length: size }, (_, at) =>
        Object.fromEntries(columns.map((column) => [column, new Blank(`${at} ${column}`)])),
      );
      const query = db
        .insertInto(table)
        .values(blanks as never)
        .compile();
      const places = namesIn(query).map((name) => {
        const [at, column] = name.split(' ');
        return [Number(at), column as keyof Schema[Table]] as const;
      });
      compiled = { query, places };
      compiledFor.set(dialect, compiled);
    }
    return filledIn(
      compiled.query,
      compiled.places.map(([at, column]) => rows[at]?.[column]),
    );
  };
}

function compiledOnce<Values extends object, Row>(build: Build<Values, Row>) {
  const compiledFor = new Map<string, { query: CompiledQuery<Row>; names: string[] }>();

  return (db: Queries, values: Values): CompiledQuery<Row> => {
    const dialect = dialectOf(db);
    let compiled = compiledFor.get(dialect);
    if (!compiled) {
      const query = build(db, (name) => new Blank(name) as never).compile();
      compiled = { query, names: namesIn(query) };
      compiledFor.set(dialect, compiled);
    }
    return filledIn(
      compiled.query,
      compiled.names.map((name) => values[name as keyof Values]),
    );
  };
}

const again = Symbol('comes again');

/** One shape for all, without copying: this runs for each query of each request. */
function filledIn<Row>(
  { query, queryId, sql }: CompiledQuery<Row>,
  parameters: readonly unknown[],
): CompiledQuery<Row> & { [again]: true } {
  return { query, queryId, sql, parameters, [again]: true };
}

/** Marks a query as prepared. */
export function comesAgain<Query extends object>(query: Query): Query {
  return Object.assign(query, { [again]: true });
}

/** Whether a query is prepared. */
export function isPrepared(query: object): boolean {
  return again in query;
}

function dialectOf(db: Queries): string {
  return db.getExecutor().adapter.constructor.name;
}

function namesIn({ parameters }: CompiledQuery): string[] {
  return parameters.map((parameter) => {
    if (parameter instanceof Blank) return parameter.name;
    throw new Error('a prepared query takes its values by name');
  });
}

/** Runs queries without Kysely's connections, which take longer than SQLite itself. */
export interface DirectWay {
  execute<R>(query: CompiledQuery<R>): QueryResult<R> | Promise<QueryResult<R>>;
  /** Where waiting costs time: sends a change and does not wait for its result. */
  later?(query: CompiledQuery, explain?: Explain): void;
  /** Where waiting costs time: sends the last query of a transaction with the commit. */
  executeLast?<R>(query: CompiledQuery<R>): Promise<QueryResult<R>>;
}

/** Turns the failure of a change into an error in the caller's terms, or returns the given error. */
export type Explain = (error: Error) => Error;

/** A database or a transaction carries its own direct way. */
const directWay = Symbol('direct way');
type WithWay = Queries & { [directWay]?: DirectWay | undefined };

/** Lets prepared queries on this database, or in this transaction, go straight to it. */
export function goDirectly(db: WithWay, way: DirectWay): void {
  db[directWay] = way;
}

/** A transaction that is over cannot reach the database any more. */
export function endDirectWay(db: WithWay): void {
  db[directWay] = undefined;
}

function execute<R>(db: WithWay, query: CompiledQuery<R>): QueryResult<R> | Promise<QueryResult<R>> {
  return db[directWay]?.execute<R>(query) ?? db.executeQuery<R>(query);
}

async function change(trx: Transaction, query: CompiledQuery, explain?: Explain): Promise<void> {
  const way = (trx as WithWay)[directWay];
  if (way?.later) {
    way.later(query, explain);
    return;
  }
  try {
    const done = execute(trx, query);
    if (done instanceof Promise) await done;
  } catch (error) {
    throw explain && error instanceof Error ? explain(error) : error;
  }
}

/** A placeholder for a value. */
class Blank {
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }
}
