import type { PoolClient } from 'pg';

/** PostgreSQL keeps the plans of every connection. This limits them, should the texts vary without end. */
const mostPrepared = 500;

/** Statements that are used again are prepared: planning one takes longer than running it. */
export class Statements {
  readonly #names = new Map<string, string>();
  readonly #since = new WeakMap<PoolClient, number>();
  #generation = 0;
  #made = 0;

  /** The name under which a statement is prepared; undefined when there are too many. */
  nameOf(text: string): string | undefined {
    const known = this.#names.get(text);
    if (known !== undefined || this.#names.size >= mostPrepared) return known;
    const name = `headrace_${(this.#made += 1)}`;
    this.#names.set(text, name);
    return name;
  }

  /** False for a connection that may hold statements from before the tables changed; it must be replaced. */
  areCurrentIn(client: PoolClient): boolean {
    const since = this.#since.get(client);
    if (since === undefined) this.#since.set(client, this.#generation);
    return since === undefined || since === this.#generation;
  }

  /** The tables have changed: all statements are prepared again, on new connections. */
  forget(): void {
    this.#generation += 1;
    this.#names.clear();
  }
}
