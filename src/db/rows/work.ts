/** What is done for projects, and what is said of it. */

export interface BuildRequestRow {
  id: bigint;
  project_id: bigint;
  commit_ref: string;
  commit_id: bigint | null;
  build_state: string;
  created_by: bigint;
  created_at: bigint;
  /** How far the fetch has come; see lifecycle/rollup.ts. */
  fetch: string;
  /** What HEADRACE_BRANCH says; known once the commit is fetched. */
  branch: string;
  /** What asked for it in the name of whoever made it: `hook:ID`, `poll` or `schedule:ID`; blank where a person did. */
  trigger: string;
  event: string;
  pull_request: bigint | null;
  target_branch: string;
  /** 1 where the commit comes from a fork: its builds get no secrets. */
  from_fork: number;
  /** What the forge calls the person who did it. */
  sender: string;
  /** The full name of the ref by which the commit can be reached, where `commit_ref` is the SHA that was told. */
  fetch_ref: string;
  /** Of those with the same one, a newer request may cancel the older; blank where none may. */
  concurrency_group: string;
}

/** Dates of the SCM are kept as text because they keep the offset their author had. Lists are JSON. */
export interface CommitRow {
  id: bigint;
  project_id: bigint;
  ref: string;
  version: number;
  build_state: string;
  message: string;
  scm_author_name: string;
  scm_author_email: string;
  scm_authored_date: string;
  scm_committer_name: string;
  scm_committer_email: string;
  scm_committed_date: string;
  branches: string;
  tags: string;
  files: string;
  /** The branch that it was taken to be built for when it was last fetched. */
  branch: string;
}

/** Suites can be deleted; what they built stays. */
export interface BuildRow {
  id: bigint;
  project_id: bigint;
  build_request_id: bigint;
  commit_id: bigint;
  suite_id: bigint;
  build_state: string;
  attempt: number;
  exit_status: number | null;
  failure_reason: string;
  created_at: bigint;
  started_at: bigint | null;
  finished_at: bigint | null;
}

/** Which commit a branch or tag pointed to when it was last built. */
export interface BuiltRefRow {
  id: bigint;
  project_id: bigint;
  name: string;
  commit_id: bigint;
}

export interface DeployRow {
  id: bigint;
  project_id: bigint;
  deploy_strategy_id: bigint;
  commit_id: bigint;
  state: string;
  created_by: bigint;
  started_at: bigint | null;
  finished_at: bigint | null;
  /** What the strategy said when the deploy was asked for: it may be changed or deleted before its turn comes. */
  repository_url: string;
  local_branch: string;
  remote_branch: string;
}

/** Somebody looked whether a project's repository can be reached. */
export interface ConnectionCheckRow {
  id: bigint;
  project_id: bigint;
  created_at: bigint;
  /** What was seen, as JSON; null while nobody has looked. */
  answer: string | null;
}

/** Work that waits for somebody, or that somebody has claimed. What is done has no row. */
export interface JobRow {
  id: bigint;
  kind: string;
  subject_id: bigint;
  account_id: bigint;
  /** Jobs with the same lane are done one after the other, in their order. */
  lane: string | null;
  /** How often it was claimed. */
  tries: number;
  run_after: bigint;
  claim: string | null;
  holder: string | null;
  claimed_until: bigint | null;
  cancelled: number;
  /** The blobs that the order for it names, as a JSON list: whoever holds the claim may read these. */
  named_blobs: string | null;
  /** The blob that was stored under the claim: the outcome can name no other. */
  stored_blob: string | null;
}

/** Whose turn it is: accounts are served in the order of `turn`. */
export interface QueueTurnRow {
  account_id: bigint;
  turn: bigint;
}

export interface EventRow {
  id: bigint;
  project_id: bigint;
  sequence: bigint;
  subject_id: bigint;
  type: string;
  state: string;
  created_at: bigint;
}

export interface DeliveryRow {
  id: bigint;
  notification_id: bigint;
  /** Deliveries of one notification are sent in this order. */
  position: bigint;
  event_type: string;
  /** JSON, without the project's key, which is sealed elsewhere. */
  payload: string;
  state: string;
  created_at: bigint;
  /** From when on the time counts for which it is tried. */
  since: bigint;
}

export interface DeliveryAttemptRow {
  id: bigint;
  delivery_id: bigint;
  status: number | null;
  duration_ms: number;
  /** The beginning of what the receiver said. */
  answer: string;
  /** Why there was no answer. */
  error: string;
  created_at: bigint;
}
