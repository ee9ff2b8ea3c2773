import { inBrowser } from '../auth/audit.ts';
import { newChallenge } from '../auth/challenges.ts';
import { beginFlow, takeFlow } from '../auth/flows.ts';
import {
  addPasskey,
  askAfterPassword,
  creationOptions,
  passkeysOf,
  removePasskey,
  renamePasskey,
  type Added,
} from '../auth/passkeys.ts';
import { makeCodes } from '../auth/recovery-codes.ts';
import { longest, mostPasskeys } from '../../shared/domain/bounds.ts';
import { parseId } from '../../shared/lib/ids.ts';
import { html, type Html } from './html.ts';
import { keyField, notice, problem, type Page } from './layout.ts';
import { ago, moment } from './moments.ts';
import { passkeyForm } from './passkey-form.ts';
import {
  forPeople,
  notFound,
  proveFirst,
  type PageRoute,
  type PersonVisit,
  type Response,
  type SiteVisit,
} from './site.ts';

type AccountVisit = PersonVisit & SiteVisit;

const account = '/ui/account';
const path = `${account}/passkeys`;

/** The part of the account's page. Without scripts it can be read, and passkeys can be renamed and removed. */
export async function passkeysPart({ site, person, formKey }: AccountVisit): Promise<Html> {
  const all = await passkeysOf(site.db.read, person.id);
  const asks = person.asks_passkey === 1;
  const items = all.map(
    ({ id, name, created_at: since, last_used_at: used }) =>
      html`<li>
        <h3 id="passkey-${id}">${name}</h3>
        <p class="aside">Added on ${moment(since)}. ${used === null ? 'Never used.' : html`Last used ${ago(used)}.`}</p>
        <div class="row">
          <details>
            <summary class="button">Rename</summary>
            <form method="post" action="${path}/rename">
              ${keyField(formKey)}<input type="hidden" name="passkey_id" value="${id}" />
              <label for="name-${id}">Name</label>
              <input id="name-${id}" name="name" value="${name}" required maxlength="${longest.passkeyName}" />
              <button>Save the name</button>
            </form>
          </details>
          <form method="post" action="${path}/remove">
            ${keyField(formKey)}<input type="hidden" name="passkey_id" value="${id}" />
            <button class="danger" aria-describedby="passkey-${id}">Remove</button>
          </form>
        </div>
      </li>`,
  );
  return html`<section class="card" aria-labelledby="passkeys">
    <h2 id="passkeys">Passkeys</h2>
    <p>A passkey signs you in without a password. It stays on your device or in your password manager.</p>
    ${
      all.length > 0 &&
      html`<ul class="rows">
        ${items}
      </ul>`
    }
    <form method="post" action="${path}/new">
      ${keyField(formKey)}
      <button>Add a passkey</button>
    </form>
    ${all.length > 0 && person.password_hash !== null && afterPassword(asks, formKey)}
  </section>`;
}

function afterPassword(asks: boolean, formKey: string): Html {
  const form = (on: string, button: string) =>
    html`<form method="post" action="${account}/second">
      ${keyField(formKey)}<input type="hidden" name="on" value="${on}" />
      <button>${button}</button>
    </form>`;
  return html`<h3>After the password</h3>
    ${
      asks
        ? html`<p>Your password alone opens nothing: a passkey or a recovery code is needed too.</p>
            <div class="row">
              ${form('1', 'Make new recovery codes')} ${form('0', 'Do not ask for a passkey after the password')}
            </div>`
        : html`<p>Then your password alone opens nothing. You get ten recovery codes in case you lose your passkeys.</p>
            ${form('1', 'Ask for a passkey after the password')}`
    }`;
}

async function newPage({ site, person, formKey, origin, keepFlow }: AccountVisit, told?: string): Promise<Page> {
  const challenge = newChallenge();
  keepFlow(await beginFlow(site, { step: 'passkey', challenge, returnTo: account, userId: String(person.id) }));
  const known = await passkeysOf(site.db.read, person.id);
  return {
    title: 'Add a passkey',
    hasPasskeys: true,
    status: told === undefined ? 200 : 403,
    main: html`<h1>Add a passkey</h1>
      ${told !== undefined && notice('bad', told)}
      <div class="card">
        ${passkeyForm({
          formKey,
          action: path,
          kind: 'create',
          options: creationOptions(origin, person, known, challenge),
          button: 'Create the passkey',
          fields: html`<label for="name">Name</label>
            <p class="hint" id="name-hint">
              So that you recognize it, such as &ldquo;Laptop&rdquo; or &ldquo;Blue key&rdquo;.
            </p>
            <input
              id="name"
              name="name"
              value="Passkey ${known.length + 1}"
              required
              maxlength="${longest.passkeyName}"
              aria-describedby="name-hint"
            />`,
        })}
      </div>
      <p class="back"><a href="${account}">Your account</a></p>`,
  };
}

const refusals: Record<Exclude<Added, 'added'>, string> = {
  refused: 'Your browser’s answer does not fit. Try again.',
  known: 'This passkey is registered here already.',
  'too many': `You have ${mostPasskeys} passkeys, and may not have more. Remove one first.`,
};

async function add(visit: AccountVisit): Promise<Response> {
  const { site, person, visitor, formText, origin, address } = visit;
  const flow = await takeFlow(site, visitor.flow, 'passkey');
  if (flow?.userId !== String(person.id)) return newPage(visit, 'That took too long. Try again.');
  const name = nameIn(formText('name'));
  const by = inBrowser(person, address);
  const answered = { answer: formText('answer'), challenge: flow.challenge, address: origin };
  const added = await addPasskey(site, person, { ...answered, name, by });
  if (added !== 'added') return newPage(visit, refusals[added]);
  visit.keepFlow(undefined);
  return { goTo: `${account}?done=added#passkeys`, status: 303 };
}

function nameIn(text: string): string {
  const visible = text.replaceAll(/\p{Cc}/gu, '').trim();
  return Array.from(visible).slice(0, longest.passkeyName).join('') || 'Passkey';
}

const isNeeded = problem(
  403,
  'This passkey is needed',
  'It is your last one, and your password asks for a passkey. Add another one, or turn that off first.',
);

function codesPage(codes: readonly string[]): Page {
  return {
    title: 'Recovery codes',
    main: html`<h1>Recovery codes</h1>
      ${notice('good', 'From now on, a passkey or one of these codes is asked for after your password.')}
      <div class="card">
        <p>Each code is good once. They are shown this once: keep them where you will find them without this device.</p>
        <ul class="rows" id="recovery-codes">
          ${codes.map((code) => html`<li><code class="secret">${code}</code></li>`)}
        </ul>
      </div>
      <p class="back"><a href="${account}">Your account</a></p>`,
  };
}

async function second(visit: AccountVisit): Promise<Response> {
  const { site, person, formText, address } = visit;
  const asks = formText('on') === '1';
  const { db, ids } = site;
  const codes = await db.transaction(async (trx) => {
    const by = inBrowser(person, address);
    if (!(await askAfterPassword(trx, ids, { user: person, asks, by }))) return undefined;
    return asks ? makeCodes(trx, ids, person.id) : [];
  });
  if (!codes) return problem(403, 'No passkey', 'Add a passkey first.');
  return asks ? codesPage(codes) : { goTo: `${account}?done=saved#passkeys`, status: 303 };
}

/** Of a passkey or the whole setting: an open browser alone must not change how its user signs in. */
function afterProof(route: string, work: (visit: AccountVisit) => Promise<Response>): PageRoute {
  return forPeople({
    method: 'POST',
    path: route,
    visit: async (visit) => (visit.visitor.isProven ? work(visit) : proveFirst(account)),
  });
}

export const routes: PageRoute[] = [
  afterProof(`${path}/new`, (visit) => newPage(visit)),
  afterProof(path, add),
  afterProof(`${account}/second`, second),
  forPeople({
    method: 'POST',
    path: `${path}/rename`,
    async visit({ site, person, formText, address }) {
      const id = parseId(formText('passkey_id'));
      if (id === undefined) return notFound;
      const change = { user: person, id, by: inBrowser(person, address), name: nameIn(formText('name')) };
      await site.db.transaction((trx) => renamePasskey(trx, site.ids, change));
      return { goTo: `${account}?done=saved#passkeys`, status: 303 };
    },
  }),
  forPeople({
    method: 'POST',
    path: `${path}/remove`,
    async visit({ site, person, formText, address }) {
      const id = parseId(formText('passkey_id'));
      if (id === undefined) return notFound;
      const removal = { user: person, id, by: inBrowser(person, address) };
      const isRemoved = await site.db.transaction((trx) => removePasskey(trx, site.ids, removal));
      return isRemoved ? { goTo: `${account}?done=deleted#passkeys`, status: 303 } : isNeeded;
    },
  }),
];
