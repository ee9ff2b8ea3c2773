import type { Static } from 'typebox';
import { answersOf, described, grouped, identifier, oneOf, required } from './fields.ts';
import { branch, name, repositoryUrl, sshCloneUrl } from './forms.ts';
import {
  dateTime,
  id,
  ownId,
  nullable,
  nullableIdWithString,
  object,
  optional,
  record,
  stateOf,
  string,
  idWithString,
} from './schema.ts';
import { deployStates } from './states.ts';
import { reasonInVain } from './waiting.ts';

const itemFields = { ...ownId, state: stateOf(deployStates), created_by: string };
const fields = {
  ...itemFields,
  ...idWithString('deploy_strategy_id'),
  ...idWithString('commit_id'),
  ...nullableIdWithString('build_id'),
  deploy_started_at: nullable(dateTime),
  deploy_finished_at: nullable(dateTime),
};

export const deployItemRecord = record('DeployItem', { ...itemFields, waiting_reason: reasonInVain });
export const deployRecord = record('Deploy', fields);
/** A deploy that is fetched alone also says why no runner can take it. */
export const fetchedDeployRecord = record('FetchedDeploy', { ...fields, waiting_reason: reasonInVain });
export type FetchedDeploy = Static<typeof fetchedDeployRecord>;

export const strategyItemFields = { name: required(name), strategy_type: required(oneOf(['git', 'suite'])) };
/** The options of a push. */
export const pushOptions = {
  repository_url: repositoryUrl,
  clone_url: sshCloneUrl,
  local_branch: branch,
  remote_branch: branch,
};
export const suiteOptions = { suite_id: described(identifier(), 'a manual suite, which a deploy runs on its commit') };
export const strategyFields = {
  ...strategyItemFields,
  ...grouped('options', pushOptions),
  ...grouped('options', suiteOptions),
};
const strategyItem = { ...ownId, ...answersOf(strategyItemFields) };
export const strategyItemRecord = record('DeployStrategyItem', strategyItem);
export const strategyRecord = record('DeployStrategy', {
  ...strategyItem,
  /** The options of its type. */
  options: object({
    repository_url: optional(string),
    clone_url: optional(string),
    local_branch: optional(string),
    remote_branch: optional(string),
    suite_id: optional(id),
    suite_id_str: optional(string),
  }),
});
export type DeployStrategy = Static<typeof strategyRecord>;
