import type { Stored } from '../db/doomed-blobs.ts';
import type { Database } from '../db/open.ts';
import type { JobRow } from '../db/schema.ts';
import { detached, nobody } from './leases.ts';

/**
 * Claims expire if they are not extended for a while. This is watched, not read from the stored time. A machine's clock
 * may be set by hours, and then all claims would expire at once, or none for hours. Each extension changes the stored
 * time. A claim whose stored time stays the same for its duration has expired, by the watching process's clock, which
 * cannot be set.
 *
 * Only watched time counts: while this server was stopped or the database was unreachable, claims could not be
 * extended. So a starting server gives every claim its full time and a little more for the holder's next attempt. All
 * servers on a database watch, and the job's row lets only one of them act.
 */
export interface LapseWatch {
  findLapsed(): Promise<LapsedClaim[]>;
}

export type LapsedClaim = Stored & Pick<JobRow, 'id' | 'kind' | 'holder' | 'subject_id'> & { claim: string };

export interface LapseTimes {
  /** Duration of a claim on a job of that kind without an extension. */
  claimMs: (kind: string) => number;
  /** Added for claims from before this server's start. */
  atStart: number;
  /** The pause between two checks. A longer time counts as two pauses at most. */
  everyMs: number;
}

interface Seen {
  until: bigint | null;
  /** How long the stored time has stayed the same, in watched time. */
  age: number;
}

export function watchClaims(db: Database, times: LapseTimes): LapseWatch {
  let seen = new Map<string, Seen>();
  let checkedAt: number | undefined;
  return {
    async findLapsed() {
      const claims = await db.read
        .selectFrom('jobs')
        .select(['id', 'kind', 'holder', 'subject_id', 'account_id', 'claim', 'claimed_until'])
        .select(['stored_blob', 'stored_bytes'])
        .where('claim', 'is not', null)
        .execute();
      const now = performance.now();
      const passed = checkedAt === undefined ? 0 : Math.min(now - checkedAt, 2 * times.everyMs);
      const youngest = checkedAt === undefined ? -times.atStart : 0;
      const still = new Map<string, Seen>();
      const lapsed: LapsedClaim[] = [];
      for (const { claim, claimed_until: until, ...job } of claims) {
        if (claim === null) continue;
        const known = seen.get(claim);
        const age = known?.until === until ? known.age + passed : youngest;
        still.set(claim, { until, age });
        const most = until === detached ? detachedMs : times.claimMs(job.kind);
        if (until === nobody || age > most) lapsed.push({ ...job, claim });
      }
      seen = still;
      checkedAt = now;
      return lapsed;
    },
  };
}

/** Duration of a detached claim. The next server on the holder's machine may first install an upgrade. */
const detachedMs = 10 * 60 * 1000;
