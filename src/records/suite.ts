import type { Static } from 'typebox';
import {
  boolean,
  dateTime,
  id,
  idTwin,
  integer,
  listOf,
  object,
  optional,
  record,
  string,
  strings,
  twin,
} from './schema.ts';

export const suiteRecord = record('Suite', {
  ...idTwin,
  name: string,
  description: string,
  command: string,
  tags: strings,
  image: string,
  reports: strings,
  timeout: integer,
  allow_failure: boolean,
  retries: integer,
  matrix: strings,
  cache: strings,
  artifacts: strings,
});
export type Suite = Static<typeof suiteRecord>;

export const ruleRecord = record('Rule', { ...idTwin, subject: string, operator: string, value: string });
export type Rule = Static<typeof ruleRecord>;

const variableFields = { ...idTwin, name: string, content: string, secret: boolean };
export const variableRecord = record('EnvironmentVariable', variableFields);
export type EnvironmentVariable = Static<typeof variableRecord>;
export const writtenVariableRecord = record('WrittenEnvironmentVariable', {
  ...variableFields,
  warning: optional(string),
});
export type WrittenVariable = Static<typeof writtenVariableRecord>;

/** A dependency that is attached to a suite. */
export const suiteDependencyRecord = record('SuiteDependency', {
  id,
  id_ref: string,
  name: string,
  prefix: string,
  launch_command: string,
  update_available: boolean,
});
export type SuiteDependency = Static<typeof suiteDependencyRecord>;

/** The compiled software that builds of a suite stand on. */
export const softwareRecord = record('Software', {
  layers: listOf(object({ ...twin('dependency_id'), name: string, prefix: string, digest: string })),
  prefixes: strings,
  launches: listOf(object({ name: string, command: string })),
  missing: strings,
});
export type Software = Static<typeof softwareRecord>;

export const cacheRecord = record('Cache', {
  ...idTwin,
  ...twin('suite_id'),
  branch: string,
  size: integer,
  created_at: dateTime,
  last_used_at: dateTime,
});
export type Cache = Static<typeof cacheRecord>;
