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
import { changesAny, checkApprovers, isByOwner } from './approvals.ts';
import { withIdString } from './common.ts';
import { orTaken } from './names.ts';
import { byQuery, projectRecords } from './record-routes.ts';

function itemView(strategy: DeployStrategyRow) {
  return { ...withIdString('id', strategy.id), ...valuesIn(strategyItemFields, strategy) };
}

export function strategyView(strategy: DeployStrategyRow) {
  const { suite_id: suite } = strategy;
  const options = suite === null ? valuesIn(pushOptions, strategy) : withIdString('suite_id', suite);
  return { ...itemView(strategy), ...valuesIn(gateFields, strategy), options };
}

export const strategiesOf = (db: Queries, projectId: bigint) =>
  db.selectFrom('deploy_strategies').selectAll().where('project_id', '=', projectId);

export async function findStrategy(db: Queries, projectId: bigint, id: bigint): Promise<DeployStrategyRow | undefined> {
  return strategiesOf(db, projectId).where('id', '=', id).executeTakeFirst();
}

type Written = Partial<ValuesOf<typeof strategyFields>>;

/** Checks the fields for the strategy's type, which cannot change. */
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

/** Only the owner may change gates, add another way to a gated target, or redirect a gated strategy. */
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
  const strategies = await strategiesOf(db, project.id).execute();
  if (strategies.some((other) => isGated(other) && isSameTarget(other, target))) throw new ApiError('unauthorized');
}

export async function isDeployed(db: Queries, { id }: { id: bigint }): Promise<boolean> {
  const strategies = db.selectFrom('deploy_strategies').select('id').where('suite_id', '=', id);
  return (await strategies.executeTakeFirst()) !== undefined;
}

export const strategies = projectRecords({
  path: '/projects/:project_id/deploy_strategies',
  name: 'deploy_strategy',
  access: 'developer',
  reads: 'viewer',
  scope: 'deploys',
  fields: strategyFields,
  answer: strategyRecord,
  rows: ({ db, project }) => byQuery(strategiesOf(db, project.id)),
  view: strategyView,
  verify: async (call, sent, strategy) => ({
    ...(await checkStrategy(call, sent, strategy)),
    ...(await checkApprovers(call.db, call.project, sent.approvers)),
  }),
  namesIn: ({ project }) => ({ table: 'deploy_strategies', column: 'project_id', within: project.id }),
});

export const routes = [
  strategies.list('List the deploy strategies of a project', {
    answer: strategyItemRecord,
    handle: async ({ db, project }) => (await strategiesOf(db, project.id).orderBy('id').execute()).map(itemView),
  }),
  strategies.create(
    'Create a deploy strategy: git pushes to a repository, which must take pushes with the project’s SSH key; suite runs ' +
      'a manual suite',
    {
      creates: 'deploy_strategies',
      details: ({ input }) =>
        input.strategy_type === 'git'
          ? {
              clone_url: addressesOf(writtenAddresses(input)).clone_url,
              remote_branch: input['options[remote_branch]'],
            }
          : { suite_id_str: String(input['options[suite_id]']) },
      async handle(call) {
        const { db, project, ids, input } = call;
        const fields = { ...columnsOf(strategyFields, input), ...addressesOf(writtenAddresses(input)) };
        const strategy = { id: ids.next(), project_id: project.id, ...fields, suite_id: fields.suite_id ?? null };
        await refuseOthers(call, strategy);
        await orTaken(db.insertInto('deploy_strategies').values(strategy).execute());
        return strategyView(strategy);
      },
    },
  ),
  strategies.show('Fetch a deploy strategy'),
  strategies.change('Change a deploy strategy', {
    details({ deploy_strategy: { clone_url: from }, input }) {
      const { clone_url: to = from } = addressesOf(writtenAddresses(input));
      return from === to ? {} : { clone_url: { from, to } };
    },
    async handle(call) {
      const { db, deploy_strategy: strategy, input } = call;
      const { suite_id: suite = strategy.suite_id, ...fields } = columnsOf(strategyFields, input);
      const changed = { ...fields, ...addressesOf(writtenAddresses(input)), suite_id: suite };
      await refuseOthers(call, changed, strategy);
      await orTaken(db.updateTable('deploy_strategies').set(changed).where('id', '=', strategy.id).execute());
      return strategyView({ ...strategy, ...changed });
    },
  }),
  strategies.remove('Delete a deploy strategy; deploys that used it stay', {
    access: 'maintainer',
    handle: ({ db, deploy_strategy: { id } }) => db.deleteFrom('deploy_strategies').where('id', '=', id).execute(),
  }),
];
