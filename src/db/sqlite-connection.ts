import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { CompiledQuery, QueryResult } from 'kysely';
import type { SnapshotCache } from './snapshot-cache.ts';

const statementsKept = 512;
const mostRemembered = 1000;

/** One SQLite connection with its prepared statements. */
export class Connection {
  readonly #database: DatabaseSync;
  readonly #statements = new Map<string, Statement>();

  constructor(database: DatabaseSync) {
    this.#database = database;
  }

  get inTransaction(): boolean {
    return this.#database.isTransaction;
  }

  /** Runs one statement that returns nothing. */
  run(sql: string): void {
    this.#prepare(sql).run();
  }

  execute<R>({ sql, parameters }: CompiledQuery): QueryResult<R> {
    return this.#prepare(sql).execute<R>(parameters);
  }

  *iterate<R>({ sql, parameters }: CompiledQuery): Iterable<R> {
    yield* this.#prepare(sql).iterate<R>(parameters);
  }

  close(): void {
    this.#database.close();
  }

  #prepare(sql: string): Statement {
    const kept = this.#statements.get(sql);
    if (kept) return kept;
    const statement = new Statement(this.#database.prepare(sql));
    if (this.#statements.size >= statementsKept) {
      const [oldest = ''] = this.#statements.keys();
      this.#statements.delete(oldest);
    }
    this.#statements.set(sql, statement);
    return statement;
  }
}

/**
 * Caches values computed from the store until the next commit. SQLite counts the commits of other connections; reading
 * that count once per turn of the event loop is cheaper than computing the values again.
 */
export class SqliteSnapshotCache implements SnapshotCache {
  readonly #countCommits: StatementSync;
  readonly #known = new Map<string, unknown>();
  #commits: unknown;
  #isCurrent = false;

  constructor(database: DatabaseSync) {
    this.#countCommits = database.prepare('pragma data_version');
  }

  get(name: string): unknown {
    if (!this.#isCurrent) this.#forgetWhatChanged();
    return this.#known.get(name);
  }

  set(name: string, value: unknown, asOf: unknown): void {
    if (asOf !== this.#commits) return; // there was a commit while the value was computed
    if (this.#known.size >= mostRemembered) this.#known.clear();
    this.#known.set(name, value);
  }

  get asOf(): unknown {
    return this.#commits;
  }

  /** There was a commit: check the count again, also in this turn. */
  doubt(): void {
    this.#isCurrent = false;
  }

  #forgetWhatChanged(): void {
    const commits = this.#countCommits.get()?.data_version;
    if (commits !== this.#commits) this.#known.clear();
    this.#commits = commits;
    this.#isCurrent = true;
    setImmediate(() => this.doubt());
  }
}

type Parameters = (null | number | bigint | string | Uint8Array)[];

/** A prepared statement whose rows have the same types as in PostgreSQL: bigint only for 64-bit columns. */
class Statement {
  readonly #statement: StatementSync;
  readonly #reads: boolean;
  readonly #smallIntegers: string[];

  constructor(statement: StatementSync) {
    this.#statement = statement;
    const columns = statement.columns();
    this.#reads = columns.length > 0;
    this.#smallIntegers = columns.filter((column) => column.type === 'INTEGER').map((column) => column.name);
  }

  execute<R>(parameters: readonly unknown[]): QueryResult<R> {
    const values = parameters as Parameters;
    if (this.#reads) {
      const rows = this.#statement.all(...values);
      if (this.#smallIntegers.length > 0) for (const row of rows) this.#narrow(row);
      return { rows: rows as R[], numAffectedRows: BigInt(rows.length) };
    }
    const { changes } = this.#statement.run(...values);
    return { rows: [], numAffectedRows: changes as bigint };
  }

  run(): void {
    this.#statement.run();
  }

  *iterate<R>(parameters: readonly unknown[]): Iterable<R> {
    for (const row of this.#statement.iterate(...(parameters as Parameters))) {
      this.#narrow(row);
      yield row as R;
    }
  }

  #narrow(row: Record<string, unknown>): void {
    for (const name of this.#smallIntegers) {
      const value = row[name];
      if (typeof value === 'bigint') row[name] = Number(value);
    }
  }
}
