import type { Static } from 'typebox';
import {
  boolean,
  dateTime,
  id,
  idTwin,
  listOf,
  nullable,
  nullableTwin,
  object,
  record,
  stateOf,
  string,
} from './schema.ts';
import { buildRequestStates } from './states.ts';
import { waitingReason } from './waiting.ts';

export const buildRequestRecord = record('BuildRequest', {
  ...idTwin,
  build_state: stateOf(buildRequestStates),
  commit_ref: string,
  ...nullableTwin('commit_id'),
  created_by: string,
  created_at: dateTime,
  event: string,
  pull_request: nullable(id),
  target_branch: string,
  from_fork: boolean,
  sender: string,
  suites: listOf(object(idTwin)),
  waiting_reason: waitingReason,
});
export type BuildRequest = Static<typeof buildRequestRecord>;

/** Why a suite was run for a request, or was not. */
export const explanationRecord = record('Explanation', {
  ...nullableTwin('suite_id'),
  name: string,
  runs: boolean,
  why: string,
});
export type Explanation = Static<typeof explanationRecord>;
