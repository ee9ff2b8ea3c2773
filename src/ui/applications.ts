import { inBrowser, recordAudit } from '../auth/audit.ts';
import { renewApiKey } from '../auth/users.ts';
import { scopes } from '../http/route.ts';
import { parseId } from '../lib/ids.ts';
import { allowedBy, revoke, type AllowedApplication } from '../oauth/allowed.ts';
import { clientsOf, type Client } from '../oauth/clients.ts';
import { html, type Html } from './html.ts';
import { keyField, notice, type Page } from './layout.ts';
import { moment } from './moments.ts';
import { forPeople, notFound, type PersonVisit, type Place } from './site.ts';

/**
 * Everything that acts for a user: the API key, the applications that the user allowed, and those that the user
 * registered.
 */
async function applicationsPage({ db, person, formKey }: PersonVisit, message?: Html): Promise<Page> {
  const [allowed, registered] = [await allowedBy(db.read, person.id), await clientsOf(db.read, person.id)];
  return {
    title: 'Applications',
    main: html`<h1>Applications</h1>
      ${message} ${keySection(person.api_key_hash !== null, formKey)} ${allowedSection(allowed, formKey)}
      ${registeredSection(registered)}`,
  };
}

function keySection(hasKey: boolean, formKey: string): Html {
  const form = (label: string): Html =>
    html`<form method="post" action="/ui/applications/key">
      ${keyField(formKey)}
      <button class="main">${label}</button>
    </form>`;
  return html`<section class="card" aria-labelledby="key">
    <h2 id="key">API key</h2>
    <p>
      With your e-mail address as the user name and this key as the password, a program has everything that you have. It
      is meant for trying things out; for everything else, register an application.
    </p>
    ${
      hasKey
        ? html`<details>
            <summary class="button">Re-create the API key</summary>
            <div class="card">
              <p>The key you have now stops working at once.</p>
              ${form('Re-create it')}
            </div>
          </details>`
        : html`<p>You have none yet.</p>
            ${form('Create an API key')}`
    }
  </section>`;
}

function allowedSection(allowed: AllowedApplication[], formKey: string): Html {
  const item = ({ clientId, name, owner, scopes: names, since, lastUsedAt }: AllowedApplication): Html =>
    html`<li>
      <h3>${name}</h3>
      <p class="aside">
        ${owner === null ? 'Comes with this server.' : `Registered by ${owner}.`} Allowed on ${moment(since)}.
        ${lastUsedAt === null ? 'Never used.' : html`Last used around ${moment(lastUsedAt)}.`}
      </p>
      <ul class="scopes">
        ${names.map((scope) => html`<li>${scopes[scope]}</li>`)}
      </ul>
      <form method="post" action="/ui/applications/allowed/${clientId}/revoke">
        ${keyField(formKey)}
        <button class="danger quiet" aria-label="Revoke ${name}">Revoke</button>
      </form>
    </li>`;
  return html`<section aria-labelledby="allowed">
    <h2 id="allowed">Applications you allowed</h2>
    ${
      allowed.length === 0
        ? html`<p class="card aside">None. When you allow one to act for you, you can take it back here.</p>`
        : html`<ul class="card rows">
            ${allowed.map(item)}
          </ul>`
    }
  </section>`;
}

function registeredItem({ id, name, isPublic, redirectUris }: Client): Html {
  return html`<li>
    <h3><a href="/ui/applications/${id}">${name}</a></h3>
    <p class="aside">
      ${isPublic ? 'Public, without a secret.' : 'With a secret.'} Client ID <code>${id}</code>. ${redirectUris.length}
      redirect ${redirectUris.length === 1 ? 'address' : 'addresses'}.
    </p>
  </li>`;
}

function registeredSection(clients: Client[]): Html {
  return html`<section aria-labelledby="registered">
    <h2 id="registered">Applications you registered</h2>
    ${
      clients.length === 0
        ? html`<p class="card aside">None. Register one to let it ask people whether it may act for them.</p>`
        : html`<ul class="card rows">
            ${clients.map(registeredItem)}
          </ul>`
    }
    <p><a href="/ui/applications/new">Register an application</a></p>
  </section>`;
}

export const places: Place[] = [
  forPeople({ method: 'GET', path: '/ui/applications', visit: (visit) => applicationsPage(visit) }),
  forPeople({
    method: 'POST',
    path: '/ui/applications/key',
    async visit(visit) {
      const { db, ids, person, address } = visit;
      const key = await db.transaction(async (trx) => {
        const subject = { id: person.id, name: person.email };
        await recordAudit(trx, ids, inBrowser(person, address), { action: 'user.api_key_renewed', subject });
        return renewApiKey(trx, person.email);
      });
      const shown = notice('good', html`Your new API key. It is shown this once: copy it now.`);
      const message = html`${shown}
        <p><code class="secret" id="api-key">${key}</code></p>`;
      return applicationsPage({ ...visit, person: { ...person, api_key_hash: '' } }, message);
    },
  }),
  forPeople({
    method: 'POST',
    path: '/ui/applications/allowed/:client_id/revoke',
    async visit(visit) {
      const clientId = parseId(visit.param('client_id'));
      if (clientId === undefined) return notFound;
      await revoke(visit, visit.person, clientId);
      return applicationsPage(visit, notice('good', 'It can no longer act for you.'));
    },
  }),
];
