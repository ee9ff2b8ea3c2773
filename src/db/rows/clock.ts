/** What is done because it is time for it. */

/** When the repository of a project is looked at, and what came of the last look. Only of projects that are polled. */
export interface PollRow {
  project_id: bigint;
  /** Whose project it is. */
  account_id: bigint;
  /** Where the repository is. */
  host: string;
  /** While somebody looks, the moment from which on another may. */
  next_look_at: bigint;
  /** How long it was put off at the last look: when more is left than that, the clock was set back. */
  wait_ms: bigint;
  /** The right to tell of the look that is under way, and who has it. */
  claim: string | null;
  holder: string | null;
  last_looked_at: bigint | null;
  outcome: string;
  /** Why, in words. */
  reason: string;
  /** How many looks in a row came to nothing. */
  failures: number;
}

/** The branches and tags that the last look at a repository saw. */
export interface PolledRefsRow {
  project_id: bigint;
  /** Of the text that `refs` is when it is unpacked. */
  digest: string;
  /** See lifecycle/polled-refs.ts. */
  refs: Uint8Array;
}

export interface ScheduleRow {
  id: bigint;
  project_id: bigint;
  /** Five fields; see lifecycle/cron.ts. */
  cron: string;
  time_zone: string;
  /** Blank for the default branch. */
  commit_ref: string;
  created_at: bigint;
  next_run_at: bigint;
  last_run_at: bigint | null;
  /** What came of the last time; blank before the first. */
  outcome: string;
  reason: string;
  build_request_id: bigint | null;
}
