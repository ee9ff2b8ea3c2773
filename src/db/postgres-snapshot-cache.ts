import { SharedWork } from '../lib/shared-work.ts';
import type { SnapshotCache } from './snapshot-cache.ts';

const mostRemembered = 1000;

/**
 * Caches results from PostgreSQL until the next commit. PostgreSQL tells which transactions a reader would see now;
 * while that stays the same, all reads give the same. Asking costs a round trip, which concurrent callers share. Each
 * caller gets the result of a look that began after it asked, so that it sees its own last write.
 *
 * After a crash PostgreSQL may use numbers of transactions again, so its start time is part of the answer.
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
        if (asOf !== this.#seen) return; // there was a commit while the value was computed
        if (this.#known.size >= mostRemembered) this.#known.clear();
        this.#known.set(name, value);
      },
    };
  }
}
