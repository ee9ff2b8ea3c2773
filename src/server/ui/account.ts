import { emptyGroup } from '../../shared/records/raw.ts';
import { accountNavigation, deletionPath } from './account-pages.ts';
import { changePassword } from '../auth/set-password.ts';
import { forgesPart } from './forges.ts';
import { html, type Html } from './html.ts';
import { keyField, notice, type Page } from './layout.ts';
import { noticeNamed } from './notices.ts';
import { mistakeIn, newPasswordFields } from './password.ts';
import { passkeysPart } from './passkeys.ts';
import { refusalOf } from './sign-in-words.ts';
import { forPeople, notFound, type PersonVisit, type PageRoute, type SiteVisit } from './site.ts';

interface Shown {
  message?: Html;
  mistake?: string | undefined;
  status?: number;
  headers?: Record<string, string>;
}

export async function accountPage(
  visit: PersonVisit & SiteVisit,
  { message, mistake, status, headers }: Shown = {},
): Promise<Page> {
  const { person } = visit;
  const kind = person.kind === 'collaborator' ? 'You work on projects that others own.' : 'You can own projects.';
  return {
    title: 'Your account',
    status: status ?? 200,
    headers: headers ?? {},
    main: html`${accountNavigation(visit, '/ui/account')}
      <h1>Your account</h1>
      ${message}
      <section class="card" aria-label="Account">
        <p><strong>${person.email}</strong></p>
        <p class="aside">${kind}</p>
      </section>
      ${person.kind === 'user' && person.billing === 'ok' && (await forgesPart(visit))} ${await passkeysPart(visit)}
      ${hasPassword(visit) ? passwordForm(visit, mistake) : signsInBy(visit)} ${await newsForm(visit)}
      <section class="card" aria-labelledby="leave">
        <h2 id="leave">Delete your account</h2>
        <p>Everything that signs you in is deleted. This cannot be undone.</p>
        <p><a class="button" href="${deletionPath}">Delete your account</a></p>
      </section>`,
  };
}

/** A password that signs in. */
export function hasPassword({ person, site }: PersonVisit & SiteVisit): boolean {
  return person.password_hash !== null && (site.rules.takesPasswords || person.password_by_link === 1);
}

/** Where passwords do not sign in, only an operator's link sets one. */
function passwordForm({ site, person, formKey }: PersonVisit & SiteVisit, mistake: string | undefined): Html | false {
  if (!site.rules.takesPasswords) return false;
  return html`<form method="post" action="/ui/account/password" class="card" aria-labelledby="change">
    ${keyField(formKey)}
    <h2 id="change">Change your password</h2>
    <p>You stay signed in here, and are signed out everywhere else.</p>
    <input type="email" name="email" autocomplete="username" value="${person.email}" readonly hidden />
    <label for="current">Current password</label>
    <input id="current" name="current" type="password" autocomplete="current-password" required />
    ${newPasswordFields(mistake)}
    <button class="main">Change password</button>
  </form>`;
}

async function newsForm({ api, formKey }: PersonVisit): Promise<Html> {
  const { by_email: isOn } = await api.get('/account/news');
  return html`<form method="post" action="/ui/account/news" class="card" aria-labelledby="news">
    ${keyField(formKey)}
    <h2 id="news">E-mail</h2>
    <div class="field">
      <label class="check" for="by-email">
        <input
          type="checkbox"
          id="by-email"
          name="by_email"
          value="true"
          aria-describedby="by-email-hint"
          ${isOn && html`checked`}
        />
        <span>News by e-mail</span>
      </label>
      <p class="hint" id="by-email-hint">Notifications of projects may send you e-mail about their builds.</p>
    </div>
    <button>Save</button>
  </form>`;
}

function signsInBy({ site: { issuer } }: SiteVisit): Html | false {
  return (
    issuer !== undefined &&
    html`<section class="card" aria-label="Sign-in"><p>You sign in with ${issuer.settings.name}.</p></section>`
  );
}

export const routes: PageRoute[] = [
  forPeople({
    method: 'POST',
    path: '/ui/account/news',
    async visit({ api, formText }) {
      const takes = formText('by_email') === 'true';
      await api.call('PUT /account/news', { body: Object.assign(emptyGroup(), { by_email: String(takes) }) });
      return { goTo: '/ui/account?done=saved#news', status: 303 };
    },
  }),
  forPeople({
    method: 'GET',
    path: '/ui/account',
    async visit(visit) {
      const isSet = visit.queryText('password') === 'set';
      const text = isSet ? 'Your password is set.' : noticeNamed(visit.queryText('done'));
      return accountPage(visit, text === undefined ? {} : { message: notice('good', text) });
    },
  }),
  forPeople({
    method: 'POST',
    path: '/ui/account/password',
    async visit(visit) {
      const { site, person, formText, address } = visit;
      if (!site.rules.takesPasswords) return notFound;
      const [current, password] = [formText('current'), formText('password')];
      const mistake = mistakeIn(password, formText('again'), person.email);
      if (mistake !== undefined) return accountPage(visit, { mistake, status: 403 });
      const changed = await changePassword(site, person, { current, password, address });
      if ('session' in changed) {
        visit.signIn(changed.session);
        return { goTo: '/ui/account?password=set', status: 303 };
      }
      const refusal = {
        ...refusalOf(changed, 'The current password is wrong.'),
        ...(changed.refused === 'wrong' && { status: 403 }),
      };
      return accountPage(visit, { ...refusal, message: notice('bad', refusal.message) });
    },
  }),
];
