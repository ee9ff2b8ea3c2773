import { projectRoute } from '../api/route.ts';
import type { Call } from '../api/call.ts';
import type { Queries, Transaction } from '../db/open.ts';
import type { FieldErrors } from '../errors.ts';
import type { DeployStrategyRow } from '../db/schema.ts';
import {
  pushOptions,
  strategyFields,
  strategyItemFields,
  strategyItemRecord,
  strategyRecord,
} from '../records/deploy.ts';
import { addressesOf, wrongAddresses, type Addresses } from '../records/addresses.ts';
import { columnsOf, grouped, valuesIn, type ValuesOf } from '../records/fields.ts';
import { listOf } from '../records/schema.ts';
import { destroyed, destroyedAnswer, orNotFound, withIdString, type InProject } from './common.ts';
import { checkName, orTaken } from './names.ts';

function itemView(strategy: DeployStrategyRow) {
  return { ...withIdString('id', strategy.id), ...valuesIn(strategyItemFields, strategy) };
}

function view(strategy: DeployStrategyRow) {
  const { suite_id: suite } = strategy;
  const options = suite === null ? valuesIn(pushOptions, strategy) : withIdString('suite_id', suite);
  return { ...itemView(strategy), options };
}

async function loadStrategy(call: InProject<'deploy_strategy_id'>): Promise<{ strategy: DeployStrategyRow }> {
  return { strategy: orNotFound(await findStrategy(call.db, call.project.id, call.params.deploy_strategy_id)) };
}

export async function findStrategy(db: Queries, projectId: bigint, id: bigint): Promise<DeployStrategyRow | undefined> {
  const strategies = db.selectFrom('deploy_strategies').selectAll().where('project_id', '=', projectId);
  return strategies.where('id', '=', id).executeTakeFirst();
}

type Written = Partial<ValuesOf<typeof strategyFields>>;

const writtenAddresses = ({
  'options[repository_url]': repository,
  'options[clone_url]': clone,
}: Written): Partial<Addresses> => ({
  ...(repository !== undefined && { repository_url: repository }),
  ...(clone !== undefined && { clone_url: clone }),
});

/**
 * Each type has options of its own, and all of them are needed; without a type, those of a push. The type of a strategy
 * does not change.
 */
async function checkOptions(
  { db, database, project }: Pick<Call, 'database'> & { db: Queries; project: { id: bigint } },
  values: Written,
  present?: DeployStrategyRow,
): Promise<FieldErrors> {
  const { strategy_type: type = present?.strategy_type, 'options[suite_id]': suiteId } = values;
  if (present && type !== present.strategy_type) return { strategy_type: ['invalid_format'] };
  const isSuite = type === 'suite';
  const wrong = isSuite ? {} : wrongAddresses(writtenAddresses(values), { isNew: !present });
  const errors: FieldErrors = Object.fromEntries(
    Object.entries(wrong).map(([option, codes]) => [`options[${option}]`, codes]),
  );
  for (const name of ['options[local_branch]', 'options[remote_branch]'] as const)
    if (!isSuite && values[name] === '') errors[name] = ['is_blank'];
  for (const name of Object.keys(grouped('options', pushOptions)) as (keyof Written)[])
    if (isSuite && values[name] !== undefined && values[name] !== '') errors[name] = ['invalid_format'];
  const name = 'options[suite_id]';
  if (!isSuite && suiteId !== undefined) errors[name] = ['invalid_format'];
  if (!isSuite || !(name in values)) return errors;
  await database.holdNumber(db as Transaction, project.id); // nobody deletes the suite meanwhile
  const suites = db.selectFrom('suites').select('manual').where('project_id', '=', project.id);
  const suite = suiteId === undefined ? undefined : await suites.where('id', '=', suiteId).executeTakeFirst();
  if (!suite) errors[name] = [suiteId === undefined ? 'is_blank' : 'not_found'];
  else if (suite.manual === 0) errors[name] = ['invalid_format'];
  return errors;
}

/** Whether a strategy runs this suite. */
export async function isDeployed(db: Queries, { id }: { id: bigint }): Promise<boolean> {
  const strategies = db.selectFrom('deploy_strategies').select('id').where('suite_id', '=', id);
  return (await strategies.executeTakeFirst()) !== undefined;
}

export const routes = [
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/deploy_strategies',
    access: 'both',
    scope: 'deploys',
    summary: 'List the deploy strategies of a project',
    answer: listOf(strategyItemRecord),
    async handle({ db, project }) {
      const strategies = db.selectFrom('deploy_strategies').selectAll().where('project_id', '=', project.id);
      return (await strategies.orderBy('id').execute()).map(itemView);
    },
  }),
  projectRoute({
    method: 'POST',
    path: '/projects/:project_id/deploy_strategies',
    access: 'both',
    scope: 'deploys',
    summary:
      'Create a deploy strategy: git pushes to a repository, which must take pushes with the project’s SSH key; suite runs ' +
      'a manual suite',
    body: strategyFields,
    creates: 'deploy_strategies',
    answer: strategyRecord,
    verify: (call, values) => checkOptions(call, values),
    verifyNames: ({ db, project }, values) =>
      checkName(db, 'deploy_strategies', { within: project.id, name: values.name }),
    audit: {
      action: 'deploy_strategy.created',
      details: ({ input }) =>
        input.strategy_type === 'git'
          ? {
              clone_url: addressesOf(writtenAddresses(input)).clone_url,
              remote_branch: input['options[remote_branch]'],
            }
          : { suite_id_str: String(input['options[suite_id]']) },
    },
    async handle({ db, project, ids, input }) {
      const fields = { ...columnsOf(strategyFields, input), ...addressesOf(writtenAddresses(input)) };
      const strategy = { id: ids.next(), project_id: project.id, ...fields, suite_id: fields.suite_id ?? null };
      await orTaken(db.insertInto('deploy_strategies').values(strategy).execute());
      return view(strategy);
    },
  }),
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/deploy_strategies/:deploy_strategy_id',
    access: 'both',
    scope: 'deploys',
    summary: 'Fetch a deploy strategy',
    answer: strategyRecord,
    load: loadStrategy,
    handle: async ({ strategy }) => view(strategy),
  }),
  projectRoute({
    method: 'PUT',
    path: '/projects/:project_id/deploy_strategies/:deploy_strategy_id',
    access: 'both',
    scope: 'deploys',
    summary: 'Change a deploy strategy',
    body: strategyFields,
    answer: strategyRecord,
    load: loadStrategy,
    verify: (call, values) => checkOptions(call, values, call.strategy),
    verifyNames: ({ db, strategy }, values) =>
      checkName(db, 'deploy_strategies', { within: strategy.project_id, name: values.name, except: strategy.id }),
    audit: {
      action: 'deploy_strategy.updated',
      subject: ({ strategy }) => strategy,
      details({ strategy: { clone_url: from }, input }) {
        const { clone_url: to = from } = addressesOf(writtenAddresses(input));
        return from === to ? {} : { clone_url: { from, to } };
      },
    },
    async handle({ db, strategy, input }) {
      const { suite_id: suite = strategy.suite_id, ...fields } = columnsOf(strategyFields, input);
      const changed = { ...fields, ...addressesOf(writtenAddresses(input)), suite_id: suite };
      await orTaken(db.updateTable('deploy_strategies').set(changed).where('id', '=', strategy.id).execute());
      return view({ ...strategy, ...changed });
    },
  }),
  projectRoute({
    method: 'DELETE',
    path: '/projects/:project_id/deploy_strategies/:deploy_strategy_id',
    access: 'users',
    scope: 'deploys',
    summary: 'Delete a deploy strategy; deploys that used it stay',
    answer: destroyedAnswer,
    load: loadStrategy,
    audit: { action: 'deploy_strategy.deleted', subject: ({ strategy }) => strategy },
    async handle({ db, strategy }) {
      await db.deleteFrom('deploy_strategies').where('id', '=', strategy.id).execute();
      return destroyed;
    },
  }),
];
