import type { ColumnsOf } from '../../../shared/records/fields.ts';
import type { scheduleFields } from '../../../shared/records/trigger.ts';

/** Only for projects that are polled. */
export interface PollRow {
  project_id: bigint;
  account_id: bigint;
  host: string;
  /** When the next poll is due. During a poll: when another runner may take it over. */
  next_poll_at: bigint;
  /** The delay set after the last poll: a longer remaining time means that the clock was set back. */
  wait_ms: bigint;
  claim: string | null;
  holder: string | null;
  last_polled_at: bigint | null;
  outcome: string;
  reason: string;
  failures: number;
}

export interface PolledRefsRow {
  project_id: bigint;
  digest: string;
  refs: Uint8Array;
}

export interface ScheduleRow extends ColumnsOf<typeof scheduleFields> {
  id: bigint;
  project_id: bigint;
  created_at: bigint;
  next_run_at: bigint;
  last_run_at: bigint | null;
  /** Blank before the first run. */
  outcome: string;
  reason: string;
  build_request_id: bigint | null;
}
