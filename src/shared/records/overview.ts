import * as Type from 'typebox';
import type { Static } from 'typebox';
import { buildRecord, fetchedBuildRecord, flakyTestRecord } from './build.ts';
import { commitRecord } from './commit.ts';
import { linkStates } from './forge.ts';
import {
  boolean,
  dateTime,
  id,
  ownId,
  integer,
  listOf,
  nullable,
  nullableIdWithString,
  object,
  record,
  stateOf,
  string,
  strings,
  idWithString,
} from './schema.ts';
import { buildRequestStates, buildStates, commitStates, projectStates } from './states.ts';

const projectState = stateOf(projectStates);
const requestState = stateOf(buildRequestStates);

const projectLine = object({
  ...ownId,
  name: string,
  description: string,
  build_state: projectState,
  owned: boolean,
  failed_since: nullable(dateTime),
  newest_request: nullable(
    object({
      ...ownId,
      ...nullableIdWithString('commit_id'),
      commit_ref: string,
      build_state: requestState,
      created_at: dateTime,
    }),
  ),
  newest_commit: nullable(object({ ...ownId, message: string, scm_author_name: string })),
  state_commit: nullable(
    object({
      ...ownId,
      ref: string,
      branch: string,
      message: string,
      scm_author_name: string,
      ...nullableIdWithString('build_request_id'),
      requested_at: nullable(dateTime),
    }),
    { description: 'The commit that `build_state` belongs to, and its newest build request' },
  ),
  started_at: nullable(dateTime),
  finished_at: nullable(dateTime),
  default_branch: string,
  last_builds: listOf(object({ ...ownId, build_state: requestState, duration_ms: nullable(integer) }), {
    description: 'The last 20 build requests of the default branch, the oldest first',
  }),
  approvals: Type.Integer({ description: 'How many builds, build requests and deploys wait for approval' }),
  ...nullableIdWithString('approval_request_id'),
  ...nullableIdWithString('approval_deploy_id'),
  no_runner: Type.String({ description: 'Why no runner takes what waits; blank where one may' }),
  ...nullableIdWithString('no_runner_request_id'),
  ...nullableIdWithString('forge_id'),
  forge_state: stateOf(linkStates),
  forge_state_reason: string,
});
export type ProjectLine = Static<typeof projectLine>;

const ownRequest = object({
  ...ownId,
  ...idWithString('project_id'),
  project_name: string,
  commit_ref: string,
  message: string,
  build_state: requestState,
  created_at: dateTime,
  duration_ms: nullable(integer),
});
export type OwnRequest = Static<typeof ownRequest>;

const slowStep = object({
  ...ownId,
  ...idWithString('project_id'),
  project_name: string,
  ...idWithString('suite_id'),
  suite_name: string,
  variant: string,
  branch: string,
  step: string,
  median_ms: integer,
  ...idWithString('commit_id'),
  commit_ref: string,
  message: string,
});
export type SlowStep = Static<typeof slowStep>;

const reuseStop = object({
  ...idWithString('project_id'),
  project_name: string,
  ...nullableIdWithString('suite_id'),
  suite_name: string,
  ...idWithString('build_id'),
});
export type ReuseStopped = Static<typeof reuseStop>;

export const dashboardRecord = record('Dashboard', {
  requested: listOf(ownRequest, {
    description: 'The last build requests of the caller: unfinished, or of the last day',
  }),
  slow_steps: listOf(slowStep, {
    description: 'Steps that became slow; `commit_id` is the first slow one, `median_ms` is from the builds before it',
  }),
  reuse_stopped: listOf(reuseStop, {
    description: 'Suites that are not reused any more, because a build of reused inputs failed when it ran: `build_id`',
  }),
  projects: listOf(projectLine),
  found: integer,
  all: integer,
  waiting_reason: string,
  invited: strings,
  ending_tokens: listOf(object({ ...ownId, name: string, expires_at: dateTime })),
  offers: listOf(object({ ...idWithString('project_id'), name: string, email: string })),
});
export type Dashboard = Static<typeof dashboardRecord>;

const requestLine = object({
  ...ownId,
  commit_ref: string,
  build_state: requestState,
  created_at: dateTime,
  pull_request: nullable(id),
});
export type RequestLine = Static<typeof requestLine>;

export const overviewRecord = record('Overview', {
  default_branch: string,
  build_state: projectState,
  passed_since: nullable(dateTime),
  failed_since: nullable(dateTime),
  last_requests: listOf(object({ ...ownId, build_state: requestState, duration_ms: nullable(integer) })),
  under_way: listOf(requestLine),
  without_commit: listOf(requestLine),
  flaky_tests: integer,
  last_check: nullable(
    object({
      connected: boolean,
      message: string,
      default_branch: nullable(string),
      files: strings,
      workflows: strings,
    }),
  ),
  ...nullableIdWithString('forge_hook_id'),
  ...nullableIdWithString('forge_status_target_id'),
});
export type Overview = Static<typeof overviewRecord>;

/** A SHA, a branch or a number is appended. Blank if the forge is unknown. */
export const forgeLinksRecord = record('ForgeLinks', {
  host: string,
  commit_url: string,
  branch_url: string,
  pull_request_url: string,
});
export type ForgeLinks = Static<typeof forgeLinksRecord>;

export const builtCommitRecord = record('BuiltCommit', {
  ...ownId,
  ref: string,
  build_state: stateOf(commitStates),
  message: string,
  scm_author_name: string,
  branch: string,
  newest_request: nullable(object({ ...ownId, created_at: dateTime, pull_request: nullable(id), from_fork: boolean })),
  builds: listOf(buildRecord),
});
export type BuiltCommit = Static<typeof builtCommitRecord>;

export const commitDetailsRecord = record('CommitDetails', {
  ...commitRecord.properties,
  branches: strings,
  tags: strings,
  files: strings,
  build_requests: listOf(object(ownId), { description: 'The newest that brought it, at most ten' }),
  merge_of: Type.String({
    description: 'The SHA of the head that it is the merge of; blank for a commit of the repository',
  }),
});
export type CommitDetails = Static<typeof commitDetailsRecord>;

export const buildDetailsRecord = record('BuildDetails', {
  ...fetchedBuildRecord.properties,
  suite_exists: boolean,
  ...idWithString('build_request_id'),
  files_of: listOf(object({ ...ownId, suite_name: string, variant: string }), {
    description: 'The build whose files it started with; empty if it started with the checkout',
  }),
  /** The result as sent to forges. Blank before the end. */
  sentence: string,
  needs: listOf(
    object({
      ...ownId,
      suite_name: string,
      variant: string,
      build_state: stateOf(buildStates),
      allow_failure: boolean,
    }),
    { description: 'The newest builds of the suites that it needs' },
  ),
  attempts: listOf(buildRecord),
  step_parts: listOf(object({ command: string, began: nullable(integer), took: nullable(integer) }), {
    description:
      'For each step: the first line of its command (blank without the scope `suites`), when it began, in milliseconds since the log began, and how long it took',
  }),
  suites: listOf(
    object({
      ...ownId,
      suite_name: string,
      variant: string,
      build_state: stateOf(buildStates),
      allow_failure: boolean,
    }),
    { description: 'The newest build of each suite and variant of its build request' },
  ),
  artifacts: integer,
  artifact_bytes: integer,
  has_summary: boolean,
  proved_by: nullable(
    object({ ...idWithString('commit_id'), commit_ref: string, branch: string, finished_at: nullable(dateTime) }),
    { description: 'Where and when the build of `reused_from_id` passed; null where a build ran' },
  ),
});
export type BuildDetails = Static<typeof buildDetailsRecord>;

export const saidBuildRecord = record('SaidBuild', {
  ...buildRecord.properties,
  needs: strings,
  last_line: string,
  failure: nullable(object({ test: string, class: string, line: string }), {
    description:
      'Of a failed build: its first failed test with the first line of its message, or else the line that says why',
  }),
});
export type SaidBuild = Static<typeof saidBuildRecord>;

export const requestDetailsRecord = record('BuildRequestDetails', {
  asked_at: dateTime,
  fetch_started_at: nullable(dateTime),
  fetch_finished_at: nullable(dateTime),
  started_at: nullable(dateTime),
  finished_at: nullable(dateTime),
  duration_ms: integer,
  waited_ms: Type.Integer({ description: 'How long nothing of it ran' }),
  merge: nullable(object({ head: string, base: string, behind: boolean }), {
    description:
      'The SHAs of the head and of the commit of the target branch that it was merged into, and whether the target has moved on since',
  }),
});
export type RequestDetails = Static<typeof requestDetailsRecord>;

export const flakyTestDetailsRecord = record('FlakyTestDetails', {
  ...flakyTestRecord.properties,
  commits: integer,
  ...idWithString('failed_build_id'),
  ...idWithString('began_commit_id'),
  began_ref: string,
  began_at: dateTime,
});
export type FlakyTestDetails = Static<typeof flakyTestDetailsRecord>;

export const changesRecord = record('Changes', {
  projects: strings,
  logs: strings,
  builds: strings,
  dependencies: strings,
});
