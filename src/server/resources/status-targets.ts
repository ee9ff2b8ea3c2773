import { projectRoute } from '../api/route.ts';
import type { NotificationRow } from '../db/schema.ts';
import { forgeProviders } from '../../shared/domain/forge-providers.ts';
import { providers } from '../forges/index.ts';
import { required } from '../../shared/records/fields.ts';
import { checkSoon } from '../lifecycle/forge-holds.ts';
import { createStatusTarget, deleteNotification } from '../lifecycle/notifications.ts';
import type { StatusReport } from '../lifecycle/status-reports.ts';
import { forgeToken } from '../../shared/records/forge.ts';
import {
  receiverRecord,
  statusDeliveryRecord,
  statusTargetRecord,
  targetFields,
  type StatusTarget,
} from '../../shared/records/notification.ts';
import { listOf } from '../../shared/records/schema.ts';
import { deliveriesOf, receiverOf, tryNow } from './webhook-deliveries.ts';
import { withIdString, writeContextOf } from './common.ts';
import { hostOf } from './notifications.ts';
import { byQuery, projectRecords } from './record-routes.ts';

/** Status targets are stored as notifications of a separate type. */

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

const targets = projectRecords({
  path: '/projects/:project_id/status_targets',
  name: 'status_target',
  access: 'maintainer',
  scope: 'projects',
  fields: { ...targetFields, token: required(forgeToken) },
  answer: statusTargetRecord,
  rows: ({ db, project }) =>
    byQuery(
      db
        .selectFrom('notifications')
        .selectAll()
        .where('project_id', '=', project.id)
        .where('notifiable_type', '=', 'status')
        .$narrowType<Pick<Target, 'name'>>(),
    ),
  view,
  async verify(_, { provider, repository }) {
    if (provider === undefined || forgeProviders[provider].isNested || repository === undefined) return {};
    return ownerAndName.test(repository) ? {} : { repository: ['invalid_format'] };
  },
  subject: ({ id, repository }) => ({ id, name: repository }),
});

export const routes = [
  targets.list('List the forges that get the status of commits'),
  targets.create('Report the status of each suite on each commit to a forge; the token is never shown', {
    creates: 'notifications',
    details: ({ input }) => ({ repository: input.repository, ...hostOf(apiOf(input)) }),
    async handle(call) {
      const { project, vault, input } = call;
      const settings = { name: input.provider, url: apiOf(input), repository: input.repository, forge_id: null };
      const secret = { vault, secret: input.token };
      return view({ ...(await createStatusTarget(writeContextOf(call), project.id, settings, secret)), ...settings });
    },
  }),
  targets.show('Fetch a status target'),
  targets.remove('Delete a status target; the forge gets no more statuses', {
    details: ({ status_target: target }) => hostOf(target.url),
    async handle(call) {
      const context = writeContextOf(call);
      if (call.status_target.forge_id !== null) await checkSoon(context, call.project.id);
      await deleteNotification(context, call.status_target.id);
    },
  }),
  projectRoute({
    ...targets.ofOne,
    method: 'GET',
    path: `${targets.one}/deliveries`,
    summary: 'List the reports to the forge, with every attempt and its response',
    paged: true,
    answer: listOf(statusDeliveryRecord),
    handle: ({ db, status_target: target, page }) => deliveriesOf(db, target, page, statusIn),
  }),
  projectRoute({
    ...targets.ofOne,
    method: 'GET',
    path: `${targets.one}/receiver`,
    summary: 'Whether the forge takes its reports: since when it does not, what it answered, when the next try is',
    answer: receiverRecord,
    handle: ({ db, status_target: target }) => receiverOf(db, target),
  }),
  projectRoute({
    ...targets.ofOne,
    method: 'POST',
    path: `${targets.one}/try_now`,
    summary: 'Try all waiting reports to the forge now',
    answer: receiverRecord,
    audit: 'nothing',
    handle: (call) => tryNow(call, call.status_target),
  }),
];

function apiOf({ provider, api_url: url }: Pick<StatusTarget, 'provider' | 'api_url'>): string {
  return url === '' ? providers[provider].api(forgeProviders[provider].url) : url;
}
