import { accountNavigation } from './account-pages.ts';
import { changePassword } from '../auth/set-password.ts';
import { forgesPart } from './forges.ts';
import { html, type Html } from './html.ts';
import { keyField, notice, type Page } from './layout.ts';
import { mistakeIn, newPasswordFields } from './password.ts';
import { waitFor } from './sign-in.ts';
import { forPeople, type PersonVisit, type PageRoute } from './site.ts';

interface Shown {
  message?: Html;
  mistake?: string | undefined;
  status?: number;
  headers?: Record<string, string>;
}

async function accountPage(visit: PersonVisit, { message, mistake, status, headers }: Shown = {}): Promise<Page> {
  const { person, formKey } = visit;
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
      ${person.kind === 'user' && person.billing === 'ok' && (await forgesPart(visit))}
      <form method="post" action="/ui/account/password" class="card" aria-labelledby="change">
        ${keyField(formKey)}
        <h2 id="change">Change your password</h2>
        <p>You stay signed in here, and are signed out everywhere else.</p>
        <input type="email" name="email" autocomplete="username" value="${person.email}" readonly hidden />
        <label for="current">Current password</label>
        <input id="current" name="current" type="password" autocomplete="current-password" required />
        ${newPasswordFields(mistake)}
        <button class="main">Change password</button>
      </form>`,
  };
}

export const routes: PageRoute[] = [
  forPeople({
    method: 'GET',
    path: '/ui/account',
    visit: async (visit) =>
      accountPage(
        visit,
        visit.queryText('password') === 'set' ? { message: notice('good', 'Your password is set.') } : {},
      ),
  }),
  forPeople({
    method: 'POST',
    path: '/ui/account/password',
    async visit(visit) {
      const { site, person, formText, address } = visit;
      const [current, password] = [formText('current'), formText('password')];
      const mistake = mistakeIn(password, formText('again'), person.email);
      if (mistake !== undefined) return accountPage(visit, { mistake, status: 403 });
      const changed = await changePassword(site, person, { current, password, address });
      if ('session' in changed) {
        visit.signIn(changed.session);
        return { goTo: '/ui/account?password=set', status: 303 };
      }
      const refusal =
        changed.refused === 'wait'
          ? waitFor(changed.seconds)
          : { status: 403, message: 'The current password is wrong.' };
      return accountPage(visit, { ...refusal, message: notice('bad', refusal.message) });
    },
  }),
];
