import { projectRoute } from '../api/route.ts';
import type { Queries } from '../db/open.ts';
import type { NotificationRow } from '../db/schema.ts';
import type { FieldErrors } from '../../shared/errors.ts';
import { forgeProviders } from '../../shared/domain/forge-providers.ts';
import { providers } from '../forges/index.ts';
import { required } from '../../shared/records/fields.ts';
import { checkSoon } from '../lifecycle/forge-holds.ts';
import { createStatusTarget, deleteNotification } from '../lifecycle/notifications.ts';
import type { StatusReport } from '../lifecycle/status-reports.ts';
import { forgeToken } from '../../shared/records/forge.ts';
import {
  statusDeliveryRecord,
  statusTargetRecord,
  targetFields,
  type StatusTarget,
} from '../../shared/records/notification.ts';
import { listOf } from '../../shared/records/schema.ts';
import { deliveriesOf } from './webhook-deliveries.ts';
import { destroyed, destroyedAnswer, orNotFound, withIdString, writeContextOf, type InProject } from './common.ts';
import { hostOf } from './notifications.ts';

/** In the database, these are notifications of another type. */

type Target = NotificationRow & { name: StatusTarget['provider'] };

function view({ id, project_id, name, url, repository }: Target) {
  return {
    ...withIdString('id', id),
    ...withIdString('project_id', project_id),
    provider: name,
    api_url: url,
    repository,
  };
}

function statusIn(payload: string) {
  const { ref, context, build_state, description } = JSON.parse(payload) as StatusReport;
  return { ref, context, build_state, description };
}

const ownerAndName = /^[^/]+\/[^/]+$/;

const fields = {
  ...targetFields,
  token: required(forgeToken),
};

async function loadTarget(call: InProject<'status_target_id'>): Promise<{ target: Target }> {
  const targets = targetsOf(call.db, call.project).where('id', '=', call.params.status_target_id);
  return { target: orNotFound(await targets.executeTakeFirst()) };
}

function targetsOf(db: Queries, { id }: { id: bigint }) {
  const notifications = db.selectFrom('notifications').selectAll().where('project_id', '=', id);
  return notifications.where('notifiable_type', '=', 'status').$narrowType<Pick<Target, 'name'>>();
}

const subjectOf = ({ id, repository }: Pick<NotificationRow, 'id' | 'repository'>) => ({ id, name: repository });

const one = '/projects/:project_id/status_targets/:status_target_id';

export const routes = [
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/status_targets',
    access: 'users',
    scope: 'projects',
    summary: 'List the forges that get the status of commits',
    answer: listOf(statusTargetRecord),
    async handle({ db, project }) {
      return (await targetsOf(db, project).orderBy('id').execute()).map(view);
    },
  }),
  projectRoute({
    method: 'POST',
    path: '/projects/:project_id/status_targets',
    access: 'users',
    scope: 'projects',
    summary: 'Report the status of each suite on each commit to a forge; the token is never shown',
    body: fields,
    creates: 'notifications',
    answer: statusTargetRecord,
    async verify(_, { provider, repository }): Promise<FieldErrors> {
      if (provider === undefined || forgeProviders[provider].isNested || repository === undefined) return {};
      return ownerAndName.test(repository) ? {} : { repository: ['invalid_format'] };
    },
    audit: {
      action: 'status_target.created',
      details: ({ input }) => ({ repository: input.repository, ...hostOf(apiOf(input)) }),
    },
    async handle(call) {
      const { project, vault, input } = call;
      const settings = { name: input.provider, url: apiOf(input), repository: input.repository, forge_id: null };
      const secret = { vault, secret: input.token };
      return view({ ...(await createStatusTarget(writeContextOf(call), project.id, settings, secret)), ...settings });
    },
  }),
  projectRoute({
    method: 'GET',
    path: one,
    access: 'users',
    scope: 'projects',
    summary: 'Fetch a status target',
    answer: statusTargetRecord,
    load: loadTarget,
    handle: async ({ target }) => view(target),
  }),
  projectRoute({
    method: 'DELETE',
    path: one,
    access: 'users',
    scope: 'projects',
    summary: 'Delete a status target; the forge gets no more statuses',
    answer: destroyedAnswer,
    load: loadTarget,
    audit: {
      action: 'status_target.deleted',
      subject: ({ target }) => subjectOf(target),
      details: ({ target }) => hostOf(target.url),
    },
    async handle(call) {
      const context = writeContextOf(call);
      if (call.target.forge_id !== null) await checkSoon(context, call.project.id);
      await deleteNotification(context, call.target.id);
      return destroyed;
    },
  }),
  projectRoute({
    method: 'GET',
    path: `${one}/deliveries`,
    access: 'users',
    scope: 'projects',
    summary: 'List the reports to the forge, with every attempt and its answer',
    paged: true,
    answer: listOf(statusDeliveryRecord),
    load: loadTarget,
    handle: ({ db, target, page }) => deliveriesOf(db, target, page, statusIn),
  }),
];

function apiOf({ provider, api_url: url }: Pick<StatusTarget, 'provider' | 'api_url'>): string {
  return url === '' ? providers[provider].api(forgeProviders[provider].url) : url;
}
