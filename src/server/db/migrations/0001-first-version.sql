-- The tables, in the column types that both databases have: text, 32- and 64-bit integers, and bytes (`blob` on SQLite).
-- Moments are milliseconds since 1970, flags are 0 or 1. Lists and records are JSON.

-- People, and how they prove who they are.

create table users (
  id bigint not null primary key,
  email text not null unique,
  password_hash text,
  api_key_hash text,
  kind text not null,
  suspended integer not null,
  billing text not null,
  created_at bigint not null,
  operator integer not null default 0
);

create table sessions (
  id bigint not null primary key,
  token_hash text not null unique,
  user_id bigint not null references users (id),
  expires_at bigint not null
);
create index sessions_of_user on sessions (user_id);
create index sessions_expiring on sessions (expires_at);

create table password_links (
  id bigint not null primary key,
  token_hash text not null unique,
  user_id bigint not null unique references users (id),
  expires_at bigint not null
);

create table sign_in_failures (
  id bigint not null primary key,
  subject text not null unique,
  failures integer not null,
  last_at bigint not null,
  refused_until bigint not null,
  noted_at bigint not null default 0
);
create index sign_in_failures_old on sign_in_failures (last_at);

create table oauth_clients (
  id bigint not null primary key,
  name text not null,
  redirect_uris text not null,
  secret_hash text,
  created_at bigint not null,
  owner_id bigint references users (id)
);
create index oauth_clients_of_owner on oauth_clients (owner_id, id);

create table oauth_codes (
  id bigint not null primary key,
  code_hash text not null unique,
  client_id bigint not null references oauth_clients (id) on delete cascade,
  user_id bigint not null references users (id),
  scopes text not null,
  redirect_uri text not null,
  redirect_uri_sent integer not null,
  code_challenge text,
  expires_at bigint not null
);
create index oauth_codes_of_client on oauth_codes (client_id, user_id);
create index oauth_codes_expiring on oauth_codes (expires_at);

create table access_tokens (
  id bigint not null primary key,
  token_hash text not null unique,
  client_id bigint not null references oauth_clients (id) on delete cascade,
  user_id bigint not null references users (id),
  scopes text not null,
  code_hash text unique,
  created_at bigint not null,
  last_used_at bigint
);
create index access_tokens_of_user on access_tokens (user_id, client_id);
create index access_tokens_of_client on access_tokens (client_id);

create table idempotency_keys (
  id bigint not null primary key,
  user_id bigint not null references users (id),
  key text not null,
  request_hash text not null,
  status integer not null,
  answer text not null,
  created_at bigint not null,
  constraint idempotency_keys_key unique (user_id, key)
);
create index idempotency_keys_by_age on idempotency_keys (created_at);

-- Who did what, kept for ever. It refers to no other table, so entries stay readable when their subjects are
-- deleted.

create table audit_entries (
  id bigint not null primary key,
  created_at bigint not null,
  action text not null,
  actor_id bigint,
  actor_email text,
  via text not null,
  application text,
  address text,
  subject_id bigint,
  subject_name text not null,
  project_id bigint,
  details text not null
);

-- Forges that accounts have connected, and what was put there and has to be taken away again.

create table forges (
  id bigint not null primary key,
  owner_id bigint not null references users (id) on delete cascade,
  provider text not null,
  url text not null,
  token text not null,
  login text not null,
  may text not null,
  state text not null,
  state_reason text not null,
  checked_at bigint not null,
  created_at bigint not null,
  deleted_at bigint,
  held_until bigint not null default 0
);
create index forges_of_owner on forges (owner_id, id);

create table forge_removals (
  id bigint not null primary key,
  forge_id bigint not null references forges (id) on delete cascade,
  repository text not null,
  public_key text not null,
  hook_url text not null,
  created_at bigint not null,
  run_after bigint not null,
  tries integer not null default 0
);
create index forge_removals_by_time on forge_removals (run_after);
create index forge_removals_of_forge on forge_removals (forge_id);

-- Projects, and what is set up in them.

create table projects (
  id bigint not null primary key,
  owner_id bigint not null references users (id),
  name text not null,
  description text not null,
  repository_url text not null,
  clone_url text not null,
  build_state text not null,
  ssh_public_key text not null,
  ssh_private_key text not null,
  created_at bigint not null,
  last_event bigint not null default 0,
  default_head_id bigint,
  poll_interval integer not null default 0,
  fork_builds text not null default 'without_secrets',
  cancel_superseded text not null default 'none',
  public_badge integer not null default 0,
  default_branch text not null default '',
  config_file text not null default '',
  branch_secrets integer not null default 0,
  report_left_out integer not null default 1,
  passed_since bigint,
  failed_since bigint,
  forge_id bigint references forges (id),
  forge_repository text not null default '',
  forge_state text not null default 'none',
  forge_state_reason text not null default '',
  forge_check_at bigint,
  forge_mends integer not null default 0,
  constraint projects_name unique (owner_id, name)
);
create index projects_of_forge on projects (forge_id);
create index projects_by_forge_check on projects (forge_check_at);

create table project_documents (
  project_id bigint not null primary key references projects (id) on delete cascade,
  document text not null
);

create table collaborators (
  id bigint not null primary key,
  project_id bigint not null references projects (id) on delete cascade,
  user_id bigint not null references users (id),
  created_at bigint not null,
  constraint collaborators_user unique (project_id, user_id)
);
create index collaborators_by_user on collaborators (user_id);

create table suites (
  id bigint not null primary key,
  project_id bigint not null references projects (id) on delete cascade,
  name text not null,
  description text not null,
  command text not null,
  steps text not null default '[]',
  services text not null default '[]',
  tags text not null default '',
  timeout integer not null default 0,
  allow_failure integer not null default 0,
  retries integer not null default 0,
  matrix text not null default '[]',
  matrix_include text not null default '[]',
  matrix_exclude text not null default '[]',
  matrix_allow_failure text not null default '[]',
  image text not null default '',
  root integer,
  builds_images integer not null default 0,
  cache text not null default '[]',
  cache_save text not null default 'passed',
  artifacts text not null default '[]',
  reports text not null default '[]',
  needs text not null default '[]',
  files_from_id bigint,
  approval integer not null default 0,
  manual integer not null default 0,
  concurrency_group text not null default '',
  constraint suites_name unique (project_id, name)
);

create table suite_rules (
  id bigint not null primary key,
  suite_id bigint not null references suites (id) on delete cascade,
  subject text not null,
  operator text not null,
  value text not null
);
create index suite_rules_by_suite on suite_rules (suite_id, id);

-- The suites of files in repositories: what commits are built by that have such a file.
create table file_suites (
  id bigint not null primary key,
  project_id bigint not null references projects (id) on delete cascade,
  digest text not null,
  name text not null,
  settings text not null,
  rules text not null,
  dependencies text not null,
  constraint file_suites_name unique (project_id, digest, name)
);

create table environment_variables (
  id bigint not null primary key,
  project_id bigint references projects (id) on delete cascade,
  suite_id bigint references suites (id) on delete cascade,
  name text not null,
  content text not null,
  secret integer not null default 1,
  from_env text not null default '',
  constraint environment_variables_of_project unique (project_id, name),
  constraint environment_variables_of_suite unique (suite_id, name),
  check ((project_id is null) <> (suite_id is null))
);

create table registries (
  id bigint not null primary key,
  owner_id bigint not null references users (id) on delete cascade,
  host text not null,
  username text not null,
  password text not null,
  created_at bigint not null
);
create unique index registries_of_owner on registries (owner_id, host);

create table deploy_strategies (
  id bigint not null primary key,
  project_id bigint not null references projects (id) on delete cascade,
  name text not null,
  strategy_type text not null,
  repository_url text not null,
  clone_url text not null,
  local_branch text not null,
  remote_branch text not null,
  suite_id bigint references suites (id),
  constraint deploy_strategies_name unique (project_id, name)
);

-- Software that is compiled from source. A pin keeps what another account's dependency was when it was taken into
-- use: it is deleted with the use, and its blob stays as long as it does.

create table dependencies (
  id bigint not null primary key,
  owner_id bigint not null references users (id),
  name text not null,
  description text not null,
  command text not null,
  prefix text not null,
  source text not null,
  launch_command text not null,
  state text not null,
  archive_content_type text,
  archive_file_size bigint,
  created_at bigint not null,
  archive text,
  archive_kind text,
  result text,
  result_prefix text not null default '',
  compile_prefix text not null default '',
  shared integer not null default 0,
  last_event bigint not null default 0,
  image text not null default '',
  constraint dependencies_name unique (owner_id, name)
);
create index dependencies_shared on dependencies (id) where shared = 1;
create index dependencies_by_archive on dependencies (archive);
create index dependencies_by_result on dependencies (result);

create table dependency_relations (
  id bigint not null primary key,
  dependency_id bigint not null references dependencies (id) on delete cascade,
  related_id bigint not null references dependencies (id),
  constraint dependency_relations_related unique (dependency_id, related_id)
);
create index dependency_relations_by_related on dependency_relations (related_id);

create table suite_dependencies (
  id bigint not null primary key,
  suite_id bigint not null references suites (id) on delete cascade,
  dependency_id bigint not null references dependencies (id),
  constraint suite_dependencies_dependency unique (suite_id, dependency_id)
);
create index suite_dependencies_by_dependency on suite_dependencies (dependency_id);

create table dependency_pins (
  suite_dependency_id bigint references suite_dependencies (id) on delete cascade,
  relation_id bigint references dependency_relations (id) on delete cascade,
  position integer not null,
  dependency_id bigint not null,
  name text not null,
  digest text,
  prefix text not null,
  launch_command text not null
);
create unique index dependency_pins_of_suite_dependency_id on dependency_pins (suite_dependency_id, position);
create unique index dependency_pins_of_relation_id on dependency_pins (relation_id, position);
create index dependency_pins_by_digest on dependency_pins (digest);

create table dependency_events (
  dependency_id bigint not null references dependencies (id) on delete cascade,
  sequence bigint not null,
  state text not null,
  created_at bigint not null,
  constraint dependency_events_sequence primary key (dependency_id, sequence)
);

create table archive_uploads (
  id bigint not null primary key,
  dependency_id bigint not null unique references dependencies (id) on delete cascade,
  size bigint not null,
  received bigint not null,
  complete integer not null,
  created_at bigint not null
);

create table archive_parts (
  upload_id bigint not null references archive_uploads (id) on delete cascade,
  position bigint not null,
  digest text not null,
  constraint archive_parts_key primary key (upload_id, position)
);
create index archive_parts_by_digest on archive_parts (digest);

-- What asks for builds when nobody does. The refs of a polled repository are large and change seldom, so they have
-- a table of their own.

create table hooks (
  id bigint not null primary key,
  project_id bigint not null references projects (id) on delete cascade,
  provider text not null,
  events text not null,
  secret text not null,
  created_at bigint not null,
  forge_url text not null default ''
);
create index hooks_of_project on hooks (project_id, id);

create table hook_deliveries (
  id bigint not null primary key,
  hook_id bigint not null references hooks (id) on delete cascade,
  delivery_key text,
  received_at bigint not null,
  facts text not null,
  outcome text not null,
  reason text not null,
  build_request_id bigint,
  results text not null
);
create index hook_deliveries_of_hook on hook_deliveries (hook_id, id);
create unique index hook_deliveries_once on hook_deliveries (hook_id, delivery_key);

create table polls (
  project_id bigint not null primary key references projects (id) on delete cascade,
  account_id bigint not null,
  host text not null,
  next_poll_at bigint not null,
  wait_ms bigint not null,
  claim text,
  holder text,
  last_polled_at bigint,
  outcome text not null,
  reason text not null,
  failures integer not null
);
create index polls_by_next_poll on polls (next_poll_at);
create index polls_under_way on polls (holder) where holder is not null;

create table polled_refs (
  project_id bigint not null primary key references projects (id) on delete cascade,
  digest text not null,
  refs bytea not null
);

create table schedules (
  id bigint not null primary key,
  project_id bigint not null references projects (id) on delete cascade,
  cron text not null,
  time_zone text not null,
  commit_ref text not null,
  created_at bigint not null,
  next_run_at bigint not null,
  last_run_at bigint,
  outcome text not null,
  reason text not null,
  build_request_id bigint
);
create index schedules_of_project on schedules (project_id, id);
create index schedules_by_next_run on schedules (next_run_at);

-- Commits, and what is done with them.

create table commits (
  id bigint not null primary key,
  project_id bigint not null references projects (id) on delete cascade,
  ref text not null,
  version integer not null,
  build_state text not null,
  message text not null,
  scm_author_name text not null,
  scm_author_email text not null,
  scm_authored_date text not null,
  scm_committer_name text not null,
  scm_committer_email text not null,
  scm_committed_date text not null,
  branches text not null,
  tags text not null,
  files text not null,
  branch text not null default '',
  constraint commits_ref unique (project_id, ref)
);
create index commits_newest on commits (project_id, id);
create index commits_passed on commits (project_id, id) where build_state = 'passed';
create index commits_of_branch on commits (project_id, branch, id);

create table built_refs (
  id bigint not null primary key,
  project_id bigint not null references projects (id) on delete cascade,
  name text not null,
  commit_id bigint not null references commits (id) on delete cascade,
  constraint built_refs_name unique (project_id, name)
);
create index built_refs_of_commit on built_refs (commit_id);

create table build_requests (
  id bigint not null primary key,
  project_id bigint not null references projects (id) on delete cascade,
  commit_ref text not null,
  commit_id bigint references commits (id) on delete cascade,
  build_state text not null,
  created_by bigint not null references users (id),
  created_at bigint not null,
  branch text not null default '',
  "fetch" text not null default 'waiting',
  trigger text not null default '',
  event text not null default 'manual',
  pull_request bigint,
  target_branch text not null default '',
  from_fork integer not null default 0,
  sender text not null default '',
  fetch_ref text not null default '',
  concurrency_group text not null default '',
  trace text not null default '',
  suites text not null default '[]',
  variables text not null default '{}',
  failure_reason text not null default '',
  before text not null default '',
  config_file text not null default '',
  config_digest text not null default '',
  deploy_id bigint
);
create index build_requests_newest on build_requests (project_id, id);
create index build_requests_by_commit on build_requests (commit_id);
create index build_requests_unfinished on build_requests (project_id)
  where build_state in ('enqueued', 'fetching', 'building');
create index build_requests_under_way on build_requests (project_id, concurrency_group, id)
  where build_state in ('waiting_for_approval', 'enqueued', 'fetching', 'building');
-- The page of a project shows these; they are few.
create index build_requests_without_commit on build_requests (project_id, id) where commit_id is null;
-- A pull request from a branch of the same name is none of the builds of the branch.
create index build_requests_of_branch on build_requests (project_id, branch, id) where pull_request is null;

-- What a request's commit changes, and against what. It can be large, and lists of requests do not need it.
create table request_changes (
  build_request_id bigint not null primary key references build_requests (id) on delete cascade,
  base text not null,
  compared_with text not null,
  files text
);

create table builds (
  id bigint not null primary key,
  project_id bigint not null references projects (id) on delete cascade,
  build_request_id bigint not null references build_requests (id) on delete cascade,
  commit_id bigint not null references commits (id) on delete cascade,
  suite_id bigint,
  suite_name text not null,
  build_state text not null,
  attempt integer not null,
  exit_status integer,
  failure_reason text not null,
  created_at bigint not null,
  started_at bigint,
  finished_at bigint,
  variant text not null default '',
  allow_failure integer not null default 0,
  retry integer not null default 0,
  retries_left integer not null default 0,
  series bigint not null default 0,
  tests_passed integer not null default 0,
  tests_failed integer not null default 0,
  tests_skipped integer not null default 0,
  uploads text not null default '',
  output_from bigint,
  output_to bigint,
  steps text not null default '',
  services text not null default '[]',
  needs text not null default '[]',
  files_from text not null default '',
  files_of bigint,
  approval integer not null default 0,
  approved_by text not null default '',
  concurrency_group text not null default '',
  held text not null default '',
  deploy_id bigint
);
create index builds_of_commit on builds (commit_id, id);
create index builds_of_project on builds (project_id, id);
create index builds_of_request on builds (build_request_id, id);
create index builds_in_group on builds (project_id, concurrency_group, id)
  where concurrency_group > '' and finished_at is null;
create index builds_of_deploy on builds (deploy_id, id) where deploy_id is not null;
create unique index builds_attempt on builds (commit_id, suite_name, variant, attempt);

create table deploys (
  id bigint not null primary key,
  project_id bigint not null references projects (id) on delete cascade,
  deploy_strategy_id bigint not null,
  commit_id bigint not null references commits (id) on delete cascade,
  state text not null,
  created_by bigint not null references users (id),
  started_at bigint,
  finished_at bigint,
  clone_url text not null default '',
  local_branch text not null default '',
  remote_branch text not null default '',
  suite_id bigint
);
create index deploys_newest on deploys (project_id, id);
create index deploys_of_commit on deploys (commit_id);
create index deploys_done on deploys (deploy_strategy_id, id) where state = 'deployed';

create table connection_checks (
  id bigint not null primary key,
  project_id bigint not null references projects (id) on delete cascade,
  created_at bigint not null,
  answer text
);
create index connection_checks_of_project on connection_checks (project_id, id);

-- What builds leave.

create table artifacts (
  id bigint not null primary key,
  build_id bigint not null references builds (id) on delete cascade,
  path text not null,
  size bigint not null,
  sha256 text not null,
  content_type text not null,
  created_at bigint not null,
  constraint artifacts_path unique (build_id, path)
);
create index artifacts_of_build on artifacts (build_id, id);
-- Whether a blob is still needed.
create index artifacts_of_blob on artifacts (sha256);

create table uploads (
  id bigint not null primary key references builds (id) on delete cascade,
  claim text not null unique,
  holder text not null,
  account_id bigint not null,
  stored_blob text,
  stored_bytes bigint,
  created_at bigint not null
);

create table caches (
  id bigint not null primary key,
  project_id bigint not null references projects (id) on delete cascade,
  suite_id bigint references suites (id) on delete cascade,
  suite_name text not null,
  variant text not null,
  branch text not null,
  paths text not null,
  build_id bigint not null,
  sha text not null,
  digest text not null,
  size bigint not null,
  created_at bigint not null,
  last_used_at bigint not null
);
create index caches_of_project on caches (project_id, suite_name);
create index caches_of_suite on caches (suite_id);
create index caches_by_build on caches (build_id);
create index caches_by_digest on caches (digest);

create table test_runs (
  build_id bigint not null primary key references builds (id) on delete cascade,
  project_id bigint not null,
  suite_name text not null,
  commit_id bigint not null,
  size integer not null,
  bytes bigint not null,
  passed integer not null,
  failed integer not null,
  skipped integer not null,
  slowest text not null,
  completed_at bigint
);
create index test_runs_of_project on test_runs (project_id, build_id);
create index test_runs_of_commit on test_runs (commit_id, suite_name, build_id);
-- Tests of which the last never came are removed when their build is over.
create index test_runs_unfinished on test_runs (build_id) where completed_at is null;

create table test_results (
  build_id bigint not null references test_runs (build_id) on delete cascade,
  start integer not null,
  state text not null,
  count integer not null,
  keys bytea not null,
  content bytea not null,
  constraint test_results_place primary key (build_id, start, state)
);

create table test_flakes (
  project_id bigint not null references projects (id) on delete cascade,
  suite_name text not null,
  commit_id bigint not null,
  variant text not null,
  test_key bigint not null,
  name text not null,
  class text not null,
  suite text not null,
  failures integer not null,
  passes integer not null,
  message text not null,
  failed_build_id bigint not null,
  began_at bigint not null,
  last_seen_at bigint not null,
  constraint test_flakes_place primary key (commit_id, suite_name, variant, test_key)
);
create index test_flakes_of_project on test_flakes (project_id, last_seen_at);

create table kept_builds (
  id bigint not null primary key references builds (id) on delete cascade,
  project_id bigint not null references projects (id) on delete cascade,
  location text not null,
  holder text not null,
  name text not null,
  key text not null,
  expires_at bigint not null,
  for_suites integer not null,
  free_since bigint,
  digest text,
  size bigint,
  packable integer not null
);
create index kept_builds_by_blob on kept_builds (digest);
create index kept_builds_of_location on kept_builds (location, name);
create index kept_builds_of_project on kept_builds (project_id);
create index kept_builds_by_end on kept_builds (expires_at);

create table shells (
  id bigint not null primary key,
  project_id bigint not null references projects (id) on delete cascade,
  build_id bigint not null references kept_builds (id) on delete cascade,
  account_id bigint not null references users (id) on delete cascade,
  via text not null,
  location text not null,
  state text not null,
  reason text not null,
  created_at bigint not null,
  expires_at bigint not null,
  client_seen_at bigint not null,
  runner_seen_at bigint not null
);
create index shells_of_location on shells (location, state);
create index shells_of_build on shells (build_id);
create index shells_of_project on shells (project_id);
create index shells_of_account on shells (account_id);

-- Logs, and where their lines begin.

create table logs (
  id bigint not null primary key,
  project_id bigint references projects (id) on delete cascade,
  size bigint not null,
  complete integer not null,
  blob text,
  completed_at bigint,
  line_breaks bigint not null,
  line_state text,
  began_at bigint,
  said_at bigint
);
create index logs_by_blob on logs (blob);

create table log_chunks (
  log_id bigint not null references logs (id) on delete cascade,
  start bigint not null,
  bytes bytea not null,
  constraint log_chunks_start primary key (log_id, start)
);

create table log_marks (
  log_id bigint not null references logs (id) on delete cascade,
  line_breaks bigint not null,
  start bigint not null,
  at bigint not null,
  line_state text not null,
  constraint log_marks_place primary key (log_id, line_breaks, start)
);

create table log_indexes (
  log_id bigint not null primary key references logs (id) on delete cascade,
  bytes bytea not null
);

-- What happened, and who is told.

create table events (
  id bigint not null primary key,
  project_id bigint not null references projects (id) on delete cascade,
  sequence bigint not null,
  subject_id bigint not null,
  type text not null,
  state text not null,
  created_at bigint not null,
  constraint events_sequence unique (project_id, sequence)
);
create index events_of_subject on events (subject_id, sequence);

create table notifications (
  id bigint not null primary key,
  project_id bigint not null references projects (id) on delete cascade,
  name text not null,
  notifiable_type text not null,
  url text not null,
  secret text not null,
  last_position bigint not null default 0,
  repository text not null default '',
  forge_id bigint references forges (id)
);
create index notifications_of_project on notifications (project_id, id);

create table webhook_deliveries (
  id bigint not null primary key,
  notification_id bigint not null references notifications (id) on delete cascade,
  event_type text not null,
  payload text not null,
  state text not null,
  created_at bigint not null,
  position bigint not null default 0,
  since bigint not null default 0
);
create index webhook_deliveries_newest on webhook_deliveries (notification_id, id);
create index webhook_deliveries_pending on webhook_deliveries (notification_id, position) where state = 'pending';

create table webhook_attempts (
  id bigint not null primary key,
  delivery_id bigint not null references webhook_deliveries (id) on delete cascade,
  status integer,
  duration_ms integer not null,
  answer text not null,
  created_at bigint not null,
  error text not null default ''
);
create index delivery_attempts_of_delivery on webhook_attempts (delivery_id, id);

-- The queue, and the runners.

create table jobs (
  id bigint not null primary key,
  kind text not null,
  subject_id bigint not null,
  account_id bigint not null,
  lane text,
  tries integer not null,
  run_after bigint not null,
  claim text,
  holder text,
  claimed_until bigint,
  cancelled integer not null,
  named_blobs text,
  stored_blob text,
  tags text not null default '',
  stored_bytes bigint,
  location text
);
-- SQLite would look for unclaimed jobs in an index of all claims, so it has only those that are claimed.
create index jobs_claimed on jobs (claimed_until) where claim is not null;
create index jobs_of_subject on jobs (subject_id);
create index jobs_of_lane on jobs (lane, id);
create index jobs_claimed_of_lane on jobs (lane) where claim is not null and lane is not null;
create unique index jobs_errand on jobs (subject_id) where kind = 'deliver';
create unique index jobs_by_claim on jobs (claim) where claim is not null;
create index jobs_due on jobs (kind, run_after, account_id) where claim is null;
create index jobs_of_holder on jobs (holder) where claim is not null;
-- How many jobs each account has under way.
create index jobs_under_way on jobs (account_id, kind) where claim is not null;
-- Which tags the waiting jobs of an account need; empty where no suite has tags.
create index jobs_tagged on jobs (account_id, tags) where claim is null and tags > '';
-- Jobs that one runner may have before they are due.
create index jobs_of_location on jobs (location, run_after) where claim is null and location is not null;
create index jobs_stored_blob on jobs (stored_blob) where stored_blob is not null;
-- What a claim looks for: jobs of its place that are due and need tags that the runner has.
create index jobs_waiting on jobs (tags, account_id, run_after, id)
  where claim is null and kind not in ('fetch_commit', 'check_connection', 'pack_files');
create index jobs_waiting_fetches on jobs (tags, account_id, run_after, id)
  where claim is null and kind in ('fetch_commit', 'check_connection', 'pack_files');

create table queue_turns (
  account_id bigint not null primary key,
  turn bigint not null
);
create index queue_turns_next on queue_turns (turn);

create table runners (
  id bigint not null primary key,
  name text not null unique,
  token_hash text not null unique,
  created_at bigint not null,
  revoked_at bigint,
  draining integer not null default 0
);

create table runner_accounts (
  id bigint not null primary key,
  runner_id bigint not null references runners (id) on delete cascade,
  account_id bigint not null references users (id),
  constraint runner_accounts_once unique (runner_id, account_id)
);
create index runner_accounts_of_account on runner_accounts (account_id);

create table runner_heartbeats (
  holder text not null primary key,
  runner_id bigint unique references runners (id) on delete cascade,
  seen_at bigint not null,
  version text not null,
  trouble text not null,
  tags text not null default '',
  slots integer not null default 0
);

-- The store itself.

create table doomed_blobs (
  digest text not null primary key,
  remove_after bigint not null default 0
);

create table id_nodes (
  node integer not null primary key,
  holder text not null,
  leased_until bigint not null,
  used_until bigint not null
);

create table master_key_canary (
  id bigint not null primary key,
  sealed text not null
);
