import type { Notification } from '../../shared/records/notification.ts';
import { html, type Html } from './html.ts';
import { pageForm, type PageForm } from './forms.ts';
import { notice, type Page } from './layout.ts';
import { deliveriesPart, fewDeliveries, receiverCard } from './deliveries.ts';
import type { PageAction, PageVisit } from './pages.ts';
import { copyable, empty } from './parts.ts';
import { deletionPage, type ProjectVisit, recordHead } from './project-pages.ts';
import { settingsPage, settingsPath } from './settings.ts';
import type { PageRoute } from './site.ts';

const of = '/projects/:project_id/notifications';

const types: readonly (readonly [string, string])[] = [
  ['build', 'Builds and commits'],
  ['dependency', 'Dependencies'],
];

const typeLabel = (type: string): string => types.find(([name]) => name === type)?.[1] ?? type;

function notificationFields(form: PageForm, notification?: Notification): Html {
  return html`${form.text('options[url]', 'Address', {
    value: notification?.options.url,
    required: true,
    isCode: true,
    hint: html`What happens is sent there as JSON, signed as <em>Standard Webhooks</em> has it.`,
    wrong: 'This is no web address, or it has a name and password in it.',
  })}
  ${form.select('notifiable_type', 'Notifiable type', types, {
    value: notification?.notifiable_type,
    hint: 'What the receiver is told about.',
  })}
  ${form.hidden('name', 'webhook')}`;
}

const list = settingsPage({
  path: '/notifications',
  async show(visit) {
    const notifications = await visit.api.get(of);
    const form = pageForm(visit, 'create');
    const cards = await Promise.all(notifications.map((one) => card(visit, one)));
    return {
      title: 'Notifications',
      main: html`<h1>Notifications</h1>
        <div class="beside">
          <div>
            ${
              notifications.length === 0
                ? empty(
                    'Nobody is told yet',
                    'A notification calls a web address of yours whenever something happens: a chat, a board, a script.',
                  )
                : cards
            }
          </div>
          <section aria-labelledby="new-title">
            <h2 id="new-title">New notification</h2>
            ${form.wrap(notificationFields(form), { button: 'Create notification', isCard: true, label: 'New notification' })}
          </section>
        </div>`,
    };
  },
  actions: {
    create: { route: `POST ${of}`, done: ({ secret }, visit) => createdPage(visit, secret) },
    redeliver: redelivery('#deliveries'),
  },
});

function redelivery(fragment: string): PageAction {
  return {
    route: `POST ${of}/:notification_id/deliveries/:delivery_id/redeliver`,
    done: (_, visit) => ({ goTo: `${visit.path}${fragment}`, notice: 'sent' }),
  };
}

/** The secret cannot be shown again. */
async function createdPage(visit: PageVisit, secret: string): Promise<Page> {
  return {
    title: 'Notification created',
    project: await visit.api.get('/projects/:project_id'),
    tab: 'settings',
    main: html`<h1>Notification created</h1>
      ${notice('good', 'The secret is shown this once: copy it now.')}
      <section class="card" aria-labelledby="secret-title">
        <h2 id="secret-title">Secret</h2>
        <p>
          Every call is signed with it. The receiver checks the signature with the same secret, so that nobody else can
          pretend to be this server.
        </p>
        ${copyable(secret, 'secret')}
      </section>
      <p><a class="button main" href="${visit.path}">Go on</a></p>`,
  };
}

async function card(visit: ProjectVisit, notification: Notification): Promise<Html> {
  const { id_str: id, options, notifiable_type: type } = notification;
  const params = { notification_id: id };
  const page = await visit.api.list(`${of}/:notification_id/deliveries`, { params, query: { limit: fewDeliveries } });
  const path = `${visit.path}/${id}`;
  const receiver = { id, path, name: options.url, about: typeLabel(type), isDeletable: visit.project.owned };
  return receiverCard(receiver, page, (delivery) => pageForm(visit, 'redeliver', { ...params, delivery_id: delivery }));
}

const one = settingsPage({
  path: '/notifications/:notification_id',
  async show(visit) {
    const notification = await visit.api.get(`${of}/:notification_id`);
    const query = { before: visit.queryText('before') || undefined, after: visit.queryText('after') || undefined };
    const page = await visit.api.list(`${of}/:notification_id/deliveries`, {
      query: { limit: 50, ...query },
    });
    const form = pageForm(visit, 'save');
    return {
      title: 'Notification',
      main: html`${recordHead(visit, { back: `${settingsPath(visit)}/notifications`, all: 'All notifications', title: 'Notification', isOwners: true })}
      ${form.wrap(notificationFields(form, notification), { button: 'Save', isCard: true, label: 'Notification' })}
      ${deliveriesPart(page, visit.path, (delivery) => pageForm(visit, 'redeliver', { delivery_id: delivery }))}`,
    };
  },
  actions: {
    save: { route: `PUT ${of}/:notification_id`, done: 'saved' },
    redeliver: redelivery('#deliveries'),
  },
});

const deletion = deletionPage({
  path: '/notifications/:notification_id/delete',
  route: `DELETE ${of}/:notification_id`,
  async what(visit) {
    const { options } = await visit.api.get(`${of}/:notification_id`);
    return {
      title: 'Delete this notification?',
      goes: html`<p>
        The notification of <strong>${options.url}</strong> goes, with its secret and the record of everything that was
        sent. What waits to be sent is not sent any more.
      </p>`,
    };
  },
  back: (visit) => `${settingsPath(visit)}/notifications`,
});

export const routes: PageRoute[] = [...list, ...one, ...deletion];
