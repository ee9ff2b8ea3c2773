import { scopes } from '../http/route.ts';
import { mostRecords } from '../../shared/domain/bounds.ts';
import type { Application, Authorization, SecretApplication } from '../../shared/records/application.ts';
import { flag, lines, required, text } from '../../shared/records/fields.ts';
import { accountNavigation } from './account-pages.ts';
import { fieldTable } from './controls.ts';
import { pageForm, recordForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { notice, type Page } from './layout.ts';
import { moment } from './moments.ts';
import { page, type PageVisit } from './pages.ts';
import { counted, section } from './parts.ts';
import type { PageRoute } from './site.ts';

const path = '/ui/applications';

async function applicationsPage(visit: PageVisit, key?: string): Promise<Page> {
  const { api, person } = visit;
  const [allowed, registered] = [await api.get('/authorizations'), await api.get('/applications')];
  return {
    title: 'API key and applications',
    main: html`${accountNavigation(visit, path)}
      <h1>API key and applications</h1>
      ${
        key !== undefined &&
        html`${notice('good', 'Your new API key. It is shown this once: copy it now.')}
          <p><code class="secret" id="api-key">${key}</code></p>`
      }
      ${keySection(visit, key !== undefined || person.api_key_hash !== null)} ${allowedSection(visit, allowed)}
      ${registeredSection(registered)}`,
  };
}

function folded(summary: string, text: string, button: Html): Html {
  return html`<details>
    <summary class="button">${summary}</summary>
    <div class="card">
      <p>${text}</p>
      ${button}
    </div>
  </details>`;
}

function keySection(visit: PageVisit, hasKey: boolean): Html {
  const form = (button: string): Html => pageForm(visit, 'key').wrap(false, { button });
  return section(
    'key',
    'API key',
    html`<p>
        With your e-mail address as the user name and this key as the password, a program has everything that you have.
        It is meant for trying things out; for everything else, register an application.
      </p>
      ${
        hasKey
          ? folded('Re-create the API key', 'The key you have now stops working at once.', form('Re-create it'))
          : html`<p>You have none yet.</p>
              ${form('Create an API key')}`
      }`,
    { isCard: true },
  );
}

const sentences: Record<string, string> = scopes;

function allowedSection(visit: PageVisit, allowed: Authorization[]): Html {
  const item = ({ id_str: id, name, owner, scopes: names, created_at: since, last_used_at: used }: Authorization) =>
    html`<li>
      <h3 id="allowed-${id}">${name}</h3>
      <p class="aside">
        ${owner === null ? 'Comes with this server.' : `Registered by ${owner}.`} Allowed on ${moment(since)}.
        ${used === null ? 'Never used.' : html`Last used around ${moment(used)}.`}
      </p>
      <ul class="scopes">
        ${names.map((scope) => html`<li>${sentences[scope]}</li>`)}
      </ul>
      ${pageForm(visit, 'revoke', { authorization_id: id }).wrap(false, {
        button: 'Revoke',
        kind: 'danger',
        describedBy: `allowed-${id}`,
      })}
    </li>`;
  return section(
    'allowed',
    'Applications you allowed',
    html`${
      allowed.length === 0
        ? html`<p class="card aside">None. When you allow one to act for you, you can take it back here.</p>`
        : html`<ul class="card rows">
            ${allowed.map(item)}
          </ul>`
    }`,
  );
}

function registeredItem({ id_str: id, name, public: isPublic, redirect_uris: addresses }: Application): Html {
  return html`<li>
    <h3><a href="${path}/${id}">${name}</a></h3>
    <p class="aside">
      ${isPublic ? 'Public, without a secret.' : 'With a secret.'} Client ID <code>${id}</code>.
      ${counted(addresses.length, 'redirect address', 'redirect addresses')}.
    </p>
  </li>`;
}

function registeredSection(registered: Application[]): Html {
  return section(
    'registered',
    'Applications you registered',
    html`${
        registered.length === 0
          ? html`<p class="card aside">None. Register one to let it ask people whether it may act for them.</p>`
          : html`<ul class="card rows">
              ${registered.map(registeredItem)}
            </ul>`
      }
      <p><a href="${path}/new">Register an application</a></p>`,
  );
}

const applicationFields = {
  name: required(text('applicationName')),
  redirect_uris: required(lines({ most: 'redirectAddresses', longest: 'redirectAddress', description: '' })),
  public: flag(),
};

const applicationForm = fieldTable(applicationFields, {
  name: {
    label: 'Name',
    hint: 'People see it when they are asked whether it may act for them.',
    wrong: 'A name has only characters that can be seen.',
  },
  redirect_uris: {
    label: 'Redirect addresses',
    isCode: true,
    rows: 4,
    hint: html`One per line, exactly as the application sends them. <code>urn:ietf:wg:oauth:2.0:oob</code> shows the
      code to be copied.`,
    wrong: 'One of them is not a redirect address: it must be complete, without a fragment.',
  },
  public: {
    label: 'It cannot keep a secret: people install it, or it runs in their browser. It then uses PKCE.',
  },
});

function applicationPage(visit: PageVisit, application: Application, secret?: string): Page {
  const { id_str: id, name, public: isPublic } = application;
  const save = recordForm(visit, 'save', applicationForm, application);
  const secretText =
    secret === undefined
      ? 'Was shown when it was made. If it is lost, make a new one.'
      : html`<code class="secret" id="client-secret">${secret}</code>`;
  return {
    title: name,
    main: html`<h1>${name}</h1>
      ${secret !== undefined && notice('good', 'The secret is shown this once: copy it now.')}
      <section class="card" aria-label="Credentials">
        <dl>
          <dt>Client ID</dt>
          <dd><code id="client-id">${id}</code></dd>
          <dt>Client secret</dt>
          <dd>${isPublic ? 'None: it is public, and uses PKCE.' : secretText}</dd>
        </dl>
        ${
          !isPublic &&
          folded(
            'Make a new secret',
            'The old one stops working at once. What people allowed the application stays.',
            pageForm(visit, 'secret').wrap(false, { button: 'Make it' }),
          )
        }
      </section>
      ${save.wrap(save.fields('name', 'redirect_uris'), { button: 'Save', isCard: true, label: 'Name and addresses' })}
      ${folded(
        'Delete this application',
        'Everything that people allowed it stops working at once. This cannot be undone.',
        pageForm(visit, 'delete').wrap(false, { button: `Delete ${name}`, kind: 'danger' }),
      )}
      <p class="back"><a href="${path}">All applications</a></p>`,
  };
}

const tooMany = `You have ${mostRecords.oauth_clients.most} applications, and may not have more. Delete one first.`;

const withSecret = (made: SecretApplication, visit: PageVisit): Page =>
  applicationPage(Object.assign(visit, { path: `${path}/${made.id_str}` }), made, made.client_secret);

export const routes: PageRoute[] = [
  ...page({
    path,
    showsSecrets: true,
    show: (visit) => applicationsPage(visit),
    actions: {
      key: {
        route: 'POST /api_key',
        done: ({ api_key: key }, visit) => applicationsPage(visit, key),
        makesCredentials: true,
      },
      revoke: {
        route: 'DELETE /authorizations/:authorization_id',
        done: () => ({ goTo: path, notice: 'revoked' }),
      },
    },
  }),
  ...page({
    path: `${path}/new`,
    makesCredentials: true,
    async show(visit) {
      const form = recordForm(visit, 'register', applicationForm);
      return {
        title: 'Register an application',
        main: html`<h1>Register an application</h1>
          ${form.wrap(form.fields(), { button: 'Register', isCard: true })}`,
      };
    },
    actions: {
      register: {
        route: 'POST /applications',
        done: withSecret,
        refusals: { is_reserved: tooMany },
        makesCredentials: true,
      },
    },
  }),
  ...page({
    path: `${path}/:application_id`,
    showsSecrets: true,
    show: async (visit) => applicationPage(visit, await visit.api.get('/applications/:application_id')),
    actions: {
      save: {
        route: 'PUT /applications/:application_id',
        done: 'saved',
      },
      secret: { route: 'POST /applications/:application_id/new_secret', done: withSecret, makesCredentials: true },
      delete: {
        route: 'DELETE /applications/:application_id',
        done: () => ({ goTo: path, notice: 'deleted' }),
      },
    },
  }),
];
