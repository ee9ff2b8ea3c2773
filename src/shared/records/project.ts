import type { Static } from 'typebox';
import { highestPriority, most } from '../domain/bounds.ts';
import { answersOf, described, flag, oneOf, refined, required, text, wholeNumber, withDefault } from './fields.ts';
import { cloneUrl, configFile, description, name, repositoryUrl } from './forms.ts';
import { parameters } from './parameter.ts';
import {
  boolean,
  dateTime,
  ownId,
  integer,
  listOf,
  nullable,
  nullableIdWithString,
  object,
  optional,
  record,
  stateOf,
  string,
  strings,
  idWithString,
  wordOf,
  type JsonSchema,
} from './schema.ts';
import { linkStates } from './forge.ts';
import { projectStates } from './states.ts';

/** A host would take shorter intervals for an attack. */
export const shortestPoll = 15;
export const longestPoll = 86_400;

/** In seconds. 0 for never. */
const pollInterval = refined(wholeNumber({ min: 0, max: longestPoll, fallback: 0 }), (seconds) =>
  seconds > 0 && seconds < shortestPoll ? undefined : seconds,
);
const inRanges: JsonSchema = {
  type: 'integer',
  default: 0,
  anyOf: [
    { minimum: 0, maximum: 0 },
    { minimum: shortestPoll, maximum: longestPoll },
  ],
};

const about = { name: required(name), description, repository_url: repositoryUrl, clone_url: cloneUrl };
const policies = {
  poll_interval: { ...pollInterval, schema: inRanges },
  /** See lifecycle/forks.ts. */
  fork_builds: oneOf(['without_secrets', 'approval', 'never']),
  cancel_superseded: oneOf(['none', 'waiting', 'running']),
  public_badge: flag(),
  public: described(flag(), 'whether anybody may read its commits, builds, logs, tests and artifacts'),
  config_file: configFile,
  branch_secrets: described(
    flag(),
    'whether a suite that only the file of a branch has gets the variables of the project, and may have any tags',
  ),
  report_left_out: described(
    withDefault(flag(), true),
    'whether a suite skipped by its rules is reported to status targets as a success',
  ),
  build_twice: described(flag(), 'whether a commit of both a push and a pull request is built for each'),
  pull_request_notes: described(
    oneOf(['off', 'on']),
    'whether pull requests at the connected forge show what builds report at lines of files',
  ),
  comment_commands: described(
    flag(),
    'whether comments on pull requests may give commands; needs a connected forge, whose hook gets the event `comment`',
  ),
  pull_request_builds: described(
    oneOf(['head', 'merge']),
    'whether a pull request is built as its head, or merged into its target branch',
  ),
  parameters,
  most_priority: described(
    wholeNumber({ min: 0, max: highestPriority, fallback: 0 }),
    'the highest `priority` that a build request may ask for',
  ),
  includable: described(
    withDefault(flag(), true),
    "whether files of the account's other projects may include files of its repository",
  ),
};
export const projectFields = { ...about, ...policies };
export const projectRecord = record('Project', {
  ...ownId,
  ...answersOf(about),
  build_state: stateOf(projectStates),
  owned: boolean,
  ...nullableIdWithString('organisation_id'),
  ssh_public_key: string,
  ...answersOf(policies),
  ...nullableIdWithString('forge_id'),
  forge_repository: string,
  forge_state: stateOf(linkStates),
  forge_state_reason: string,
});
export type Project = Static<typeof projectRecord>;

export const collaboratorRecord = record('Collaborator', { ...ownId, email: string, created_at: dateTime });
export type Collaborator = Static<typeof collaboratorRecord>;

export const connectionCheckRecord = record('ConnectionCheck', {
  connected: boolean,
  message: string,
  default_branch: nullable(string),
  branches: strings,
});

export const pollingRecord = record('Polling', {
  poll_interval: integer,
  outcome: string,
  reason: string,
  failures: integer,
  last_polled_at: nullable(dateTime),
  next_poll_at: nullable(dateTime),
});
export type Polling = Static<typeof pollingRecord>;

export const searchKinds = ['project', 'branch', 'suite', 'commit', 'test'] as const;

export const searchHitRecord = record('Found', {
  kind: wordOf(searchKinds),
  ...ownId,
  ...idWithString('project_id'),
  project_name: string,
  name: string,
  ref: string,
  build_state: string,
});
export type SearchHit = Static<typeof searchHitRecord>;

export const publicProjectRecord = record('PublicProject', {
  ...ownId,
  name: string,
  description: string,
  /** Its name, or blank. */
  organisation: string,
  build_state: string,
});
export type PublicProject = Static<typeof publicProjectRecord>;

export const configRecord = record('Config', { document: string });

/** A file of Headrace. */
export const importFields = { toml: required(text('document', { lines: 'many' })), dry_run: flag() };

export const importRecord = record('Import', {
  toml: string,
  suites: strings,
  carried: integer,
  total: integer,
  left_out: listOf(object({ file: string, line: nullable(integer), what: string, why: string }), {
    description: `The first ${most.leftOut}`,
  }),
  to_set: strings,
  mistakes: listOf(string, { description: 'Why the file would be refused, with its lines' }),
});
export type ImportRecord = Static<typeof importRecord>;

const changed = {
  applied: boolean,
  changes: listOf(
    object({
      action: string,
      what: string,
      fields: listOf(object({ name: string, from: string, to: string })),
      secret: optional(string),
      url: optional(string),
    }),
  ),
};
export const configChangeRecord = record('ConfigChange', changed);
export type ConfigChange = Static<typeof configChangeRecord>;
export const configuredProjectRecord = record('ConfiguredProject', { ...ownId, ...changed, ssh_public_key: string });
