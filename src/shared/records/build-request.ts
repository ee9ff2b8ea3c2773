import * as Type from 'typebox';
import { described, flag, identifiers, lines, required, texts, withDefault } from './fields.ts';
import { fetchedIncludeFields } from './include.ts';
import { commitRef, priority, variableContent, variableName } from './forms.ts';
import {
  boolean,
  dateTime,
  integer,
  id,
  ownId,
  listOf,
  mapOf,
  nullable,
  nullableIdWithString,
  object,
  record,
  stateOf,
  string,
  strings,
} from './schema.ts';
import { buildRequestStates } from './states.ts';
import { waitingReason } from './waiting.ts';

export const askedFields = {
  commit_ref: required(commitRef),
  suites: identifiers('namedSuites'),
  suite_names: lines({
    most: 'namedSuites',
    longest: 'name',
    isSet: true,
    description: 'names of suites, in addition to `suites`; also of a suite that only the branch’s file has',
  }),
  variables: described(
    texts(variableName, variableContent, 'variablesOfRequest'),
    'Variables for its builds, which replace variables that are not secret; at most 50. A token needs the scope ' +
      '`suites` too',
  ),
  priority: described(priority, 'added to the priority of each suite; at most `most_priority` of the project'),
  reuse: described(
    withDefault(flag(), true),
    'suites with `reuse` are not run if a build with the same inputs passed; with false, all run',
  ),
};

export const buildRequestRecord = record('BuildRequest', {
  ...ownId,
  build_state: stateOf(buildRequestStates),
  commit_ref: string,
  ...nullableIdWithString('commit_id'),
  created_by: string,
  created_at: dateTime,
  event: string,
  pull_request: nullable(id),
  target_branch: string,
  from_fork: boolean,
  sender: string,
  suites: listOf(object(ownId)),
  suite_names: strings,
  variables: mapOf(string),
  priority: integer,
  reuse: boolean,
  waiting_reason: waitingReason,
  failure_reason: Type.String({ description: 'Why nothing ran, in one word; blank if suites were chosen' }),
  config_file: Type.String({
    description: "The commit's own file that defines its suites; blank for the project's suites",
  }),
  includes: listOf(object(fetchedIncludeFields)),
  base: Type.String({ description: 'The SHA that the changed files are compared with; blank if there is none' }),
  compared_with: Type.String({ description: 'The same in words; blank if no rule needs the changed files' }),
  ...nullableIdWithString('joined_to_id'),
});
export type BuildRequest = Type.Static<typeof buildRequestRecord>;

/** Why a suite ran for a request, or did not. */
export const explanationRecord = record('Explanation', {
  ...nullableIdWithString('suite_id'),
  name: string,
  runs: boolean,
  why: string,
});
export type Explanation = Type.Static<typeof explanationRecord>;
