import type { Static } from 'typebox';
import { operators, subjects } from '../lib/rule-words.ts';
import { answersOf, described, flag, oneOf, required, takingBlank, text, wholeNumber, withDefault } from './fields.ts';
import { cachePaths, command, description, globs, image, matrix, name, tags, variableName, variants } from './forms.ts';
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

const month = 30 * 24 * 3600;

/** Which variants there are, and which of them may fail. */
export const matrixFields = {
  matrix,
  matrix_include: variants('NAME=a OTHER=x: combinations that are built besides'),
  matrix_exclude: variants('NAME=a OTHER=x: combinations that have all of these are left out'),
  matrix_allow_failure: variants('NAME=a OTHER=x: the failure of variants that have all of these does not count'),
};

export const suiteFields = {
  name: required(name),
  description,
  command: required(command),
  tags,
  image,
  reports: globs('files in the workspace that are reports of tests, as JUnit XML'),
  timeout: described(
    wholeNumber({ min: 0, max: month, fallback: 0 }),
    'Seconds; 0 for as long as the server allows, which may be less than this maximum',
  ),
  allow_failure: flag(),
  retries: wholeNumber({ min: 0, max: 3, fallback: 0 }),
  ...matrixFields,
  cache: cachePaths,
  cache_save: described(oneOf(['passed', 'always']), 'which builds save the cache: `always` for failed ones as well'),
  artifacts: globs('files in the workspace that are kept after a build, whatever its result'),
};
export const suiteRecord = record('Suite', { ...idTwin, ...answersOf(suiteFields) });
export type Suite = Static<typeof suiteRecord>;

export const ruleFields = {
  subject: required(oneOf(subjects)),
  operator: required(oneOf(operators)),
  value: required(text('ruleValue', { lines: 'many' })),
};
export const ruleRecord = record('Rule', { ...idTwin, ...answersOf(ruleFields) });
export type Rule = Static<typeof ruleRecord>;

export const variableFields = {
  name: required(variableName),
  content: takingBlank(text('variableContent', { lines: 'many' })),
  secret: withDefault(flag(), true),
};
const variable = { ...idTwin, ...answersOf(variableFields) };
export const variableRecord = record('EnvironmentVariable', variable);
export type EnvironmentVariable = Static<typeof variableRecord>;
export const writtenVariableRecord = record('WrittenEnvironmentVariable', { ...variable, warning: optional(string) });
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
