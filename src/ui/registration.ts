import { inBrowser, recordAudit, type Deed } from '../auth/audit.ts';
import { holdRoom } from '../api/room.ts';
import type { Transaction } from '../db/open.ts';
import { ApiError } from '../errors.ts';
import { mostRecords } from '../lib/bounds.ts';
import {
  applicationCreated,
  changesIn,
  deleteClient,
  findClient,
  insertClient,
  mistakesIn,
  renewSecret,
  updateClient,
  type Client,
  type ClientForm,
} from '../oauth/clients.ts';
import { html, type Html } from './html.ts';
import { keyField, notice, type Page } from './layout.ts';
import { fields, newPage, readForm, type Mistakes } from './registration-form.ts';
import { forPeople, notFound, type PersonVisit, type Place, type Response } from './site.ts';

/** Pages on which a user registers and manages applications. */

interface Shown {
  client: Client;
  form?: ClientForm;
  mistakes?: Mistakes;
  message?: Html;
  /** Shown only once. */
  secret?: string | undefined;
}

function clientPage(formKey: string, { client, form = client, mistakes = {}, message, secret }: Shown): Page {
  const path = `/ui/applications/${client.id}`;
  return {
    title: client.name,
    status: Object.keys(mistakes).length > 0 ? 403 : 200,
    main: html`<h1>${client.name}</h1>
      ${message}
      <section class="card" aria-label="Credentials">
        <dl>
          <dt>Client ID</dt>
          <dd><code id="client-id">${client.id}</code></dd>
          <dt>Client secret</dt>
          <dd>${secretText(client, secret)}</dd>
        </dl>
        ${!client.isPublic && renewal(path, formKey)}
      </section>
      <form method="post" action="${path}" class="card" aria-label="Name and addresses">
        ${keyField(formKey)} ${fields(form, mistakes)}
        <button class="main">Save</button>
      </form>
      <details>
        <summary class="button">Delete this application</summary>
        <div class="card">
          <p>Everything that people allowed it stops working at once. This cannot be undone.</p>
          <form method="post" action="${path}/delete">
            ${keyField(formKey)}
            <button class="danger">Delete ${client.name}</button>
          </form>
        </div>
      </details>
      <p class="back"><a href="/ui/applications">All applications</a></p>`,
  };
}

function secretText({ isPublic }: Client, secret: string | undefined): Html {
  if (isPublic) return html`None: it is public, and uses PKCE.`;
  if (secret === undefined) return html`Was shown when it was made. If it is lost, make a new one.`;
  return html`<code class="secret" id="client-secret">${secret}</code>`;
}

function renewal(path: string, formKey: string): Html {
  return html`<details>
    <summary class="button">Make a new secret</summary>
    <div class="card">
      <p>The old one stops working at once. What people allowed the application stays.</p>
      <form method="post" action="${path}/secret">
        ${keyField(formKey)}
        <button class="main">Make it</button>
      </form>
    </div>
  </details>`;
}

const tooMany = `You have ${mostRecords.oauth_clients.most} applications, and may not have more. Delete one first.`;

async function orRefused<T>(made: Promise<T>): Promise<T | undefined> {
  try {
    return await made;
  } catch (error) {
    if (error instanceof ApiError) return undefined;
    throw error;
  }
}

/** Another user's application is answered as missing. */
async function ownClient({ db, person, param }: PersonVisit): Promise<Client | undefined> {
  const client = await findClient(db.read, param('client_id'));
  return client?.ownerId === person.id ? client : undefined;
}

function ofClient(
  method: Place['method'],
  path: string,
  visitClient: (visit: PersonVisit, client: Client) => Promise<Response>,
): Place {
  return forPeople({
    method,
    path,
    async visit(visit) {
      const client = await ownClient(visit);
      return client ? visitClient(visit, client) : notFound;
    },
  });
}

/** Changes one of the user's applications, and records it in the audit log. */
function change<T>(
  { db, ids, person, address }: PersonVisit,
  deed: Deed,
  work: (trx: Transaction) => Promise<T>,
): Promise<T> {
  return db.transaction(async (trx) => {
    await recordAudit(trx, ids, inBrowser(person, address), deed);
    return work(trx);
  });
}

const shownOnce = notice('good', 'The secret is shown this once: copy it now.');

export const places: Place[] = [
  forPeople({
    method: 'GET',
    path: '/ui/applications/new',
    visit: async ({ formKey }) => newPage(formKey, { name: '', redirectUris: [] }, {}, false),
  }),
  forPeople({
    method: 'POST',
    path: '/ui/applications/new',
    async visit(visit) {
      const { db, ids, person, address, formKey } = visit;
      const form = readForm(visit);
      const isPublic = visit.formText('public') !== '';
      const mistakes = mistakesIn(form);
      if (Object.keys(mistakes).length > 0) return newPage(formKey, form, mistakes, isPublic);
      const registration = { ...form, isPublic, ownerId: person.id };
      const made = await orRefused(
        db.transaction(async (trx) => {
          const made = await insertClient(trx, ids, registration);
          await holdRoom(db, trx, 'oauth_clients', { account: person.id });
          await recordAudit(trx, ids, inBrowser(person, address), applicationCreated(made.clientId, registration));
          return made;
        }),
      );
      if (!made) return newPage(formKey, form, { name: tooMany }, isPublic);
      const { clientId, secret } = made;
      const client = await findClient(db.read, clientId);
      if (!client) return notFound;
      const message = isPublic ? notice('good', 'Registered.') : shownOnce;
      return clientPage(formKey, { client, message, secret });
    },
  }),
  ofClient('GET', '/ui/applications/:client_id', async ({ formKey }, client) => clientPage(formKey, { client })),
  ofClient('POST', '/ui/applications/:client_id', async (visit, client) => {
    const form = readForm(visit);
    const mistakes = mistakesIn(form);
    if (Object.keys(mistakes).length > 0) return clientPage(visit.formKey, { client, form, mistakes });
    const changed = changesIn(client, form);
    const deed: Deed = { action: 'application.updated', subject: client, details: { changed } };
    if (changed.length > 0) await change(visit, deed, (trx) => updateClient(trx, client, form));
    const saved = (await ownClient(visit)) ?? client;
    return clientPage(visit.formKey, { client: saved, message: notice('good', 'Saved.') });
  }),
  ofClient('POST', '/ui/applications/:client_id/secret', async (visit, client) => {
    if (client.isPublic) return notFound;
    const deed: Deed = { action: 'application.secret_renewed', subject: client };
    const secret = await change(visit, deed, (trx) => renewSecret(trx, client));
    return clientPage(visit.formKey, { client, secret, message: shownOnce });
  }),
  ofClient('POST', '/ui/applications/:client_id/delete', async (visit, client) => {
    const deed: Deed = { action: 'application.deleted', subject: client };
    await change(visit, deed, (trx) => deleteClient(trx, client));
    return { goTo: '/ui/applications', status: 303 };
  }),
];
