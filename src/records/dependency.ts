import type { Static } from 'typebox';
import {
  boolean,
  dateTime,
  id,
  idTwin,
  integer,
  listOf,
  nullable,
  object,
  record,
  stateOf,
  string,
  twin,
} from './schema.ts';
import { dependencyStates } from './states.ts';
import { reasonInVain } from './waiting.ts';

/** Every view of a dependency begins with these. The views have different fields, but always in the same order. */
const described = {
  name: string,
  description: string,
  command: string,
  prefix: string,
  source: string,
  image: string,
};
const state = stateOf(dependencyStates);

/** The answer to a create call names one field differently, and says `private` for the state. */
export const createdDependencyRecord = record('CreatedDependency', {
  id,
  id_ref: string,
  ...described,
  launch_command: string,
  marketplace_state: stateOf(['private']),
});
export type CreatedDependency = Static<typeof createdDependencyRecord>;

export const uploadedDependencyRecord = record('UploadedDependency', {
  ...idTwin,
  ...described,
  archive_file_size: nullable(id),
  launch_command: string,
  marketplace_state: state,
});
export type UploadedDependency = Static<typeof uploadedDependencyRecord>;

const fields = {
  ...idTwin,
  ...described,
  archive_content_type: nullable(string),
  archive_file_size: nullable(id),
  launch_command: string,
  related_dependencies: listOf(object({ ...idTwin, name: string })),
  marketplace_state: state,
};
export const dependencyRecord = record('Dependency', fields);
export type Dependency = Static<typeof dependencyRecord>;

/** With why no runner can compile it. */
export const ownDependencyRecord = record('OwnDependency', { ...fields, waiting_reason: reasonInVain });
export type OwnDependency = Static<typeof ownDependencyRecord>;

const named = { ...idTwin, name: string };
export const dependencyUsesRecord = record('DependencyUses', {
  suites: listOf(object({ ...named, ...twin('project_id'), project_name: string })),
  dependencies: listOf(object(named)),
  elsewhere: integer,
});
export type DependencyUses = Static<typeof dependencyUsesRecord>;

export const uploadRecord = record('Upload', {
  ...idTwin,
  offset: integer,
  size: integer,
  complete: boolean,
  expires_at: dateTime,
});
export type Upload = Static<typeof uploadRecord>;

/** Credentials for a registry of images. */
export const registryRecord = record('Registry', { ...idTwin, host: string, username: string });
export type Registry = Static<typeof registryRecord>;
