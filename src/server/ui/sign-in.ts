import { inBrowser, recordAudit } from '../auth/audit.ts';
import { endSession } from '../auth/sessions.ts';
import { newChallenge } from '../auth/challenges.ts';
import { beginFlow } from '../auth/flows.ts';
import { requestOptions } from '../auth/passkeys.ts';
import { signInWithPasskey } from '../auth/second-step.ts';
import { signIn } from '../auth/sign-in.ts';
import type { Issuer } from '../oidc/issuer.ts';
import { html, type Html } from './html.ts';
import { keyField, notice, type Page } from './layout.ts';
import { goToIssuer } from './oidc.ts';
import { passkeyForm } from './passkey-form.ts';
import { secondPage } from './second.ts';
import { localPath, refusalOf, type Told } from './sign-in-words.ts';
import type { PageRoute, SiteVisit } from './site.ts';
import type { OwnServices } from './visitor.ts';

interface Shown {
  returnTo: string;
  email?: string;
  message?: string | undefined;
  isGood?: boolean;
  status?: number;
  headers?: Record<string, string>;
}

async function signInPage(visit: SiteVisit, shown: Shown): Promise<Page> {
  const { returnTo, email = '', message, isGood = false, status = 200, headers = {} } = shown;
  const { formKey, site } = visit;
  const { issuer, rules } = site;
  const passwordForm = html`<form method="post" action="/ui/sign-in">
    ${keyField(formKey)}
    <input type="hidden" name="return" value="${returnTo}" />
    <label for="email">E-mail address</label>
    <input id="email" name="email" type="email" autocomplete="username" required value="${email}" />
    <label for="password">Password</label>
    <input id="password" name="password" type="password" autocomplete="current-password" required />
    <button ${!issuer && html`class="main"`}>Sign in</button>
  </form>`;
  return {
    title: 'Sign in',
    status,
    headers,
    isNarrow: true,
    main: html`<div class="card">
      <h1>Sign in</h1>
      ${message !== undefined && notice(isGood ? 'good' : 'bad', message)}
      ${issuer && (await issuerButton(visit, issuer, returnTo))}
      ${
        rules.takesPasswords
          ? passwordForm
          : html`<details ${email !== '' && html`open`}>
              <summary>With a password from an operator&rsquo;s link</summary>
              ${passwordForm}
            </details>`
      }
      <form method="post" action="/ui/sign-in/passkey">
        ${keyField(formKey)}
        <input type="hidden" name="return" value="${returnTo}" />
        <button>Sign in with a passkey</button>
      </form>
      <p class="aside">
        ${
          rules.takesPasswords
            ? 'Forgotten the password, or invited and without one? The operator of this server can make you a link to set it.'
            : 'Passwords do not sign in here, except those set with an operator’s link.'
        }
      </p>
      ${visit.hasPublicProjects && html`<p><a href="/ui/explore">Public projects</a></p>`}
    </div>`,
  };
}

async function issuerButton({ formKey }: SiteVisit, issuer: Issuer, returnTo: string): Promise<Html> {
  const { name } = issuer.settings;
  if (!(await issuer.isThere()))
    return html`<p class="notice bad" role="status">
        ${name} does not answer at the moment. Load this page again in a while.
      </p>
      <button class="main" disabled>Sign in with ${name}</button>`;
  const query = new URLSearchParams({ return: returnTo, form_key: formKey });
  return html`<p><a class="button main" href="/ui/oidc/start?${query.toString()}">Sign in with ${name}</a></p>`;
}

/** The browser is asked on a page of its own, because its challenge is good once. */
async function passkeyPage(visit: SiteVisit, returnTo: string, told?: Told): Promise<Page> {
  const { site, formKey, origin } = visit;
  const challenge = newChallenge();
  visit.keepFlow(await beginFlow(site, { step: 'passkey', challenge, returnTo }));
  const options = requestOptions(origin, challenge);
  const fields = html`<input type="hidden" name="return" value="${returnTo}" />`;
  return {
    title: 'Sign in with a passkey',
    isNarrow: true,
    hasPasskeys: true,
    status: told?.status ?? 200,
    main: html`<div class="card">
      <h1>Sign in with a passkey</h1>
      ${told && notice('bad', told.message)}
      <p>Your browser asks which passkey to use.</p>
      ${passkeyForm({ formKey, action: '/ui/sign-in/passkey-answer', kind: 'get', options, button: 'Use a passkey', fields })}
      <p class="aside">
        <a href="/ui/sign-in?${new URLSearchParams({ return: returnTo }).toString()}">Sign in another way</a>
      </p>
    </div>`,
  };
}

function wrongPassword({ rules }: OwnServices): string {
  return rules.takesPasswords
    ? 'The e-mail address or the password is wrong.'
    : 'The e-mail address or the password is wrong, or the password was not set with an operator’s link.';
}

async function endVisit({ site, visitor: { person }, address }: SiteVisit, session: string): Promise<void> {
  const { db, ids } = site;
  await db.transaction(async (trx) => {
    if (!(await endSession(trx, session)) || !person) return;
    const subject = { id: person.id, name: person.email };
    await recordAudit(trx, ids, inBrowser(person, address), { action: 'user.signed_out', subject });
  });
}

export const routes: PageRoute[] = [
  {
    method: 'GET',
    path: '/ui/sign-in',
    async visit(visit) {
      const { visitor, site, queryText } = visit;
      const returnTo = localPath(queryText('return'));
      if (visitor.person) return { goTo: returnTo, status: 303 };
      if (visitor.isStale && site.issuer && (await site.issuer.isThere()))
        return goToIssuer(visit, site.issuer, { returnTo });
      const isSet = queryText('password') === 'set';
      return signInPage(visit, { returnTo, isGood: isSet, message: isSet ? 'Your password is set.' : undefined });
    },
  },
  {
    method: 'POST',
    path: '/ui/sign-in',
    async visit(visit) {
      const { site, visitor, address, formText } = visit;
      const [email, password, returnTo] = [formText('email'), formText('password'), localPath(formText('return'))];
      const result = await signIn(site, { email, password, address, session: visitor.session, returnTo });
      if ('asks' in result) return secondPage(visit, result.asks);
      if ('refused' in result) return signInPage(visit, { returnTo, email, ...refusalOf(result, wrongPassword(site)) });
      visit.signIn(result.session);
      return { goTo: returnTo, status: 303 };
    },
  },
  {
    method: 'POST',
    path: '/ui/sign-in/passkey',
    visit: async (visit) => passkeyPage(visit, localPath(visit.formText('return'))),
  },
  {
    method: 'POST',
    path: '/ui/sign-in/passkey-answer',
    async visit(visit) {
      const { site, visitor, formText, origin, address } = visit;
      const { flow, session } = visitor;
      visit.keepFlow(undefined);
      const result = await signInWithPasskey(site, { flow, answer: formText('answer'), origin, address, session });
      if ('refused' in result)
        return passkeyPage(
          visit,
          localPath(formText('return')),
          refusalOf(result, 'This server does not know that passkey.'),
        );
      visit.signIn(result.session);
      return { goTo: result.returnTo, status: 303 };
    },
  },
  {
    method: 'POST',
    path: '/ui/sign-out',
    async visit(visit) {
      const { visitor, signOut, formText } = visit;
      if (visitor.session !== undefined) await endVisit(visit, visitor.session);
      signOut();
      const returnTo = new URLSearchParams({ return: localPath(formText('return')) });
      return { goTo: `/ui/sign-in?${returnTo.toString()}`, status: 303 };
    },
  },
];
