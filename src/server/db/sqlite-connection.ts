import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { CompiledQuery, QueryResult } from 'kysely';

const statementsKept = 512;

export class Connection {
  readonly #database: DatabaseSync;
  readonly #statements = new Map<string, Statement>();

  constructor(database: DatabaseSync) {
    this.#database = database;
  }

  get inTransaction(): boolean {
    return this.#database.isTransaction;
  }

  run(sql: string): void {
    this.#prepare(sql).run();
  }

  execute<R>({ sql, parameters }: CompiledQuery): QueryResult<R> {
    return this.#prepare(sql).execute<R>(parameters);
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

type Parameters = (null | number | bigint | string | Uint8Array)[];

/** Rows have the same types as in PostgreSQL: bigint only for 64-bit columns. */
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

  #narrow(row: Record<string, unknown>): void {
    for (const name of this.#smallIntegers) {
      const value = row[name];
      if (typeof value === 'bigint') row[name] = Number(value);
    }
  }
}
