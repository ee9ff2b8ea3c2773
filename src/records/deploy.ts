import type { Static } from 'typebox';
import { answersOf, grouped, oneOf, required } from './fields.ts';
import { branch, name, repositoryUrl } from './forms.ts';
import { dateTime, ownId, nullable, object, record, stateOf, string, idWithString } from './schema.ts';
import { deployStates } from './states.ts';
import { reasonInVain } from './waiting.ts';

const itemFields = { ...ownId, state: stateOf(deployStates), created_by: string };
const fields = {
  ...itemFields,
  ...idWithString('deploy_strategy_id'),
  ...idWithString('commit_id'),
  deploy_started_at: nullable(dateTime),
  deploy_finished_at: nullable(dateTime),
};

export const deployItemRecord = record('DeployItem', { ...itemFields, waiting_reason: reasonInVain });
export type DeployItem = Static<typeof deployItemRecord>;
export const deployRecord = record('Deploy', fields);
export type Deploy = Static<typeof deployRecord>;
/** Fetched alone: with why no runner can take it. */
export const fetchedDeployRecord = record('FetchedDeploy', { ...fields, waiting_reason: reasonInVain });
export type FetchedDeploy = Static<typeof fetchedDeployRecord>;

export const strategyItemFields = { name: required(name), strategy_type: required(oneOf(['git'])) };
export const strategyOptions = {
  repository_url: required(repositoryUrl),
  local_branch: required(branch),
  remote_branch: required(branch),
};
export const strategyFields = { ...strategyItemFields, ...grouped('options', strategyOptions) };
const strategyItem = { ...ownId, ...answersOf(strategyItemFields) };
export const strategyItemRecord = record('DeployStrategyItem', strategyItem);
export type DeployStrategyItem = Static<typeof strategyItemRecord>;
export const strategyRecord = record('DeployStrategy', {
  ...strategyItem,
  options: object(answersOf(strategyOptions)),
});
export type DeployStrategy = Static<typeof strategyRecord>;
