import { randomBytes } from 'node:crypto';
import { projectRoute } from '../api/route.ts';
import type { Queries } from '../db/open.ts';
import type { NotificationRow } from '../db/schema.ts';
import { changeNotification, createNotification, deleteNotification } from '../lifecycle/notifications.ts';
import { columnsOf, valuesIn, type ColumnsOf } from '../../shared/records/fields.ts';
import {
  createdNotificationRecord,
  notificationFields,
  notificationOptions,
  notificationRecord,
  webhookFields,
} from '../../shared/records/notification.ts';
import { listOf } from '../../shared/records/schema.ts';
import { destroyed, destroyedAnswer, writeContextOf, orNotFound, withIdString, type InProject } from './common.ts';

type Webhook = NotificationRow & ColumnsOf<typeof notificationFields>;

function ownView(notification: Webhook) {
  const options = valuesIn(notificationOptions, notification);
  return { ...withIdString('id', notification.id), ...valuesIn(webhookFields, notification), options };
}

function view(notification: Webhook) {
  return { ...ownView(notification), ...withIdString('project_id', notification.project_id) };
}

export async function loadNotification(call: InProject<'notification_id'>): Promise<{ notification: Webhook }> {
  const query = webhooksOf(call.db, call.project).where('id', '=', call.params.notification_id);
  return { notification: orNotFound(await query.executeTakeFirst()) };
}

/** Without forges, which are another resource (status-targets.ts). */
function webhooksOf(db: Queries, { id }: { id: bigint }) {
  const notifications = db.selectFrom('notifications').selectAll().where('project_id', '=', id);
  return notifications.where('notifiable_type', '!=', 'status').$narrowType<ColumnsOf<typeof notificationFields>>();
}

/** The audit log gets only the host: many receivers have a secret in the path. */
export const hostOf = (url: string): { host: string } => ({ host: new URL(url).host });

/** In the form of the Standard Webhooks libraries. */
function randomWebhookSecret(): string {
  return `whsec_${randomBytes(32).toString('base64')}`;
}

export const routes = [
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/notifications',
    access: 'both',
    scope: 'notifications',
    summary: 'List the notifications of a project',
    answer: listOf(notificationRecord),
    async handle({ db, project }) {
      return (await webhooksOf(db, project).orderBy('id').execute()).map(view);
    },
  }),
  projectRoute({
    method: 'POST',
    path: '/projects/:project_id/notifications',
    access: 'both',
    scope: 'notifications',
    summary: 'Create a webhook for events of the project; only this answer has the secret that signs the calls',
    body: notificationFields,
    creates: 'notifications',
    answer: createdNotificationRecord,
    audit: { action: 'notification.created', details: ({ input }) => hostOf(input['options[url]']) },
    async handle(call) {
      const { project, vault, input } = call;
      const secret = randomWebhookSecret();
      const settings = columnsOf(notificationFields, input);
      const notification = await createNotification(writeContextOf(call), project.id, settings, { vault, secret });
      return { ...ownView({ ...notification, ...settings }), secret };
    },
  }),
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/notifications/:notification_id',
    access: 'both',
    scope: 'notifications',
    summary: 'Fetch a notification',
    answer: notificationRecord,
    load: loadNotification,
    handle: async ({ notification }) => view(notification),
  }),
  projectRoute({
    method: 'PUT',
    path: '/projects/:project_id/notifications/:notification_id',
    access: 'both',
    scope: 'notifications',
    summary: 'Change a notification; its secret stays',
    body: notificationFields,
    answer: notificationRecord,
    load: loadNotification,
    audit: {
      action: 'notification.updated',
      subject: ({ notification }) => notification,
      details: ({ notification, input }) => hostOf(input['options[url]'] ?? notification.url),
    },
    async handle(call) {
      const { notification, input } = call;
      const changed = columnsOf(notificationFields, input);
      await changeNotification(writeContextOf(call), notification, changed);
      return view({ ...notification, ...changed });
    },
  }),
  projectRoute({
    method: 'DELETE',
    path: '/projects/:project_id/notifications/:notification_id',
    access: 'users',
    scope: 'notifications',
    summary: 'Delete a notification; nothing more is sent',
    answer: destroyedAnswer,
    load: loadNotification,
    audit: {
      action: 'notification.deleted',
      subject: ({ notification }) => notification,
      details: ({ notification }) => hostOf(notification.url),
    },
    async handle(call) {
      await deleteNotification(writeContextOf(call), call.notification.id);
      return destroyed;
    },
  }),
];
