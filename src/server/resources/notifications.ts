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
import { randomSecret, withIdString, writeContextOf } from './common.ts';
import { byQuery, projectRecords } from './record-routes.ts';

type Webhook = NotificationRow & ColumnsOf<typeof notificationFields>;

function ownView(notification: Webhook) {
  const options = valuesIn(notificationOptions, notification);
  return { ...withIdString('id', notification.id), ...valuesIn(webhookFields, notification), options };
}

function view(notification: Webhook) {
  return { ...ownView(notification), ...withIdString('project_id', notification.project_id) };
}

/** The audit log gets only the host: many receivers have a secret in the path. */
export const hostOf = (url: string): { host: string } => ({ host: new URL(url).host });

export const notifications = projectRecords({
  path: '/projects/:project_id/notifications',
  name: 'notification',
  access: 'developer',
  reads: 'viewer',
  scope: 'notifications',
  fields: notificationFields,
  answer: notificationRecord,
  /** Excludes commit statuses, which are another resource (status-targets.ts). */
  rows: ({ db, project }) =>
    byQuery(
      db
        .selectFrom('notifications')
        .selectAll()
        .where('project_id', '=', project.id)
        .where('notifiable_type', '!=', 'status')
        .$narrowType<ColumnsOf<typeof notificationFields>>(),
    ),
  /** Many receivers have a secret in their address. */
  view(notification, { project }) {
    const shown = view(notification);
    return project.role === 'viewer' ? { ...shown, options: { ...shown.options, url: '' } } : shown;
  },
});

export const routes = [
  notifications.list('List the notifications of a project'),
  notifications.create(
    'Create a webhook for events of the project; only this response has the secret that signs the calls',
    {
      creates: 'notifications',
      answer: createdNotificationRecord,
      details: ({ input }) => hostOf(input['options[url]']),
      async handle(call) {
        const { project, vault, input } = call;
        const secret = randomSecret();
        const settings = columnsOf(notificationFields, input);
        const notification = await createNotification(writeContextOf(call), project.id, settings, { vault, secret });
        return { ...ownView({ ...notification, ...settings }), secret };
      },
    },
  ),
  notifications.show('Fetch a notification'),
  notifications.change('Change a notification; its secret stays', {
    details: ({ notification, input }) => hostOf(input['options[url]'] ?? notification.url),
    async handle(call) {
      const { notification, input } = call;
      const changed = columnsOf(notificationFields, input);
      await changeNotification(writeContextOf(call), notification, changed);
      return view({ ...notification, ...changed });
    },
  }),
  notifications.remove('Delete a notification; nothing further is sent', {
    access: 'maintainer',
    details: ({ notification }) => hostOf(notification.url),
    handle: (call) => deleteNotification(writeContextOf(call), call.notification.id),
  }),
];
