-- From 0.1.0 to 0.2.0.

alter table projects add column build_twice integer not null default 0;
alter table projects add column pull_request_builds text not null default 'head';
alter table build_requests add column head_sha text not null default '';
alter table build_requests add column merge_base text not null default '';
create index build_requests_merged on build_requests (project_id, head_sha, id) where head_sha > '';
alter table commits add column merge_of text not null default '';
create table target_heads (
  id bigint not null primary key,
  project_id bigint not null references projects (id) on delete cascade,
  branch text not null,
  sha text not null,
  constraint target_heads_branch unique (project_id, branch)
);
alter table projects add column parameters text not null default '[]';
alter table schedules add column variables text not null default '{}';
alter table projects add column includable integer not null default 1;
alter table projects add column pull_request_notes text not null default 'off';
alter table projects add column comment_commands integer not null default 0;
alter table projects add column forge_repository_id text not null default '';
alter table projects add column forge_git_origin text not null default '';
alter table projects add column forge_held_until bigint not null default 0;
alter table projects add column public integer not null default 0;
alter table projects add column offered_to_id bigint references users (id);
alter table projects add column offered_by_id bigint;
create index projects_offered on projects (offered_to_id) where offered_to_id is not null;
create index projects_public on projects (id) where public = 1;

-- An organisation is an owner like a person: a row of `users` of its own kind, which cannot sign in. The column
-- `email` has its name.

alter table users add column by_invitation integer not null default 0;

alter table audit_entries add column account_id bigint;
create index audit_entries_of_account on audit_entries (account_id, id) where account_id is not null;

create table organisations (
  id bigint not null primary key references users (id),
  description text not null
);

create table organisation_members (
  id bigint not null primary key,
  organisation_id bigint not null references organisations (id) on delete cascade,
  user_id bigint not null references users (id),
  role text not null,
  since bigint not null,
  invited_by bigint,
  invitation_hash text unique,
  expires_at bigint,
  constraint organisation_members_user unique (organisation_id, user_id)
);
create index organisation_members_by_user on organisation_members (user_id);
create index organisation_members_invited on organisation_members (invited_by) where invitation_hash is not null;

alter table suites add column priority integer not null default 0;
alter table projects add column most_priority integer not null default 0;
alter table build_requests add column priority integer not null default 0;
alter table builds add column priority integer not null default 0;
alter table jobs add column priority integer not null default 0;
-- Which of an account's jobs is next, once it is the account's turn.
create index jobs_by_priority on jobs (tags, account_id, priority desc, run_after, id)
  where claim is null and kind not in ('fetch_commit', 'check_connection', 'pack_files', 'check_inputs');
create index jobs_by_priority_fetches on jobs (tags, account_id, priority desc, run_after, id)
  where claim is null and kind in ('fetch_commit', 'check_connection', 'pack_files', 'check_inputs');
drop index jobs_waiting;
create index jobs_waiting on jobs (tags, account_id, run_after, id)
  where claim is null and kind not in ('fetch_commit', 'check_connection', 'pack_files', 'check_inputs');
drop index jobs_waiting_fetches;
create index jobs_waiting_fetches on jobs (tags, account_id, run_after, id)
  where claim is null and kind in ('fetch_commit', 'check_connection', 'pack_files', 'check_inputs');

alter table suites add column approvers text not null default '[]';
alter table suites add column gates_of_file text not null default '';
alter table suites add column retry_on text not null default '["errored"]';

-- A variable belongs to a suite, a project or an organisation. SQLite cannot change a check.
create table variables_before as select * from environment_variables;
drop table environment_variables;
create table environment_variables (
  id bigint not null primary key,
  project_id bigint references projects (id) on delete cascade,
  suite_id bigint references suites (id) on delete cascade,
  organisation_id bigint references organisations (id) on delete cascade,
  name text not null,
  content text not null,
  secret integer not null default 1,
  from_env text not null default '',
  refs text not null default '[]',
  constraint environment_variables_of_project unique (project_id, name),
  constraint environment_variables_of_suite unique (suite_id, name),
  constraint environment_variables_of_organisation unique (organisation_id, name),
  check (
    case when project_id is null then 0 else 1 end + case when suite_id is null then 0 else 1 end
    + case when organisation_id is null then 0 else 1 end = 1
  )
);
insert into environment_variables (id, project_id, suite_id, name, content, secret, from_env)
  select id, project_id, suite_id, name, content, secret, from_env from variables_before;
drop table variables_before;

alter table deploy_strategies add column refs text not null default '[]';
alter table deploy_strategies add column approval integer not null default 0;
alter table deploy_strategies add column approvers text not null default '[]';

alter table webhook_deliveries add column subject_id bigint;

create table pull_request_notes (
  notification_id bigint not null references notifications (id) on delete cascade,
  pull_request bigint not null,
  remote_id text not null,
  sha text not null,
  text_hash text not null,
  primary key (notification_id, pull_request)
);

alter table commits add column parent text not null default '';
alter table commits add column tree text not null default '';
alter table build_requests add column fetched_as text not null default '';
alter table build_requests add column asked_by bigint;
alter table build_requests add column suite_names text not null default '[]';
alter table build_requests add column join_key text not null default '';
alter table build_requests add column joined_to_id bigint;
alter table build_requests add column approved integer not null default 0;
alter table build_requests add column includes text not null default '[]';
create index build_requests_alike on build_requests (project_id, join_key, id) where join_key > '';
create index build_requests_of_pull on build_requests (project_id, pull_request, id) where pull_request is not null;
create index build_requests_joined on build_requests (joined_to_id, id) where joined_to_id is not null;
alter table build_requests add column started_at bigint;
alter table build_requests add column finished_at bigint;
update build_requests set
  started_at = (select min(builds.started_at) from builds where builds.build_request_id = build_requests.id),
  finished_at = (select max(builds.finished_at) from builds where builds.build_request_id = build_requests.id)
where build_state not in ('waiting_for_approval', 'enqueued', 'fetching', 'building');
create index build_requests_asked on build_requests (asked_by, id) where asked_by is not null;
create index build_requests_unapproved on build_requests (project_id, id) where build_state = 'waiting_for_approval';

alter table builds add column approvers text not null default '[]';
alter table builds add column manual integer not null default 0;
alter table builds add column asked_by bigint;
alter table builds add column limited text not null default '[]';
alter table builds add column withheld text not null default '[]';
create index builds_unfinished on builds (suite_id) where finished_at is null;
create index builds_unapproved on builds (project_id, build_request_id) where build_state = 'waiting_for_approval';
update builds set manual = 1 where suite_id in (select id from suites where manual = 1);

alter table builds add column step_commands text not null default '[]';
alter table builds add column faults integer not null default 0;
alter table builds add column by_machine integer not null default 0;
alter table builds add column usage text not null default '';
create index builds_of_suite on builds (suite_id, id);
alter table builds add column counts integer not null default 1;
update builds set counts = 0 where deploy_id is not null;
alter table builds add column may_reuse integer not null default 0;
alter table builds add column reused_from_id bigint;
alter table builds add column checks_id bigint;
create index builds_reused on builds (reused_from_id, id) where reused_from_id is not null;
create index builds_checking on builds (project_id, suite_name) where checks_id is not null and finished_at is null;
alter table build_requests add column reuse integer not null default 1;
alter table schedules add column reuse integer not null default 0;

create table slow_steps (
  id bigint not null primary key,
  project_id bigint not null references projects (id) on delete cascade,
  suite_id bigint not null,
  variant text not null,
  branch text not null,
  step text not null,
  commit_id bigint not null,
  median_ms integer not null,
  is_quiet integer not null
);
create unique index slow_steps_once on slow_steps (suite_id, variant, branch, step);
create index slow_steps_of_project on slow_steps (project_id);

alter table builds add column from_step text not null default '';
alter table builds add column from_build bigint;
alter table suites add column resume integer not null default 0;
alter table builds add column resume integer not null default 0;
create table step_points (
  id bigint not null primary key references builds (id) on delete cascade,
  project_id bigint not null references projects (id) on delete cascade,
  tree bigint not null,
  digest text not null,
  size bigint not null,
  step text not null,
  facts text not null
);
create index step_points_by_blob on step_points (digest);
create index step_points_by_tree on step_points (tree);
create index step_points_of_project on step_points (project_id);
alter table jobs add column tried_by text;
create index jobs_tried on jobs (run_after) where claim is null and tried_by is not null;
alter table log_indexes add column outline text not null default '';
alter table log_indexes add column filter bytea;
alter table log_indexes add column annotations text not null default '';
alter table log_indexes add column line_hashes bytea;
alter table suites add column annotations text not null default '';

alter table deploys add column approvers text not null default '[]';
alter table deploys add column approved_by text not null default '';
create index deploys_unapproved on deploys (project_id, id) where state = 'waiting_for_approval';
create index deploys_of_strategy on deploys (deploy_strategy_id, id);

create table service_data (
  id bigint not null primary key,
  project_id bigint not null references projects (id) on delete cascade,
  suite_id bigint references suites (id) on delete cascade,
  branch text not null,
  service text not null,
  tree bigint not null,
  made_of text not null,
  has_secrets integer not null,
  build_id bigint not null,
  size bigint not null,
  created_at bigint not null,
  last_used_at bigint not null
);
create index service_data_of_project on service_data (project_id, service);
create index service_data_of_suite on service_data (suite_id);
create index service_data_by_tree on service_data (tree);

alter table notifications add column "on" text not null default '';
alter table notifications add column branches text not null default '[]';
create table notification_outcomes (
  id bigint not null primary key,
  notification_id bigint not null references notifications (id) on delete cascade,
  subject text not null,
  outcome text not null,
  request_id bigint not null
);
create unique index notification_outcomes_of_subject on notification_outcomes (notification_id, subject);
alter table users add column news integer not null default 1;

alter table doomed_blobs add column account_id bigint;
alter table doomed_blobs add column claim text;
alter table doomed_blobs add column bytes bigint not null default 0;
create index doomed_blobs_of_account on doomed_blobs (account_id) where account_id is not null;
create index doomed_blobs_of_claim on doomed_blobs (claim) where claim is not null;

-- Whether the shell has the variables that are limited to refs, for those who manage the project.
alter table shells add column sees_limited integer not null default 0;

alter table users add column password_by_link integer not null default 0;
alter table users add column asks_passkey integer not null default 0;
alter table users add column shut_out text not null default '';
alter table sessions add column proven_at bigint not null default 0;
alter table sessions add column by_issuer integer not null default 0;

create table identities (
  id bigint not null primary key,
  user_id bigint not null unique references users (id),
  issuer text not null,
  subject text not null,
  refresh_token text,
  operator integer not null,
  look_at bigint,
  silent_since bigint,
  unique (issuer, subject)
);
create index identities_due on identities (look_at) where look_at is not null;

create table sign_in_flows (
  id bigint not null primary key,
  token_hash text not null unique,
  data text not null,
  expires_at bigint not null
);
create index sign_in_flows_expiring on sign_in_flows (expires_at);

alter table suites add column id_tokens text not null default '[]';

alter table suites add column files_from_name text not null default '';
alter table suites add column files_from text not null default '[]';
alter table builds add column lent_from text not null default '';
alter table builds add column lent_by text not null default '[]';

alter table connection_checks add column workflows text not null default '[]';

alter table suites add column api_token text not null default 'none';
alter table suites add column reuse text not null default 'off';
alter table suites add column inputs text not null default '[]';
alter table suites add column ignore_variables text not null default '[]';
alter table suites add column reuse_days integer not null default 30;
alter table suites add column uses_request integer not null default 0;

create table build_tokens (
  id bigint not null primary key references builds (id) on delete cascade,
  token_hash text not null unique,
  starts_builds integer not null
);

create table build_summaries (
  build_id bigint not null primary key references builds (id) on delete cascade,
  markdown text not null
);

create table signing_keys (
  id bigint not null primary key,
  public_key text not null,
  private_key text not null,
  signs_from bigint not null
);

create table passkeys (
  id bigint not null primary key,
  user_id bigint not null references users (id),
  name text not null,
  credential_id text not null unique,
  public_key text not null,
  counter bigint not null,
  transports text not null,
  created_at bigint not null,
  last_used_at bigint
);
create index passkeys_of_user on passkeys (user_id);

create table recovery_codes (
  id bigint not null primary key,
  user_id bigint not null references users (id),
  code_hash text not null,
  unique (user_id, code_hash)
);

create table user_tokens (
  id bigint not null primary key,
  owner_id bigint not null references users (id),
  name text not null,
  token_hash text not null unique,
  scopes text not null,
  project_ids text not null,
  expires_at bigint not null,
  last_used_at bigint,
  last_used_from text,
  created_at bigint not null,
  tell_at bigint
);
create index user_tokens_of_owner on user_tokens (owner_id);
create index user_tokens_expiring on user_tokens (expires_at);
create index user_tokens_to_tell on user_tokens (tell_at) where tell_at is not null;

-- An application that is not registered is known by the address of its document.
alter table oauth_clients add column document_url text;
create unique index oauth_clients_by_document on oauth_clients (document_url);
alter table oauth_codes add column for_mcp integer not null default 0;
alter table access_tokens add column for_mcp integer not null default 0;

create table build_inputs (
  id bigint not null primary key references builds (id) on delete cascade,
  ordered text not null,
  reported text not null default '[]',
  ordered_key text not null default '',
  reported_key text not null default '',
  vouches_for text not null default ''
);
create index build_inputs_vouching on build_inputs (ordered_key, reported_key, id) where vouches_for > '';

create table reuse_stops (
  id bigint not null primary key,
  project_id bigint not null references projects (id) on delete cascade,
  suite_name text not null,
  constraint reuse_stops_suite unique (project_id, suite_name)
);
