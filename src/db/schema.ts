/**
 * The tables as TypeScript sees them. `bigint` columns hold identifiers and moments (milliseconds since 1970);
 * columns of type `Sealed` hold what lib/vault.ts made; flags are 0 or 1, because SQLite has no booleans.
 * Each table is written by one module alone.
 */
export interface Schema {
  users: UserRow;
  projects: ProjectRow;
  collaborators: CollaboratorRow;
  suites: SuiteRow;
  suite_rules: SuiteRuleRow;
  suite_dependencies: SuiteDependencyRow;
  environment_variables: EnvironmentVariableRow;
  dependencies: DependencyRow;
  dependency_relations: DependencyRelationRow;
  dependency_pins: DependencyPinRow;
  dependency_events: DependencyEventRow;
  deploy_strategies: DeployStrategyRow;
  deploys: DeployRow;
  notifications: NotificationRow;
  deliveries: DeliveryRow;
  delivery_attempts: DeliveryAttemptRow;
  build_requests: BuildRequestRow;
  commits: CommitRow;
  builds: BuildRow;
  jobs: JobRow;
  queue_turns: QueueTurnRow;
  events: EventRow;
  logs: LogRow;
  doomed_blobs: DoomedBlobRow;
  log_chunks: LogChunkRow;
  log_marks: LogMarkRow;
  log_indexes: LogIndexRow;
  built_refs: BuiltRefRow;
  connection_checks: ConnectionCheckRow;
  runners: RunnerRow;
  runner_accounts: RunnerAccountRow;
  runner_visits: RunnerVisitRow;
  idempotency_keys: IdempotencyKeyRow;
  oauth_clients: OauthClientRow;
  oauth_codes: OauthCodeRow;
  access_tokens: AccessTokenRow;
  sessions: SessionRow;
  password_links: PasswordLinkRow;
  sign_in_failures: SignInFailureRow;
  audit_entries: AuditEntryRow;
  id_nodes: IdNodeRow;
  applied_migrations: AppliedMigrationRow;
  master_key_canary: MasterKeyCanaryRow;
}

type Sealed = string;
/** The digest of a blob that stays as long as the row refers to it; see `blobColumns`. */
type BlobDigest = string;

export interface UserRow {
  id: bigint;
  email: string;
  /** null until an invited person has set one. */
  password_hash: string | null;
  api_key_hash: string | null;
  kind: string;
  suspended: number;
  billing: string;
  created_at: bigint;
  /** Whether the person may see what concerns the whole installation. */
  operator: number;
}

export interface ProjectRow {
  id: bigint;
  owner_id: bigint;
  name: string;
  description: string;
  repository_url: string;
  build_state: string;
  ssh_public_key: Sealed;
  ssh_private_key: Sealed;
  created_at: bigint;
  /** The sequence of its newest event. */
  last_event: bigint;
  /** The newest commit of the repository's default branch that was built: the project's state is that one's. */
  trunk_commit_id: bigint | null;
}

export interface CollaboratorRow {
  id: bigint;
  project_id: bigint;
  user_id: bigint;
  created_at: bigint;
}

export interface SuiteRow {
  id: bigint;
  project_id: bigint;
  name: string;
  description: string;
  command: string;
}

export interface SuiteRuleRow {
  id: bigint;
  suite_id: bigint;
  subject: string;
  operator: string;
  value: string;
}

/** The order of `id` is the order in which dependencies were attached, and so that in which they are laid over each other. */
export interface SuiteDependencyRow {
  id: bigint;
  suite_id: bigint;
  dependency_id: bigint;
}

export interface EnvironmentVariableRow {
  id: bigint;
  suite_id: bigint;
  name: string;
  content: Sealed;
  /** 0 where it may be seen in logs. */
  secret: number;
}

export interface DependencyRow {
  id: bigint;
  owner_id: bigint;
  name: string;
  description: string;
  command: string;
  prefix: string;
  source: string;
  launch_command: string;
  state: string;
  archive_content_type: string | null;
  archive_file_size: bigint | null;
  created_at: bigint;
  /** The blob with the newest source, and what kind of archive it is. */
  archive: BlobDigest | null;
  archive_kind: string | null;
  /** The blob with what was compiled last, and the prefix that it was compiled for. */
  result: BlobDigest | null;
  result_prefix: string;
  /** The prefix that the compile under way is for: the one above may be changed meanwhile. */
  compile_prefix: string;
  /** Whether every account may use it, also while it is compiled anew. */
  shared: number;
  /** The sequence of its newest event. */
  last_event: bigint;
}

export interface DependencyRelationRow {
  id: bigint;
  dependency_id: bigint;
  related_id: bigint;
}

/**
 * One layer of what another account's dependency was when a suite or a dependency began to use it. What lies below comes
 * first, the dependency itself last.
 */
export interface DependencyPinRow {
  /** Whose it is: the one or the other. */
  suite_dependency_id: bigint | null;
  relation_id: bigint | null;
  position: number;
  dependency_id: bigint;
  name: string;
  digest: BlobDigest | null;
  prefix: string;
  launch_command: string;
}

/** Every state that a dependency came to, in order. */
export interface DependencyEventRow {
  dependency_id: bigint;
  sequence: bigint;
  state: string;
  created_at: bigint;
}

export interface DeployStrategyRow {
  id: bigint;
  project_id: bigint;
  name: string;
  strategy_type: string;
  repository_url: string;
  local_branch: string;
  remote_branch: string;
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

export interface NotificationRow {
  id: bigint;
  project_id: bigint;
  name: string;
  notifiable_type: string;
  url: string;
  secret: Sealed;
  /** The position of its newest delivery. */
  last_position: bigint;
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

/** The log of a build, a fetch, a compile or a deploy has that record's identifier. */
export interface LogRow {
  id: bigint;
  project_id: bigint | null;
  size: bigint;
  complete: number;
  /** Where it lies once it is complete and packed. */
  blob: BlobDigest | null;
  /** When it was completed; null while more is to come, and once what it said is gone. */
  completed_at: bigint | null;
  /** How many line breaks are in it. null where nobody counted: in logs from before they were counted. */
  line_breaks: bigint | null;
  /** How its lines stand where it ends now; see lib/line-scan.ts. */
  line_state: string | null;
  /** When its first byte came, and when its last one did; null where nothing came, or nobody looked at the clock. */
  began_at: bigint | null;
  said_at: bigint | null;
}

export interface LogChunkRow {
  log_id: bigint;
  start: bigint;
  bytes: Uint8Array;
}

/** A place in a log that is not packed, from which its lines can be read. Its beginning is one without being here. */
export interface LogMarkRow {
  log_id: bigint;
  /** How many line breaks are before it. */
  line_breaks: bigint;
  start: bigint;
  /** When what is there was said, in milliseconds since the log began. */
  at: bigint;
  line_state: string;
}

/** All marks of a log that is packed; see streams/line-index.ts. */
export interface LogIndexRow {
  log_id: bigint;
  bytes: Uint8Array;
}

/** Referred to by what was deleted: it goes, unless something else refers to it. */
export interface DoomedBlobRow {
  digest: string;
}

/** Which commit a branch or tag pointed to when it was last built. */
export interface BuiltRefRow {
  id: bigint;
  project_id: bigint;
  name: string;
  commit_id: bigint;
}

/** Somebody looked whether a project's repository can be reached. */
export interface ConnectionCheckRow {
  id: bigint;
  project_id: bigint;
  created_at: bigint;
  /** What was seen, as JSON; null while nobody has looked. */
  answer: string | null;
}

export interface RunnerRow {
  id: bigint;
  name: string;
  token_hash: string;
  created_at: bigint;
  /** Its token opens nothing from then on. */
  revoked_at: bigint | null;
}

/** A runner that came, or that a server has tried to start beside itself; see auth/runner-visits.ts. */
export interface RunnerVisitRow {
  /** What its claims are held under. */
  holder: string;
  /** null for one on a server's own machine. */
  runner_id: bigint | null;
  /** By the database's clock, to a few seconds. */
  seen_at: bigint;
  /** Of the program; empty when it did not say. */
  version: string;
  /** Why it can do nothing, for operators; empty when it can. */
  trouble: string;
}

/** A runner with such rows works for these accounts alone, one without for all. */
export interface RunnerAccountRow {
  id: bigint;
  runner_id: bigint;
  account_id: bigint;
}

export interface IdempotencyKeyRow {
  id: bigint;
  user_id: bigint;
  key: string;
  request_hash: string;
  status: number;
  answer: Sealed;
  created_at: bigint;
}

/** An application that acts for people. Its identifier is what it is called by in requests. */
export interface OauthClientRow {
  id: bigint;
  owner_id: bigint;
  name: string;
  /** A list, as JSON. */
  redirect_uris: string;
  /** null for one that is distributed without a secret. */
  secret_hash: string | null;
  created_at: bigint;
}

/** A code that was given and not yet redeemed. */
export interface OauthCodeRow {
  id: bigint;
  code_hash: string;
  client_id: bigint;
  user_id: bigint;
  /** With spaces between them. */
  scopes: string;
  redirect_uri: string;
  redirect_uri_sent: number;
  code_challenge: string | null;
  expires_at: bigint;
}

export interface AccessTokenRow {
  id: bigint;
  token_hash: string;
  client_id: bigint;
  user_id: bigint;
  /** With spaces between them. */
  scopes: string;
  /** The code it was given for: when that one comes again, the token goes. null in the implicit flow. */
  code_hash: string | null;
  created_at: bigint;
  /** To the hour. */
  last_used_at: bigint | null;
}

/** Somebody is signed in, in one browser. */
export interface SessionRow {
  id: bigint;
  token_hash: string;
  user_id: bigint;
  expires_at: bigint;
}

/** A link with which a person sets their password, once. */
export interface PasswordLinkRow {
  id: bigint;
  token_hash: string;
  user_id: bigint;
  expires_at: bigint;
}

/** How often signing in went wrong for an account or from an address. */
export interface SignInFailureRow {
  id: bigint;
  subject: string;
  failures: number;
  last_at: bigint;
  refused_until: bigint;
  /** When the audit log was last told of it. */
  noted_at: bigint;
}

/** Who did what. Rows are only ever added; triggers in the database refuse anything else. */
export interface AuditEntryRow {
  id: bigint;
  created_at: bigint;
  /** The kind of thing, a dot, and what was done to it. */
  action: string;
  /** As they were then; null for an operator on the machine, and where nobody proved to be anybody. */
  actor_id: bigint | null;
  actor_email: string | null;
  via: string;
  application: string | null;
  address: string | null;
  subject_id: bigint | null;
  subject_name: string;
  project_id: bigint | null;
  /** An object, as JSON. */
  details: string;
}

export interface IdNodeRow {
  node: number;
  holder: string;
  leased_until: bigint;
  used_until: bigint;
}

export interface AppliedMigrationRow {
  name: string;
  applied_at: bigint;
}

/** One row, sealed so that a master key can be tried on it; see db/canary.ts. */
export interface MasterKeyCanaryRow {
  id: bigint;
  sealed: Sealed;
}

/**
 * Every column that holds a sealed value, for rotating the master key. All these tables have an `id`. The canary comes
 * first: who holds its table goes on to read the others, so whoever wants them all has to begin with it.
 */
export const sealedColumns = [
  { table: 'master_key_canary', column: 'sealed' },
  { table: 'projects', column: 'ssh_public_key' },
  { table: 'projects', column: 'ssh_private_key' },
  { table: 'environment_variables', column: 'content' },
  { table: 'notifications', column: 'secret' },
  { table: 'idempotency_keys', column: 'answer' },
] as const;

/**
 * Every column that refers to a blob by its digest and so keeps it. A column that is missing here would lose its blobs
 * an hour after they were stored.
 */
export const blobColumns = [
  { table: 'logs', column: 'blob' },
  { table: 'dependencies', column: 'archive' },
  { table: 'dependencies', column: 'result' },
  { table: 'dependency_pins', column: 'digest' },
] as const;

/** The place that a sealed value is bound to. */
export function sealedPlace(place: (typeof sealedColumns)[number], id: bigint): string {
  return `${place.table}.${place.column}:${id}`;
}
