import { projectRoute } from '../api/route.ts';
import type { Queries } from '../db/open.ts';
import type { DeployStrategyRow } from '../db/schema.ts';
import {
  strategyFields,
  strategyItemFields,
  strategyItemRecord,
  strategyOptions,
  strategyRecord,
} from '../records/deploy.ts';
import { columnsOf, valuesIn } from '../records/fields.ts';
import { listOf } from '../records/schema.ts';
import { destroyed, destroyedAnswer, orNotFound, withIdString, type InProject } from './common.ts';
import { checkName, orTaken } from './names.ts';

function itemView(strategy: DeployStrategyRow) {
  return { ...withIdString('id', strategy.id), ...valuesIn(strategyItemFields, strategy) };
}

function view(strategy: DeployStrategyRow) {
  return { ...itemView(strategy), options: valuesIn(strategyOptions, strategy) };
}

async function loadStrategy(call: InProject<'deploy_strategy_id'>): Promise<{ strategy: DeployStrategyRow }> {
  return { strategy: orNotFound(await findStrategy(call.db, call.project.id, call.params.deploy_strategy_id)) };
}

export async function findStrategy(db: Queries, projectId: bigint, id: bigint): Promise<DeployStrategyRow | undefined> {
  const strategies = db.selectFrom('deploy_strategies').selectAll().where('project_id', '=', projectId);
  return strategies.where('id', '=', id).executeTakeFirst();
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
    summary: 'Create a deploy strategy; the receiving repository must take pushes with the project’s SSH key',
    body: strategyFields,
    creates: 'deploy_strategies',
    answer: strategyRecord,
    verifyNames: ({ db, project }, values) =>
      checkName(db, 'deploy_strategies', { within: project.id, name: values.name }),
    audit: {
      action: 'deploy_strategy.created',
      details: ({ input }) => ({
        repository_url: input['options[repository_url]'],
        remote_branch: input['options[remote_branch]'],
      }),
    },
    async handle({ db, project, ids, input }) {
      const strategy = { id: ids.next(), project_id: project.id, ...columnsOf(strategyFields, input) };
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
    verifyNames: ({ db, strategy }, values) =>
      checkName(db, 'deploy_strategies', { within: strategy.project_id, name: values.name, except: strategy.id }),
    audit: {
      action: 'deploy_strategy.updated',
      subject: ({ strategy }) => strategy,
      details({ strategy: { repository_url: from }, input: { 'options[repository_url]': to = from } }) {
        return from === to ? {} : { repository_url: { from, to } };
      },
    },
    async handle({ db, strategy, input }) {
      const changed = columnsOf(strategyFields, input);
      if (Object.keys(changed).length > 0) {
        await orTaken(db.updateTable('deploy_strategies').set(changed).where('id', '=', strategy.id).execute());
      }
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
