import type { Static } from 'typebox';
import { most } from '../domain/bounds.ts';
import { variantsOf } from '../domain/matrix.ts';
import { operators, subjects } from '../domain/rule-operators.ts';
import type { FieldErrors } from '../errors.ts';
import {
  answersOf,
  described,
  flag,
  flagOrNone,
  identifierOrNone,
  identifiersOrNames,
  oneOf,
  required,
  storedIdentifiers,
  takingBlank,
  text,
  wholeNumber,
  withDefault,
  type ValuesOf,
} from './fields.ts';
import {
  cachePaths,
  command,
  description,
  globs,
  imageOfSuite,
  approvers,
  matrix,
  name,
  priority,
  refs,
  retryOn,
  tags,
  variableContent,
  variableName,
  variableNames,
  variants,
} from './forms.ts';
import { recordList, type RecordCheck } from './record-lists.ts';
import { serviceAnswer, services } from './service.ts';
import {
  boolean,
  dateTime,
  id,
  ownId,
  integer,
  listOf,
  nullableIdWithString,
  object,
  optional,
  record,
  string,
  strings,
  idWithString,
} from './schema.ts';

export const stepFields = {
  name: required(name),
  command: required(command),
  when: described(
    oneOf(['passed', 'failed', 'always']),
    'whether it runs when no step before it has failed, when one has, or in both cases',
  ),
};

export const idTokenFields = {
  variable: required(described(variableName, 'the variable that contains the token')),
  audience: required(
    text('audience', { pattern: /^[\x21-\x7e]+$/, description: '`aud` of the token: the service that it is for' }),
  ),
};

const checkIdToken: RecordCheck<typeof idTokenFields> = ({ variable }, before) =>
  before.some((other) => other.variable === variable) ? { variable: ['already_exists'] } : {};

const month = 30 * 24 * 3600;

export const matrixFields = {
  matrix,
  matrix_include: variants('NAME=a OTHER=x: additional combinations to build'),
  matrix_exclude: variants('NAME=a OTHER=x: combinations with all of these are excluded'),
  matrix_allow_failure: variants('NAME=a OTHER=x: failures of variants with all of these do not count'),
};

export const suiteFields = {
  name: required(name),
  description,
  command: described(command, 'the command; this or `steps`'),
  steps: recordList('stepsOfSuite', stepFields, 'commands that run one after the other, instead of `command`'),
  services,
  tags,
  image: imageOfSuite,
  root: flagOrNone('whether the command runs as root, only in an image; null for the image’s user'),
  builds_images: described(
    flag(),
    'whether a build may create user namespaces and mounts, as buildah and podman do; only if the operator allows it',
  ),
  api_token: described(
    oneOf(['none', 'read', 'write']),
    'whether a build may read its own project over the API, or also start builds there; not for forks',
  ),
  id_tokens: recordList(
    'idTokensOfSuite',
    idTokenFields,
    'signed tokens that tell other services which build this is; not for forks',
    checkIdToken,
  ),
  reports: globs('test reports in the workspace, as JUnit XML'),
  timeout: described(
    wholeNumber({ min: 0, max: month, fallback: 0 }),
    'Seconds; 0 for as long as the server allows, which may be less than this maximum',
  ),
  allow_failure: flag(),
  retries: wholeNumber({ min: 0, max: 3, fallback: 0 }),
  retry_on: retryOn,
  resume: described(
    flag(),
    'whether a build whose runner was lost goes on, on another runner, at the first of its `steps` that was not done',
  ),
  ...matrixFields,
  reuse: described(
    oneOf(['off', 'on']),
    '`on`: a build is not run if one with the same inputs passed before, and has that result',
  ),
  inputs: globs('the files of the commit that can change the result, for `reuse`; an empty list for all'),
  ignore_variables: variableNames('variables whose values cannot change the result, for `reuse`'),
  reuse_days: described(wholeNumber({ min: 1, max: 365, fallback: 30 }), 'how long a result may be reused'),
  uses_request: described(
    flag(),
    'whether builds see commit, branch, event and pull request also with `reuse`, which makes them inputs',
  ),
  cache: cachePaths,
  cache_save: described(oneOf(['passed', 'always']), 'which builds save the cache: `always` for failed ones as well'),
  annotations: described(
    oneOf(['', 'compiler']),
    '`compiler`: errors of compilers in the log become annotations, as `::error file=F,line=N::TEXT` always does',
  ),
  artifacts: globs('files in the workspace to store after a build, whatever its result'),
  needs: storedIdentifiers('neededSuites', 'suites of the project that must pass before it starts, without cycles'),
  files_from_id: identifierOrNone(
    'one of `needs`, without a matrix or with the same one: a build starts with its files instead of the checkout',
  ),
  files_from_name: text('name', {
    pattern: /\$/,
    description: '`files_from_id` by name, in which `$NAME` and `${NAME}` stand for values of the matrix',
  }),
  files_from: identifiersOrNames(
    'filesFromSuites',
    name,
    'some of `needs`, or names with `$NAME`: their files are in `.headrace/files` of the checkout; not with `files_from_id`',
  ),
  approval: described(flag(), 'Whether each build waits for approval'),
  approvers,
  manual: described(flag(), 'Whether it runs only if a build request names it'),
  concurrency_group: text('name', {
    description: 'builds of the project in one group run one at a time; blank for none',
  }),
  priority,
};
type Written = Partial<ValuesOf<typeof suiteFields>>;

/** A suite has a command or steps. An undefined field is already refused. */
export function checkCommand({ command, steps }: Pick<Written, 'command' | 'steps'>): FieldErrors {
  if (command === undefined || steps === undefined) return {};
  if (command !== '' && steps.length > 0) return { command: ['invalid_format'] };
  return command === '' && steps.length === 0 ? { command: ['is_blank'] } : {};
}

/** A build can be root only in an image. */
export function checkRoot(sent: Written, stored?: Pick<ValuesOf<typeof suiteFields>, 'image' | 'root'>): FieldErrors {
  const { image = '', root = null } = { ...stored, ...sent };
  return root === true && image === '' && ('root' in sent || 'image' in sent) ? { root: ['invalid_format'] } : {};
}

/** There must be something to build, and not too much. The error is at the field that causes it. */
export function checkVariants(sent: Written, stored?: ValuesOf<typeof matrixFields>): FieldErrors {
  if (!Object.keys(matrixFields).some((name) => name in sent)) return {};
  const { matrix = [], matrix_include = [], matrix_exclude = [] } = { ...stored, ...sent };
  const wrong = (field: 'matrix_include' | 'matrix_exclude'): FieldErrors => ({
    [sent[field] === undefined ? 'matrix' : field]: ['invalid_format'],
  });
  const combined = variantsOf({ matrix, matrix_include: [], matrix_exclude }).length;
  if (combined > most.variants) return { matrix: ['invalid_format'] };
  const all = variantsOf({ matrix, matrix_include, matrix_exclude }).length;
  if (all > most.variants) return wrong('matrix_include');
  return all === 0 ? wrong('matrix_exclude') : {};
}

export const suiteRecord = record('Suite', {
  ...ownId,
  ...answersOf(suiteFields),
  services: listOf(serviceAnswer),
  needs: listOf(object({ ...ownId, name: string })),
  ...nullableIdWithString('files_from_id'),
  files_from: listOf(object({ ...nullableIdWithString('id'), name: string })),
});
export type Suite = Static<typeof suiteRecord>;

export const ruleFields = {
  subject: required(oneOf(subjects)),
  operator: required(oneOf(operators)),
  value: required(text('ruleValue', { lines: 'many' })),
};
export const ruleRecord = record('Rule', { ...ownId, ...answersOf(ruleFields) });
export type Rule = Static<typeof ruleRecord>;

export const variableFields = {
  name: required(variableName),
  content: takingBlank(variableContent),
  secret: withDefault(flag(), true),
  refs: refs('only builds of these branches and tags have it, such as main or refs/tags/v*; none for all builds'),
};
const variable = { ...ownId, ...answersOf(variableFields) };
export const variableRecord = record('EnvironmentVariable', variable);
export type EnvironmentVariable = Static<typeof variableRecord>;
export const writtenVariableRecord = record('WrittenEnvironmentVariable', { ...variable, warning: optional(string) });
export type WrittenVariable = Static<typeof writtenVariableRecord>;

export const suiteDependencyRecord = record('SuiteDependency', {
  id,
  id_ref: string,
  name: string,
  prefix: string,
  launch_command: string,
  update_available: boolean,
});
export type SuiteDependency = Static<typeof suiteDependencyRecord>;

const mountedSoftware = {
  layers: listOf(object({ ...idWithString('dependency_id'), name: string, prefix: string, digest: string })),
  prefixes: strings,
};

export const softwareRecord = record('Software', {
  ...mountedSoftware,
  services: listOf(object({ name: string, ...mountedSoftware })),
  launches: listOf(object({ name: string, command: string })),
  missing: strings,
});
export type Software = Static<typeof softwareRecord>;

export const cacheRecord = record('Cache', {
  ...ownId,
  ...nullableIdWithString('suite_id'),
  branch: string,
  size: integer,
  created_at: dateTime,
  last_used_at: dateTime,
});
