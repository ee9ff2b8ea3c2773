import type { Static } from 'typebox';
import {
  boolean,
  dateTime,
  idTwin,
  integer,
  listOf,
  nullable,
  object,
  oneOf,
  optional,
  record,
  stateOf,
  string,
  strings,
  twin,
} from './schema.ts';
import { projectStates } from './states.ts';

export const projectRecord = record('Project', {
  ...idTwin,
  name: string,
  description: string,
  repository_url: string,
  build_state: stateOf(projectStates),
  owned: boolean,
  ssh_public_key: string,
  poll_interval: integer,
  fork_builds: string,
  cancel_superseded: string,
  public_badge: boolean,
  config_file: string,
});
export type Project = Static<typeof projectRecord>;

export const collaboratorRecord = record('Collaborator', { ...idTwin, email: string, created_at: dateTime });
export type Collaborator = Static<typeof collaboratorRecord>;

/** What a look at the repository found. */
export const connectionCheckRecord = record('ConnectionCheck', {
  connected: boolean,
  message: string,
  default_branch: nullable(string),
  branches: strings,
});
export type ConnectionCheck = Static<typeof connectionCheckRecord>;

export const pollingRecord = record('Polling', {
  poll_interval: integer,
  outcome: string,
  reason: string,
  failures: integer,
  last_looked_at: nullable(dateTime),
  next_look_at: nullable(dateTime),
});
export type Polling = Static<typeof pollingRecord>;

export const searchKinds = ['project', 'branch', 'suite', 'commit'] as const;

export const foundRecord = record('Found', {
  kind: oneOf(searchKinds),
  ...idTwin,
  ...twin('project_id'),
  project_name: string,
  name: string,
  ref: string,
  build_state: string,
});
export type Found = Static<typeof foundRecord>;

/** The settings of a project as one document. */
export const configRecord = record('Config', { document: string });

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
export const configuredProjectRecord = record('ConfiguredProject', { ...idTwin, ...changed, ssh_public_key: string });
