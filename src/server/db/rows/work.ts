import type { BlobDigest } from './values.ts';

export interface BuildRequestRow {
  id: bigint;
  project_id: bigint;
  commit_ref: string;
  commit_id: bigint | null;
  build_state: string;
  created_by: bigint;
  created_at: bigint;
  fetch: string;
  /** HEADRACE_BRANCH; known once the commit is fetched. */
  branch: string;
  /** `hook:ID`, `poll` or `schedule:ID`; blank for a manual request. */
  trigger: string;
  event: string;
  pull_request: bigint | null;
  target_branch: string;
  /** 1 if the commit comes from a fork: its builds get no secrets. */
  from_fork: number;
  /** 1 if a user let it build. */
  approved: number;
  /** The forge's name for the user who caused the request. */
  sender: string;
  /** The full name of a ref that reaches the commit, if `commit_ref` is a SHA. */
  fetch_ref: string;
  /** The full name of the ref that led the fetch to the commit; blank for a bare SHA. */
  fetched_as: string;
  /** null for a hook, a poll or a schedule. */
  asked_by: bigint | null;
  /** A newer request of the same group may cancel an older one; blank if none may. */
  concurrency_group: string;
  /** The request's position in a trace, as JSON (tracing/traces.ts). Blank if not traced. */
  trace: string;
  /** The requested suites, as a JSON list of texts; empty for all. */
  suites: string;
  /** The names of requested suites that are only in a branch's file. */
  suite_names: string;
  variables: string;
  priority: number;
  deploy_id: bigint | null;
  /** The reason in one word. Blank without a failure. */
  failure_reason: string;
  /** The SHA that its branch had before the push; `none` for a new branch; blank if unknown. */
  before: string;
  /** The repository's file whose suites build the request. Blank if the project's suites build it. */
  config_file: string;
  config_digest: string;
  /** What the file includes, as JSON (lifecycle/includes.ts). */
  includes: string;
  /**
   * A key that a push and a pull request of one commit share. Blank if the request joins none
   * (lifecycle/joined-requests.ts).
   */
  join_key: string;
  joined_to_id: bigint | null;
  /** 1 if its builds need not run if builds with the same inputs passed. */
  reuse: number;
  /** The pull request's head, if its merge is built, and the commit of the target that it was merged into. Else blank. */
  head_sha: string;
  merge_base: string;
  /** From its first build to its last, since it was last run again. null until it is over. */
  started_at: bigint | null;
  finished_at: bigint | null;
}

/** The files that differ between a request's commit and a base: rules compare them. */
export interface RequestChangesRow {
  build_request_id: bigint;
  /** A SHA; blank if there is none. */
  base: string;
  /** In words: `the merge base with main`. */
  compared_with: string;
  /** A JSON list; null if no rule needed it. */
  files: string | null;
}

/** SCM dates are text because they keep their author's offset. Lists are JSON. */
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
  branch: string;
  /** Blank if it has none or the runner did not report it. */
  parent: string;
  /** git's digest of its files. Blank if the runner did not report it. */
  tree: string;
  /** The head that this is the merge of. Blank for a commit of the repository. */
  merge_of: string;
}

/** What a build stood on, as lists in JSON (lifecycle/build-inputs.ts). */
export interface BuildInputsRow {
  /** The build's id. */
  id: bigint;
  /** Known when a runner got the build. */
  ordered: string;
  /** What the runner reported at the end. */
  reported: string;
  /** Over both lists, without the contents that the suite ignores (lifecycle/reuse.ts). Blank if it cannot vouch. */
  ordered_key: string;
  reported_key: string;
  /** Whose builds it may stand for; blank for none. */
  vouches_for: string;
}

/** A suite whose reuse ended because a build that was passed by reuse failed when it ran. Its id is the failed build's. */
export interface ReuseStopRow {
  id: bigint;
  project_id: bigint;
  suite_name: string;
}

/** Suites can be renamed and deleted. Their builds stay. */
/** A step of a suite that takes longer than before (lifecycle/slow-steps.ts). */
export interface SlowStepRow {
  id: bigint;
  project_id: bigint;
  suite_id: bigint;
  variant: string;
  branch: string;
  step: string;
  /** The first one that was slow. */
  commit_id: bigint;
  /** Of the builds before it. */
  median_ms: number;
  /** 1 if a user does not want to see it. */
  is_quiet: number;
}

export interface BuildRow {
  id: bigint;
  project_id: bigint;
  build_request_id: bigint;
  commit_id: bigint;
  /** null if the suite is only in the branch's file. */
  suite_id: bigint | null;
  /** The suite's name when the build was created. Attempts with the same name and variant follow each other. */
  suite_name: string;
  build_state: string;
  attempt: number;
  exit_status: number | null;
  failure_reason: string;
  created_at: bigint;
  started_at: bigint | null;
  finished_at: bigint | null;
  /** The combination of its suite's matrix, `NAME=a OTHER=x`; blank without a matrix. */
  variant: string;
  allow_failure: number;
  /** Which automatic retry it is; 0 for none. */
  retry: number;
  retries_left: number;
  /** How many attempts before it the machine ended (lifecycle/tries.ts). 0 for attempts that a user started. */
  faults: number;
  /** 1 if the attempt before it ended by the machine's fault. */
  by_machine: number;
  /** The same for builds started together, higher for later starts. See lifecycle/rollup.ts. */
  series: bigint;
  tests_passed: number;
  tests_failed: number;
  tests_skipped: number;
  /**
   * Blank, `pending` while files wait on the build's runner, or the reason why some were lost
   * (lifecycle/uploads.ts).
   */
  uploads: string;
  /** What it used, as JSON. Blank until it is over. */
  usage: string;
  /** The part of the log that its commands wrote. null until the build is over, or if its runner did not report it. */
  output_from: bigint | null;
  output_to: bigint | null;
  /** JSON, as far as reported; blank for a single command without a report yet. */
  steps: string;
  /** The services as JSON, each with its log, once they are known. */
  services: string;
  needs: string;
  /** The needed suite with whose files the build begins. Blank if it begins with the checkout. */
  files_from: string;
  files_of: bigint | null;
  lent_from: string;
  lent_by: string;
  /** The step at which it is to start, with the files and variables of an earlier build. Blank for the first. */
  from_step: string;
  from_build: bigint | null;
  /** 1 if the attempt after it goes on at its last point (StepPointRow) when its runner was lost. */
  resume: number;
  approval: number;
  /** A JSON list of e-mail addresses: one of these users must approve. If it is empty, any user of the project may. */
  approvers: string;
  approved_by: string;
  /** null if the attempt is automatic. */
  asked_by: bigint | null;
  /** JSON, set when the build begins: the names of its variables limited to refs, and of variables withheld from it. */
  limited: string;
  withheld: string;
  /** JSON, set when the build begins: the first line of each step's command. */
  step_commands: string;
  /** 1 if its suite runs only on request: then a cancelled build does not affect its commit's state. */
  /** The suite's and the request's together. */
  priority: number;
  manual: number;
  /** Builds of the project with the same group run one at a time; blank for none. */
  concurrency_group: string;
  /** The reason why it is not in the queue: `needs` or its `group`. Otherwise blank (lifecycle/held-back.ts). */
  held: string;
  /** The deploy for which it was created. */
  deploy_id: bigint | null;
  /** 1 if the state of its commit depends on it. */
  counts: number;
  /** 1 if it need not run if a build with the same inputs passed (lifecycle/reuse.ts). */
  may_reuse: number;
  /** The build that ran instead of it. */
  reused_from_id: bigint | null;
  /** The reused build that it was started to check (lifecycle/reuse-checks.ts). */
  checks_id: bigint | null;
}

export interface BuiltRefRow {
  id: bigint;
  project_id: bigint;
  name: string;
  commit_id: bigint;
}

/** Where a branch is that pull requests were merged into, as far as fetches, hooks and polls reported. */
export interface TargetHeadRow {
  id: bigint;
  project_id: bigint;
  branch: string;
  sha: string;
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
  /** As of the request: the strategy may change or be deleted before the deploy starts. */
  clone_url: string;
  local_branch: string;
  remote_branch: string;
  suite_id: bigint | null;
  /** As in BuildRow. */
  approvers: string;
  approved_by: string;
}

export interface ConnectionCheckRow {
  id: bigint;
  project_id: bigint;
  created_at: bigint;
  /** JSON. null until there is an answer. */
  answer: string | null;
  /** JSON of the files of other CI systems. */
  workflows: string;
}

/** Work that waits or is claimed. Finished work has no row. */
export interface JobRow {
  id: bigint;
  kind: string;
  subject_id: bigint;
  account_id: bigint;
  /** Jobs of a lane run one after the other, in order. */
  lane: string | null;
  tries: number;
  run_after: bigint;
  claim: string | null;
  holder: string | null;
  claimed_until: bigint | null;
  cancelled: number;
  /** The blobs that its order names, as a JSON list: the holder of the claim may read these. */
  named_blobs: string | null;
  /** The blob stored under the claim. The outcome can name only this blob. */
  stored_blob: BlobDigest | null;
  stored_bytes: bigint | null;
  /** Higher first within the account. */
  priority: number;
  /** The tags that a runner needs for it, as one text; empty if any runner will do. */
  tags: string;
  /**
   * The location of the files that the job needs. The runner there may get the job before it is due
   * (runner/kept-builds.ts).
   */
  location: string | null;
  /** The runners that the job should no longer go to, each between two line breaks. null for nearly all jobs. */
  tried_by: string | null;
}

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

export interface WebhookDeliveryRow {
  id: bigint;
  notification_id: bigint;
  position: bigint;
  event_type: string;
  /** JSON, without the project's key, which is sealed elsewhere. */
  payload: string;
  state: string;
  created_at: bigint;
  /** The time limit for retries counts from here. */
  since: bigint;
  /** The build, commit, request or dependency that the type names. null for others, and for deliveries of 0.1.0. */
  subject_id: bigint | null;
}

/** The notes that a forge has of a pull request: the ID of its comment, or of the check run at the commit. */
export interface PullRequestNotesRow {
  notification_id: bigint;
  pull_request: bigint;
  remote_id: string;
  sha: string;
  /** Of all that they say. */
  text_hash: string;
}

export interface WebhookAttemptRow {
  id: bigint;
  delivery_id: bigint;
  status: number | null;
  duration_ms: number;
  answer: string;
  error: string;
  created_at: bigint;
}
