import type { Static } from 'typebox';
import { described, identifiers, required, texts } from './fields.ts';
import { commitRef, variableContent, variableName } from './forms.ts';
import {
  boolean,
  dateTime,
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
} from './schema.ts';
import { buildRequestStates } from './states.ts';
import { waitingReason } from './waiting.ts';

export const askedFields = {
  commit_ref: required(commitRef),
  suites: identifiers('namedSuites'),
  variables: described(
    texts(variableName, variableContent, 'variablesOfRequest'),
    'In the environment of its builds, in the place of variables that are not secret; at most 50',
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
  variables: mapOf(string),
  waiting_reason: waitingReason,
  failure_reason: string,
  config_file: string,
  base: string,
  compared_with: string,
});
export type BuildRequest = Static<typeof buildRequestRecord>;

/** Why a suite was run for a request, or was not. */
export const explanationRecord = record('Explanation', {
  ...nullableIdWithString('suite_id'),
  name: string,
  runs: boolean,
  why: string,
});
export type Explanation = Static<typeof explanationRecord>;
