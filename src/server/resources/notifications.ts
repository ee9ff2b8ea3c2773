import type { Facts } from '../auth/audit.ts';
import type { VisibleProject } from '../auth/projects.ts';
import type { Queries } from '../db/open.ts';
import { sealedLocation, type NotificationRow } from '../db/schema.ts';
import type { FieldErrors } from '../../shared/errors.ts';
import type { Vault } from '../../shared/lib/vault.ts';
import { usersOfProject } from '../lifecycle/project-users.ts';
import { changeNotification, createNotification, deleteNotification } from '../lifecycle/notifications.ts';
import { columnsOf, valuesIn, type ColumnsOf, type ValuesOf } from '../../shared/records/fields.ts';
import {
  checkOptions,
  createdNotificationRecord,
  newsFields,
  notificationFields,
  notificationRecord,
  optionsAfter,
  wantedBy,
  type Options,
  type ReceiverType,
} from '../../shared/records/notification.ts';
import { randomSecret, withIdString, writeContextOf } from './common.ts';
import { byQuery, projectRecords } from './record-routes.ts';

type Stored = NotificationRow & ColumnsOf<typeof newsFields>;

/** The options of chats are sealed: who has such an address can write there. */
const isSealed = ({ name }: Pick<Stored, 'name'>): boolean => name !== 'webhook' && name !== 'email';

function optionsOf(notification: Stored, vault: Vault): Options {
  const { id, name, url, secret } = notification;
  if (name === 'email') return { to: url };
  if (!isSealed(notification)) return { url };
  return JSON.parse(vault.open(secret, sealedLocation({ table: 'notifications', column: 'secret' }, id))) as Options;
}

/** The columns for options: an address in clear, or all of them sealed. */
function stored(name: ReceiverType, options: Options): { url: string; secret?: string } {
  if (isSealed({ name })) return { url: '', secret: JSON.stringify(options) };
  return { url: options.url ?? options.to ?? '' };
}

function ownView(notification: Stored, options: Options) {
  const { name, ...chosen } = valuesIn(newsFields, notification);
  return { ...withIdString('id', notification.id), name, options, ...chosen, on: wantedBy(notification) };
}

function view(notification: Stored, options: Options) {
  return { ...ownView(notification, options), ...withIdString('project_id', notification.project_id) };
}

const withoutSecrets = (options: Options): Options =>
  Object.fromEntries(
    Object.entries(options).map(([name, value]) => [name, ['url', 'token'].includes(name) ? '' : value]),
  );

/** Only users of the project get e-mail, and only builds are told to people. */
async function verify(
  { db, project, vault }: { db: Queries; project: Pick<VisibleProject, 'id'>; vault: Vault },
  sent: Partial<ValuesOf<typeof notificationFields>>,
  row?: Stored,
): Promise<FieldErrors> {
  const { name: type = row?.name ?? 'webhook', notifiable_type: about = row?.notifiable_type } = sent;
  if (row && row.name !== type) return { name: ['invalid_format'] };
  const errors = checkOptions(type, sent, row && optionsOf(row, vault));
  if (type !== 'webhook' && about === 'dependency') errors.notifiable_type = ['invalid_format'];
  const { 'options[to]': to = '' } = sent;
  if (type !== 'email' || to === '' || to === 'committers') return errors;
  const addresses = to.split(', ');
  const users = usersOfProject(db, project.id).select('email').where('email', 'in', addresses);
  if ((await users.execute()).length < addresses.length) errors['options[to]'] = ['invalid_format'];
  return errors;
}

/** The audit log gets only the host: many receivers have a secret in the path. */
export const hostOf = (url: string): { host: string } => ({ host: new URL(url).host });
const receiverOf = ({ url = '', homeserver = '', to }: Options): Facts =>
  to === undefined ? hostOf(url || homeserver) : { to };

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
        .$narrowType<ColumnsOf<typeof newsFields>>(),
    ),
  /** Such an address lets anybody write there, and a token even more. */
  view(row, { vault, project }) {
    const shown = view(row, optionsOf(row, vault));
    return project.role === 'viewer' ? { ...shown, options: withoutSecrets(shown.options) } : shown;
  },
  verify,
});

export const routes = [
  notifications.list('List the notifications of a project'),
  notifications.create(
    'Create a notification of builds: a webhook, e-mail or a chat. Only this response has the secret that signs a webhook’s ' +
      'calls',
    {
      creates: 'notifications',
      answer: createdNotificationRecord,
      details: ({ input }) => ({ type: input.name, ...receiverOf(optionsAfter(input.name, input)) }),
      async handle(call) {
        const { project, vault, input, caller } = call;
        const options = optionsAfter(input.name, input);
        const signing = input.name === 'webhook' ? randomSecret() : '';
        const { secret = signing, ...place } = stored(input.name, options);
        const settings = { ...columnsOf(newsFields, input), ...place };
        const pingTo = options.to === 'committers' ? [caller.email] : (options.to?.split(', ') ?? []);
        const made = await createNotification(writeContextOf(call), project.id, settings, { vault, secret, pingTo });
        return { ...ownView({ ...made, ...settings }, options), secret: signing };
      },
    },
  ),
  notifications.show('Fetch a notification'),
  notifications.change('Change a notification; its type and the secret of a webhook stay', {
    details: ({ notification, input, vault }) =>
      receiverOf(optionsAfter(notification.name, input, optionsOf(notification, vault))),
    async handle(call) {
      const { notification, input, vault } = call;
      const options = optionsAfter(notification.name, input, optionsOf(notification, vault));
      const { secret, ...place } = stored(notification.name, options);
      const changed = { ...columnsOf(newsFields, input), ...place };
      await changeNotification(writeContextOf(call), notification, changed, { vault, secret });
      return view({ ...notification, ...changed }, options);
    },
  }),
  notifications.remove('Delete a notification; nothing further is sent', {
    access: 'maintainer',
    details: ({ notification, vault }) => receiverOf(optionsOf(notification, vault)),
    handle: (call) => deleteNotification(writeContextOf(call), call.notification.id),
  }),
];
