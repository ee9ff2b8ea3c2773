-- From 0.1.0 to 0.2.0.

alter table projects add column build_twice integer not null default 0;
alter table projects add column forge_repository_id text not null default '';
alter table projects add column forge_git_origin text not null default '';
alter table projects add column forge_held_until bigint not null default 0;

alter table suites add column approvers text not null default '[]';
alter table suites add column gates_of_file text not null default '';
alter table environment_variables add column refs text not null default '[]';
alter table deploy_strategies add column refs text not null default '[]';
alter table deploy_strategies add column approval integer not null default 0;
alter table deploy_strategies add column approvers text not null default '[]';

alter table commits add column parent text not null default '';
alter table build_requests add column fetched_as text not null default '';
alter table build_requests add column asked_by bigint;
alter table build_requests add column suite_names text not null default '[]';
alter table build_requests add column join_key text not null default '';
alter table build_requests add column joined_to_id bigint;
create index build_requests_alike on build_requests (project_id, join_key, id) where join_key > '';
create index build_requests_joined on build_requests (joined_to_id, id) where joined_to_id is not null;

alter table builds add column approvers text not null default '[]';
alter table builds add column manual integer not null default 0;
alter table builds add column asked_by bigint;
alter table builds add column limited text not null default '[]';
alter table builds add column withheld text not null default '[]';
create index builds_unfinished on builds (suite_id) where finished_at is null;
update builds set manual = 1 where suite_id in (select id from suites where manual = 1);

alter table deploys add column approvers text not null default '[]';
alter table deploys add column approved_by text not null default '';

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

alter table doomed_blobs add column account_id bigint;
alter table doomed_blobs add column claim text;
alter table doomed_blobs add column bytes bigint not null default 0;
create index doomed_blobs_of_account on doomed_blobs (account_id) where account_id is not null;
create index doomed_blobs_of_claim on doomed_blobs (claim) where claim is not null;

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
