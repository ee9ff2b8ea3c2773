import type { ColumnsOf } from '../../../shared/records/fields.ts';
import type { scheduleFields } from '../../../shared/records/trigger.ts';

/** Polls and schedules: work that is due by the clock. */

/** When a project's repository is polled, and the result of the last poll. Only for projects that are polled. */
export interface PollRow {
  project_id: bigint;
  /** The owner of the project. */
  account_id: bigint;
  /** The host of the repository. */
  host: string;
  /** When the next poll is due; during a poll, when another runner may take it over. */
  next_poll_at: bigint;
  /** The delay that was set after the last poll: a longer remaining time means that the clock was set back. */
  wait_ms: bigint;
  /** The claim on the poll under way, and its holder. */
  claim: string | null;
  holder: string | null;
  last_polled_at: bigint | null;
  outcome: string;
  /** The reason in words. */
  reason: string;
  /** How many polls in a row failed. */
  failures: number;
}

/** The branches and tags of a repository at its last poll. */
export interface PolledRefsRow {
  project_id: bigint;
  /** Of the unpacked text of `refs`. */
  digest: string;
  /** See triggers/polled-refs.ts. */
  refs: Uint8Array;
}

export interface ScheduleRow extends ColumnsOf<typeof scheduleFields> {
  id: bigint;
  project_id: bigint;
  created_at: bigint;
  next_run_at: bigint;
  last_run_at: bigint | null;
  /** The outcome of the last run; blank before the first. */
  outcome: string;
  reason: string;
  build_request_id: bigint | null;
}
