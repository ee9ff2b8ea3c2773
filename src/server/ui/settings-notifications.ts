import { notificationFields, type Notification } from '../../shared/records/notification.ts';
import { fieldTable, wordsOf, type Choices } from './controls.ts';
import { deliveriesPart, fewDeliveries, receiverCard, receiverTrouble } from './deliveries.ts';
import { hidden, pageForm } from './forms.ts';
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

const notificationForm = fieldTable(notificationFields, {
  'options[url]': {
    label: 'Address',
    isCode: true,
    hint: html`What happens is sent there as JSON, signed as <em>Standard Webhooks</em> has it.`,
    wrong: 'This is no web address, or it has a name and password in it.',
  },
  notifiable_type: { label: 'Notifiable type', choices: types, hint: 'What the receiver is told about.' },
});

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
      'Nobody is told yet',
      'A notification calls a web address of yours whenever something happens: a chat, a board, a script.',
    );
    return {
      title: 'Notifications',
      main: html`<h1>Notifications</h1>
        ${beside(html`${cards.length === 0 ? none : cards}`, section('new', 'New notification', await newForm(visit)))}`,
    };
  },
  actions: {
    create: { route: `POST ${of}`, done: ({ secret }, visit) => createdPage(visit, secret) },
    redeliver,
    try_now: tryNow,
  },
});

async function createdPage(visit: PageVisit, secret: string): Promise<Page> {
  const secrets = section(
    'secret',
    'Secret',
    html`<p>
        Every call is signed with it. The receiver checks the signature with the same secret, so that nobody else can
        pretend to be this server.
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
  const { id_str: id, options, notifiable_type: type } = notification;
  const params = { notification_id: id };
  const page = await visit.api.list(`${of}/:notification_id/deliveries`, { params, query: { limit: fewDeliveries } });
  const path = `${visit.path}/${id}`;
  const { projectPath, project } = visit;
  const about = wordsOf(types, type);
  const receiver = { id, path, name: options.url, about, isDeletable: project.owned, projectPath };
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
  fields: (form) => html`${form.fields()} ${hidden('name', 'webhook')}`,
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
  goes: ({ options }) =>
    html`<p>
      The notification of <strong>${options.url}</strong> goes, with its secret and the record of everything that was
      sent. What waits to be sent is not sent any more.
    </p>`,
});

export const routes: PageRoute[] = [...list, ...ofOne];
