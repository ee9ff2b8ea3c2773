import type { Database } from '../db/open.ts';
import { prepared } from '../db/prepared.ts';
import type { JobRow } from '../db/schema.ts';

/**
 * Which claims have lapsed: those that were not extended for a while. That is found out by watching and not by the time
 * that stands in the store: the clock of a machine may be set while builds run, by hours, and then all of them would be
 * lost at once, or none for hours. Each extension changes what stands there; a claim that stays as it is for its time,
 * by the clock of the process that watches, which nobody sets, has lapsed.
 *
 * Only time counts in which somebody looked: while this server stood still or the database was away, nobody could extend
 * anything. So one that starts gives every claim its time, and a little more, because its holder may just be waiting
 * before it knocks again. Servers that share a database all watch, and meet at the row of the job.
 */
export interface LapseWatch {
  look(): Promise<LapsedClaim[]>;
}

export type LapsedClaim = Pick<JobRow, 'id' | 'kind' | 'holder' | 'subject_id'> & { claim: string };

export interface LapseTimes {
  /** How long a claim on a job of that kind holds without being extended, in milliseconds. */
  claimMs: (kind: string) => number;
  /** What those that were there before this server get beside it. */
  atStart: number;
  /** How often somebody looks; a longer time between two looks counts as no more than two such pauses. */
  everyMs: number;
}

interface Seen {
  until: bigint | null;
  /** For how long it has stayed as it is, in time that was watched. */
  age: number;
}

export function watchClaims(db: Database, times: LapseTimes): LapseWatch {
  let seen = new Map<string, Seen>();
  let lookedAt: number | undefined;
  return {
    async look() {
      const claims = await findAllClaimed(db.read, {});
      const now = performance.now();
      const passed = lookedAt === undefined ? 0 : Math.min(now - lookedAt, 2 * times.everyMs);
      const youngest = lookedAt === undefined ? -times.atStart : 0;
      const still = new Map<string, Seen>();
      const lapsed: LapsedClaim[] = [];
      for (const { claim, claimed_until: until, ...job } of claims) {
        if (claim === null) continue;
        const known = seen.get(claim);
        const age = known?.until === until ? known.age + passed : youngest;
        still.set(claim, { until, age });
        if (until === nobodys || age > times.claimMs(job.kind)) lapsed.push({ ...job, claim });
      }
      seen = still;
      lookedAt = now;
      return lapsed;
    },
  };
}

/** What stands in the store where a holder is known to be gone: such a claim has lapsed at once. */
export const nobodys = 0n;

type ClaimedRow = Pick<JobRow, 'id' | 'kind' | 'holder' | 'subject_id' | 'claim' | 'claimed_until'>;

const findAllClaimed = prepared<Record<string, never>, ClaimedRow>((db) =>
  db
    .selectFrom('jobs')
    .select(['id', 'kind', 'holder', 'subject_id', 'claim', 'claimed_until'])
    .where('claim', 'is not', null),
);
