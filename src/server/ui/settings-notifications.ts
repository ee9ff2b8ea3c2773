import { notificationFields, optionsOfType, type Notification } from '../../shared/records/notification.ts';
import { fieldTable, wordsOf, type Choices, type NamesIn } from './controls.ts';
import { deliveriesPart, fewDeliveries, receiverCard, receiverTrouble } from './deliveries.ts';
import { pageForm, type PageForm } from './forms.ts';
import { html, type Html } from './html.ts';
import type { Page } from './layout.ts';
import type { PageAction, PageVisit } from './pages.ts';
import { beside, copyable, cursors, empty, section } from './parts.ts';
import { isOwned, type ProjectVisit } from './project-pages.ts';
import { resource, shownOnce } from './resource-pages.ts';
import { settingsPage, settingsPath } from './settings.ts';
import type { PageRoute } from './site.ts';

const of = '/projects/:project_id/notifications';

const types: Choices = [
  ['build', 'Builds and commits'],
  ['dependency', 'Dependencies'],
];

const receivers: Choices = [
  ['webhook', 'Webhook'],
  ['email', 'E-mail'],
  ['slack', 'Slack'],
  ['mattermost', 'Mattermost'],
  ['discord', 'Discord'],
  ['teams', 'Microsoft Teams'],
  ['matrix', 'Matrix'],
];

const wanted: Choices = [
  ['', 'The default of the type'],
  ['all', 'Everything'],
  ['failures', 'Failures'],
  ['changes', 'A failure after a pass, and a pass after a failure'],
];

const noAddress = 'This is no web address, or it has a name and password in it.';

const notificationForm = fieldTable(notificationFields, {
  name: { label: 'Type', choices: receivers, hint: 'A webhook gets JSON, the other types get a message for people.' },
  'options[url]': {
    label: 'Address',
    isCode: true,
    hint: html`For webhooks and chats. A webhook is signed as <em>Standard Webhooks</em> has it.`,
    wrong: noAddress,
  },
  notifiable_type: { label: 'Notifiable type', choices: types, hint: 'The records that the receiver is notified of.' },
  'options[to]': {
    label: 'Recipients',
    hint: html`For e-mail: addresses of users of the project, with commas between them, or <code>committers</code>.`,
    wrong: 'Only addresses of users of this project, or committers.',
  },
  'options[homeserver]': { label: 'Homeserver', isCode: true, wrong: noAddress },
  'options[room]': { label: 'Room', isCode: true, hint: 'Such as !abc:example.org or #builds:example.org.' },
  'options[token]': { label: 'Access token', isCode: true, hint: 'Of a user of Matrix who is in the room.' },
  on: { label: 'Send', choices: wanted, hint: 'By default, webhooks get all events. E-mail and chat get changes.' },
  branches: {
    label: 'Branches',
    rows: 2,
    hint: 'Globs, one on a line. Empty means all branches for a webhook, and the default branch for people.',
  },
});

/** A project may have many chats, so the page names the receiver without its secret. */
function placeOf({ name, options: { url, to, room } }: Notification): string {
  if (to !== undefined) return to;
  if (room !== undefined) return room;
  return name === 'webhook' ? (url ?? '') : `${wordsOf(receivers, name)} at ${URL.parse(url ?? '')?.host ?? ''}`;
}

/** Such as `E-mail: Builds and commits. Failures on main, release/*`. */
function aboutOf({ name, notifiable_type: type, on, branches }: Notification): string {
  const where = branches.length === 0 ? '' : ` on ${branches.join(', ')}`;
  const what = type === 'dependency' ? '' : `. ${wordsOf(wanted, on)}${where}`;
  return `${wordsOf(receivers, name)}: ${wordsOf(types, type)}${what}`;
}

/** A notification that exists keeps its type, so the form has the options of that type alone. */
function fields(form: PageForm<NamesIn<typeof notificationForm>>, one?: Notification): Html {
  if (one) {
    const options = optionsOfType[one.name].map((option) => `options[${option}]` as const);
    return html`${form.fields(...options, 'notifiable_type', 'on', 'branches')}`;
  }
  return html`${form.fields('name', 'options[url]', 'options[to]', 'notifiable_type', 'on', 'branches')}
    <details class="part">
      <summary>Matrix</summary>
      ${form.fields('options[homeserver]', 'options[room]', 'options[token]')}
    </details>`;
}

const redeliver: PageAction = {
  route: `POST ${of}/:notification_id/deliveries/:delivery_id/redeliver`,
  done: (_, visit) => ({ goTo: `${visit.path}#deliveries`, notice: 'sent' }),
};

const tryNow: PageAction = {
  route: `POST ${of}/:notification_id/try_now`,
  done: 'trying',
};

const list = settingsPage({
  path: '/notifications',
  async show(visit) {
    const notifications = await visit.api.get(of);
    const cards = await Promise.all(notifications.map((one) => card(visit, one)));
    const none = empty(
      'No notifications yet',
      'A notification sends e-mail, writes to a chat, or calls a web address of yours: a board, a script.',
    );
    return {
      title: 'Notifications',
      main: html`<h1>Notifications</h1>
        ${beside(html`${cards.length === 0 ? none : cards}`, section('new', 'New notification', await newForm(visit)))}`,
    };
  },
  actions: {
    create: {
      route: `POST ${of}`,
      done: ({ secret }, visit) => (secret === '' ? { goTo: visit.path, notice: 'added' } : createdPage(visit, secret)),
    },
    redeliver,
    try_now: tryNow,
  },
});

async function createdPage(visit: PageVisit, secret: string): Promise<Page> {
  const secrets = section(
    'secret',
    'Secret',
    html`<p>
        Every call is signed with it. The receiver checks the signature with the same secret, so only this server can
        make valid calls.
      </p>
      ${copyable(secret, 'secret')}`,
    { isCard: true },
  );
  return {
    ...shownOnce({ title: 'Notification created', secrets, next: visit.path }),
    project: await visit.api.get('/projects/:project_id'),
    tab: 'settings',
  };
}

async function card(visit: ProjectVisit, notification: Notification): Promise<Html> {
  const { id_str: id } = notification;
  const params = { notification_id: id };
  const page = await visit.api.list(`${of}/:notification_id/deliveries`, { params, query: { limit: fewDeliveries } });
  const path = `${visit.path}/${id}`;
  const { projectPath, project } = visit;
  const about = aboutOf(notification);
  const receiver = { id, path, name: placeOf(notification), about, isDeletable: project.owned, projectPath };
  const state = await visit.api.get(`${of}/:notification_id/receiver`, { params });
  const trouble = receiverTrouble(id, state, pageForm(visit, 'try_now', params));
  return receiverCard(receiver, page, trouble, (delivery) =>
    pageForm(visit, 'redeliver', { ...params, delivery_id: delivery }),
  );
}

const { newForm, routes: ofOne } = resource({
  noun: 'notification',
  frame: settingsPage,
  path: '/notifications/:notification_id',
  read: (visit: ProjectVisit) => visit.api.get(`${of}/:notification_id`),
  all: 'All notifications',
  back: (visit) => `${settingsPath(visit)}/notifications`,
  form: notificationForm,
  fields: (form, _, one) => fields(form, one),
  save: { route: `PUT ${of}/:notification_id`, done: 'saved' },
  actions: { redeliver, try_now: tryNow },
  above: async ({ id_str: id }, visit) =>
    receiverTrouble(id, await visit.api.get(`${of}/:notification_id/receiver`), pageForm(visit, 'try_now')),
  async below(_, visit) {
    const query = { limit: 50, ...cursors(visit) };
    const page = await visit.api.list(`${of}/:notification_id/deliveries`, { query });
    return deliveriesPart(page, visit, (delivery) => pageForm(visit, 'redeliver', { delivery_id: delivery }));
  },
  delete: `DELETE ${of}/:notification_id`,
  mayDelete: isOwned,
  goes: (one) =>
    html`<p>
      The notification of <strong>${placeOf(one)}</strong> is deleted with its secret and its deliveries. Deliveries
      that are waiting are not sent.
    </p>`,
});

export const routes: PageRoute[] = [...list, ...ofOne];
