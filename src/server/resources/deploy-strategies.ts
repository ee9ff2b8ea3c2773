import { projectRoute } from '../api/route.ts';
import type { Call } from '../api/call.ts';
import type { Queries, Transaction } from '../db/open.ts';
import type { Caller } from '../auth/callers.ts';
import type { VisibleProject } from '../auth/projects.ts';
import { repositoryKey } from '../../shared/domain/git-address.ts';
import { ApiError, type FieldErrors } from '../../shared/errors.ts';
import type { DeployStrategyRow } from '../db/schema.ts';
import {
  checkOptions,
  gateFields,
  pushOptions,
  strategyFields,
  strategyItemFields,
  strategyItemRecord,
  strategyRecord,
  writtenAddresses,
} from '../../shared/records/deploy.ts';
import { addressesOf } from '../../shared/records/addresses.ts';
import { columnsOf, valuesIn, type ValuesOf } from '../../shared/records/fields.ts';
import { listOf } from '../../shared/records/schema.ts';
import { changesAny, checkApprovers, isByOwner } from './approvals.ts';
import { destroyed, destroyedAnswer, orNotFound, withIdString, type InProject } from './common.ts';
import { checkName, orTaken } from './names.ts';

function itemView(strategy: DeployStrategyRow) {
  return { ...withIdString('id', strategy.id), ...valuesIn(strategyItemFields, strategy) };
}

function view(strategy: DeployStrategyRow) {
  const { suite_id: suite } = strategy;
  const options = suite === null ? valuesIn(pushOptions, strategy) : withIdString('suite_id', suite);
  return { ...itemView(strategy), ...valuesIn(gateFields, strategy), options };
}

async function loadStrategy(call: InProject<'deploy_strategy_id'>): Promise<{ strategy: DeployStrategyRow }> {
  return { strategy: orNotFound(await findStrategy(call.db, call.project.id, call.params.deploy_strategy_id)) };
}

export async function findStrategy(db: Queries, projectId: bigint, id: bigint): Promise<DeployStrategyRow | undefined> {
  const strategies = db.selectFrom('deploy_strategies').selectAll().where('project_id', '=', projectId);
  return strategies.where('id', '=', id).executeTakeFirst();
}

type Written = Partial<ValuesOf<typeof strategyFields>>;

/** The type of a strategy does not change. */
async function checkStrategy(
  { db, database, project }: Pick<Call, 'database'> & { db: Queries; project: { id: bigint } },
  values: Written,
  present?: DeployStrategyRow,
): Promise<FieldErrors> {
  const { strategy_type: type = present?.strategy_type, 'options[suite_id]': suiteId } = values;
  if (present && type !== present.strategy_type) return { strategy_type: ['invalid_format'] };
  const errors = checkOptions({ ...values, ...(type && { strategy_type: type }) }, { isNew: !present });
  if (type !== 'suite' || suiteId === undefined) return errors;
  await database.holdRight(db as Transaction, 'suites', project.id); // the suite cannot be deleted meanwhile
  const suites = db.selectFrom('suites').select('manual').where('project_id', '=', project.id);
  const suite = await suites.where('id', '=', suiteId).executeTakeFirst();
  if (!suite) errors['options[suite_id]'] = ['not_found'];
  else if (suite.manual === 0) errors['options[suite_id]'] = ['invalid_format'];
  return errors;
}

const gates = ['refs', 'approval', 'approvers'] as const;
const noGates = { refs: '[]', approval: 0, approvers: '[]' };
const targets = ['suite_id', 'clone_url', 'remote_branch'] as const;
type Target = Pick<DeployStrategyRow, (typeof targets)[number]>;

const isGated = ({ refs, approval }: Pick<DeployStrategyRow, 'refs' | 'approval'>): boolean =>
  approval === 1 || refs !== noGates.refs;

const isSameTarget = (a: Target, b: Target): boolean =>
  a.suite_id === null && b.suite_id === null
    ? a.remote_branch === b.remote_branch && repositoryKey(a.clone_url) === repositoryKey(b.clone_url)
    : a.suite_id === b.suite_id;

/** Only the owner changes gates, adds another way to a gated target, or redirects a gated strategy. */
async function refuseOthers(
  call: Pick<Call, 'database'> & { db: Queries; project: VisibleProject; caller: Caller },
  changed: Partial<DeployStrategyRow>,
  present?: DeployStrategyRow,
): Promise<void> {
  if (isByOwner(call)) return;
  const { db, project } = call;
  if (!project.owned && changesAny(gates, changed, present ?? noGates)) throw new ApiError('unauthorized');
  const target = { suite_id: null, clone_url: '', remote_branch: '', ...present, ...changed };
  if (present && !changesAny(targets, changed, present)) return;
  if (present && isGated(present)) throw new ApiError('unauthorized');
  const strategies = await db
    .selectFrom('deploy_strategies')
    .selectAll()
    .where('project_id', '=', project.id)
    .execute();
  if (strategies.some((other) => isGated(other) && isSameTarget(other, target))) throw new ApiError('unauthorized');
}

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
    verify: async (call, values) => ({
      ...(await checkStrategy(call, values)),
      ...(await checkApprovers(call.db, call.project, values.approvers)),
    }),
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
    async handle(call) {
      const { db, project, ids, input } = call;
      const fields = { ...columnsOf(strategyFields, input), ...addressesOf(writtenAddresses(input)) };
      const strategy = { id: ids.next(), project_id: project.id, ...fields, suite_id: fields.suite_id ?? null };
      await refuseOthers(call, strategy);
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
    verify: async (call, values) => ({
      ...(await checkStrategy(call, values, call.strategy)),
      ...(await checkApprovers(call.db, call.project, values.approvers)),
    }),
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
    async handle(call) {
      const { db, strategy, input } = call;
      const { suite_id: suite = strategy.suite_id, ...fields } = columnsOf(strategyFields, input);
      const changed = { ...fields, ...addressesOf(writtenAddresses(input)), suite_id: suite };
      await refuseOthers(call, changed, strategy);
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
