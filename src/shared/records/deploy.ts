import * as Type from 'typebox';
import type { Static } from 'typebox';
import type { FieldErrors } from '../errors.ts';
import { wrongAddresses, type Addresses } from './addresses.ts';
import { answersOf, described, flag, grouped, identifier, oneOf, required, type ValuesOf } from './fields.ts';
import { approvers, branch, name, refs, repositoryUrl, sshCloneUrl } from './forms.ts';
import {
  dateTime,
  id,
  ownId,
  listOf,
  nullable,
  nullableIdWithString,
  object,
  optional,
  record,
  stateOf,
  string,
  strings,
  idWithString,
} from './schema.ts';
import { commitStates, deployStates } from './states.ts';
import { reasonInVain } from './waiting.ts';

const itemFields = { ...ownId, state: stateOf(deployStates), created_by: string };
const fields = {
  ...itemFields,
  ...idWithString('deploy_strategy_id'),
  ...idWithString('commit_id'),
  ...nullableIdWithString('build_id'),
  deploy_started_at: nullable(dateTime),
  deploy_finished_at: nullable(dateTime),
  approvers: strings,
  approved_by: string,
};

export const deployItemRecord = record('DeployItem', { ...itemFields, waiting_reason: reasonInVain });
export const deployRecord = record('Deploy', fields);
/** Also has the reason why no runner can take it. */
export const fetchedDeployRecord = record('FetchedDeploy', { ...fields, waiting_reason: reasonInVain });
export type FetchedDeploy = Static<typeof fetchedDeployRecord>;

export const strategyItemFields = { name: required(name), strategy_type: required(oneOf(['git', 'suite'])) };
export const pushOptions = {
  repository_url: repositoryUrl,
  clone_url: sshCloneUrl,
  local_branch: branch,
  remote_branch: branch,
};
export const suiteOptions = { suite_id: described(identifier(), 'a manual suite that a deploy runs on its commit') };
/** Only the owner changes these. */
export const gateFields = {
  refs: refs('only commits of these branches and tags are deployed, such as main or refs/tags/v*; none for all'),
  approval: described(flag(), 'whether each deploy waits until a user other than its requester approves'),
  approvers,
};
export const strategyFields = {
  ...strategyItemFields,
  ...gateFields,
  ...grouped('options', pushOptions),
  ...grouped('options', suiteOptions),
};
type Written = Partial<ValuesOf<typeof strategyFields>>;

export const writtenAddresses = ({
  'options[repository_url]': repository,
  'options[clone_url]': clone,
}: Written): Partial<Addresses> => ({
  ...(repository !== undefined && { repository_url: repository }),
  ...(clone !== undefined && { clone_url: clone }),
});

/** Each type requires all of its own options. The default type is a push. */
export function checkOptions(values: Written, { isNew }: { isNew: boolean }): FieldErrors {
  const isSuite = values.strategy_type === 'suite';
  const wrong = isSuite ? {} : wrongAddresses(writtenAddresses(values), { isNew });
  const errors: FieldErrors = Object.fromEntries(
    Object.entries(wrong).map(([option, codes]) => [`options[${option}]`, codes]),
  );
  for (const name of ['options[local_branch]', 'options[remote_branch]'] as const)
    if (!isSuite && values[name] === '') errors[name] = ['is_blank'];
  for (const name of Object.keys(grouped('options', pushOptions)) as (keyof Written)[])
    if (isSuite && values[name] !== undefined && values[name] !== '') errors[name] = ['invalid_format'];
  const name = 'options[suite_id]';
  if (!isSuite && values[name] !== undefined) errors[name] = ['invalid_format'];
  if (isSuite && name in values && values[name] === undefined) errors[name] = ['is_blank'];
  return errors;
}

const strategyItem = { ...ownId, ...answersOf(strategyItemFields) };
export const strategyItemRecord = record('DeployStrategyItem', strategyItem);
export const strategyRecord = record('DeployStrategy', {
  ...strategyItem,
  ...answersOf(gateFields),
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

const deployedCommit = object({ ...ownId, ref: string, build_state: stateOf(commitStates), message: string });
export type DeployedCommit = Static<typeof deployedCommit>;

const deployLine = {
  ...itemFields,
  ...idWithString('deploy_strategy_id'),
  strategy_name: Type.String({ description: 'Blank if the strategy is deleted' }),
  created_at: dateTime,
  deploy_started_at: nullable(dateTime),
  deploy_finished_at: nullable(dateTime),
  commit: nullable(deployedCommit),
};
export const deployLineRecord = record('DeployDetails', deployLine);
export type DeployLine = Static<typeof deployLineRecord>;

export const deployOverviewRecord = record('DeployOverview', {
  strategies: listOf(
    object({
      ...strategyRecord.properties,
      suite_name: Type.String({ description: 'The suite that it runs; blank for a push' }),
      deployed: nullable(object(deployLine)),
      deployed_before: nullable(object(deployLine)),
      last_deploys: listOf(object(deployLine)),
    }),
  ),
  commits: listOf(deployedCommit),
});
export type DeployOverview = Static<typeof deployOverviewRecord>;
