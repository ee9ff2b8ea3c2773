import type { BlobDigest } from './values.ts';
/** The work for projects: requests, commits, builds, deploys, checks, jobs and deliveries. */

export interface BuildRequestRow {
  id: bigint;
  project_id: bigint;
  commit_ref: string;
  commit_id: bigint | null;
  build_state: string;
  created_by: bigint;
  created_at: bigint;
  /** The state of the fetch; see lifecycle/rollup.ts. */
  fetch: string;
  /** The value of HEADRACE_BRANCH; known when the commit is fetched. */
  branch: string;
  /** What made the request on a user's behalf: `hook:ID`, `poll` or `schedule:ID`; blank where a person made it. */
  trigger: string;
  event: string;
  pull_request: bigint | null;
  target_branch: string;
  /** 1 where the commit comes from a fork: its builds get no secrets. */
  from_fork: number;
  /** The forge's name for the person who caused it. */
  sender: string;
  /** The full name of a ref that reaches the commit, where `commit_ref` is a SHA. */
  fetch_ref: string;
  /** The full name of the ref that the fetch found the commit by, on which the commit is; blank for a SHA alone. */
  fetched_as: string;
  /** Who asked for it, or for its rerun; null where a hook, a poll or a schedule did. */
  asked_by: bigint | null;
  /** A newer request of the same group may cancel an older one; blank where none may. */
  concurrency_group: string;
  /** Its place in a trace, as JSON (tracing/traces.ts); blank where it is not traced. */
  trace: string;
  /** The suites that were asked for, as a JSON list of texts; empty where all were. */
  suites: string;
  /** The same by their names, for suites that only the file of a branch has. */
  suite_names: string;
  /** The variables that it was asked for with, as JSON. */
  variables: string;
  /** The deploy that it is for, where a deploy runs a suite. */
  deploy_id: bigint | null;
  /** Why its commit could not be fetched or built, in one word; blank where it could. */
  failure_reason: string;
  /** The SHA that its branch had before the push; `none` for a new branch; blank where nobody said. */
  before: string;
  /** The file of the repository that its commit is built by, and its digest; blank where it is built by the project's suites. */
  config_file: string;
  config_digest: string;
  /** The same for a push and a pull request that bring one commit; blank where it joins none (lifecycle/joined-requests.ts). */
  join_key: string;
  /** The request whose suites count for this one too. */
  joined_to_id: bigint | null;
}

/** The files by which the commit of a request differs from another one: what rules compare. */
export interface RequestChangesRow {
  build_request_id: bigint;
  /** The SHA of the other one; blank where there is none. */
  base: string;
  /** In words, what it is: `the merge base with main`. */
  compared_with: string;
  /** A JSON list; null where no rule asked for it. */
  files: string | null;
}

/** Dates of the SCM are text because they keep their author's offset. Lists are JSON. */
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
  /** The branch for which it was built at its last fetch. */
  branch: string;
  /** The SHA of its first parent; blank if it has none or the runner did not report it. */
  parent: string;
}

/** Suites can be renamed and deleted; their builds stay. */
export interface BuildRow {
  id: bigint;
  project_id: bigint;
  build_request_id: bigint;
  commit_id: bigint;
  /** null where only the file of the branch has the suite. */
  suite_id: bigint | null;
  /** The suite's name when the build was made. Attempts at the same name and variant follow each other. */
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
  /** 1 where its failure does not fail its commit. */
  allow_failure: number;
  /** Which automatic retry it is, after a failure; 0 for none. */
  retry: number;
  /** How many retries may follow. */
  retries_left: number;
  /** Builds that were started together have the same; later starts have higher ones. See lifecycle/rollup.ts. */
  series: bigint;
  /** How many tests its reports told of. */
  tests_passed: number;
  tests_failed: number;
  tests_skipped: number;
  /** Blank; `pending` while files of it wait on its runner; or why some were lost (lifecycle/uploads.ts). */
  uploads: string;
  /** The part of its log that its commands wrote; null until it is over, and where its runner did not tell. */
  output_from: bigint | null;
  output_to: bigint | null;
  /** Its steps as JSON, as far as its runner told; blank for one with a command of which nothing was told yet. */
  steps: string;
  /** Its services as JSON, each with the log that it has, once they are known. */
  services: string;
  /** The names of the suites that it needs, as a JSON list. */
  needs: string;
  /** The name of the one of these whose files it begins with; blank where it begins with the checkout. */
  files_from: string;
  /** The build that left them, once that is known. */
  files_of: bigint | null;
  /** 1 where somebody has to approve it before it begins. */
  approval: number;
  /** The addresses of those of whom one has to, as a JSON list; empty where anybody of the project may. */
  approvers: string;
  /** The address of who did; blank before. */
  approved_by: string;
  /** Who asked for this attempt; null where nobody did. */
  asked_by: bigint | null;
  /** As JSON, once it began: the names of the variables limited to refs that it has, and the variables that it lacks. */
  limited: string;
  withheld: string;
  /** 1 where its suite runs only if somebody names it: then a cancelled build says nothing about its commit. */
  manual: number;
  /** Builds of the project with the same one run one at a time; blank for none. */
  concurrency_group: string;
  /** What keeps it out of the queue: `needs` or its `group`; blank where nothing does (lifecycle/held-back.ts). */
  held: string;
  /** The deploy that it is made for: then its commit's state does not depend on it. */
  deploy_id: bigint | null;
}

/** The commit of a branch or tag when it was last built. */
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
  /** The strategy's settings when the deploy was requested: the strategy may change or be deleted before its turn. */
  clone_url: string;
  local_branch: string;
  remote_branch: string;
  suite_id: bigint | null;
  /** Of whom one has to approve it, as a JSON list of addresses; empty where anybody of the project may. */
  approvers: string;
  /** The address of who did; blank where nobody did. */
  approved_by: string;
}

/** A check whether a project's repository can be reached. */
export interface ConnectionCheckRow {
  id: bigint;
  project_id: bigint;
  created_at: bigint;
  /** The result, as JSON; null until there is one. */
  answer: string | null;
}

/** Work that waits or is claimed. Finished work has no row. */
export interface JobRow {
  id: bigint;
  kind: string;
  subject_id: bigint;
  account_id: bigint;
  /** Jobs of the same lane run one after the other, in order. */
  lane: string | null;
  /** How often it was claimed. */
  tries: number;
  run_after: bigint;
  claim: string | null;
  holder: string | null;
  claimed_until: bigint | null;
  cancelled: number;
  /** The blobs that its order names, as a JSON list: the holder of the claim may read these. */
  named_blobs: string | null;
  /** The blob that was stored under the claim: the outcome can name no other. */
  stored_blob: BlobDigest | null;
  /** Its size, as the server counted it. */
  stored_bytes: bigint | null;
  /** The tags that a runner needs for it, as one text; empty where any runner will do. */
  tags: string;
  /** The location of the files that it needs, which may have it before it is due (runner/kept-builds.ts). */
  location: string | null;
}

/** The queue serves accounts in the order of `turn`. */
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
  /** Deliveries of one notification are sent in this order. */
  position: bigint;
  event_type: string;
  /** JSON, without the project's key, which is sealed elsewhere. */
  payload: string;
  state: string;
  created_at: bigint;
  /** The time limit for retries counts from here. */
  since: bigint;
}

export interface WebhookAttemptRow {
  id: bigint;
  delivery_id: bigint;
  status: number | null;
  duration_ms: number;
  /** The beginning of the receiver's answer. */
  answer: string;
  /** Why there was no answer. */
  error: string;
  created_at: bigint;
}
