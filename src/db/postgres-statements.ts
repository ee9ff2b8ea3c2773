import type { PoolClient } from 'pg';

/** PostgreSQL keeps the plans of every connection. There are not so many of these, whatever their texts are made of. */
const mostPrepared = 500;

/** Statements that come again are prepared: to plan one takes longer than to run it. */
export class Statements {
  readonly #names = new Map<string, string>();
  readonly #since = new WeakMap<PoolClient, number>();
  #generation = 0;
  #made = 0;

  /** What a statement is prepared under; undefined when there are too many. */
  nameOf(text: string): string | undefined {
    const known = this.#names.get(text);
    if (known !== undefined || this.#names.size >= mostPrepared) return known;
    const name = `headrace_${(this.#made += 1)}`;
    this.#names.set(text, name);
    return name;
  }

  /** False for a connection that may have statements from before the tables were changed: another takes its place. */
  areCurrentIn(client: PoolClient): boolean {
    const since = this.#since.get(client);
    if (since === undefined) this.#since.set(client, this.#generation);
    return since === undefined || since === this.#generation;
  }

  /** The tables have changed: everything is prepared anew, on other connections. */
  forget(): void {
    this.#generation += 1;
    this.#names.clear();
  }
}
