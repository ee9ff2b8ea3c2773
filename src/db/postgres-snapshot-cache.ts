import { SharedWork } from '../lib/shared-work.ts';
import type { SnapshotCache } from './snapshot-cache.ts';

const mostRemembered = 1000;

/**
 * Remembers what was worked out from PostgreSQL for as long as nobody has committed anything. PostgreSQL tells which
 * transactions a reader would see at this moment; while that is what it was, so is all that can be read. Asking costs a
 * round trip, which all who ask at about the same time share: each is answered by a look that began after it asked, so
 * that whoever has just written something finds it.
 *
 * After a crash PostgreSQL may give out numbers of transactions again, so when it was started is a part of the answer.
 */
export const lookForCommits = `select pg_postmaster_start_time() || ' ' || pg_current_snapshot() as seen`;

export class PostgresSnapshotCache {
  readonly #look: () => Promise<string>;
  readonly #looks = new SharedWork<SnapshotCache>();
  readonly #known = new Map<string, unknown>();
  #seen = '';

  constructor(look: () => Promise<string>) {
    this.#look = look;
  }

  now(): Promise<SnapshotCache> {
    return this.#looks.do('', async () => {
      const seen = await this.#look();
      if (seen !== this.#seen) this.#known.clear();
      this.#seen = seen;
      return this.#asOf(seen);
    });
  }

  #asOf(seen: string): SnapshotCache {
    return {
      asOf: seen,
      get: (name) => (this.#seen === seen ? this.#known.get(name) : undefined),
      set: (name, value, asOf) => {
        if (asOf !== this.#seen) return; // something was committed while it was worked out
        if (this.#known.size >= mostRemembered) this.#known.clear();
        this.#known.set(name, value);
      },
    };
  }
}
