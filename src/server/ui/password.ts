import { ownerOfLink } from '../auth/password-links.ts';
import { setPasswordByLink, weaknessOf } from '../auth/set-password.ts';
import { html, type Html } from './html.ts';
import { keyField, problem, type Page } from './layout.ts';
import type { Issuer } from '../oidc/issuer.ts';
import type { PageRoute } from './site.ts';

interface Shown {
  formKey: string;
  token: string;
  email: string;
  mistake?: string;
  issuer: Issuer | undefined;
}

export function newPasswordFields(mistake: string | undefined): Html {
  return html` <label for="password">New password</label>
    <p class="hint" id="hint">At least 12 characters. A few words that do not belong together do well.</p>
    <input
      id="password"
      name="password"
      type="password"
      autocomplete="new-password"
      required
      minlength="12"
      aria-describedby="hint${mistake !== undefined && ' mistake'}"
      ${mistake !== undefined && html`aria-invalid="true"`}
    />
    ${mistake !== undefined && html`<p class="mistake" id="mistake" role="alert">${mistake}</p>`}
    <label for="again">The same once more</label>
    <input id="again" name="again" type="password" autocomplete="new-password" required />`;
}

export function mistakeIn(password: string, again: string, email: string): string | undefined {
  return weaknessOf(password, email) ?? (password === again ? undefined : 'The two passwords are not the same.');
}

function passwordPage({ formKey, token, email, mistake, issuer }: Shown): Page {
  return {
    title: 'Set your password',
    isNarrow: true,
    status: mistake === undefined ? 200 : 403,
    main: html`<div class="card">
      <h1>Set your password</h1>
      <p>For the account <strong>${email}</strong>.</p>
      <form method="post" action="/ui/password">
        ${keyField(formKey)}
        <input type="hidden" name="token" value="${token}" />
        <input type="email" name="email" autocomplete="username" value="${email}" readonly hidden />
        ${newPasswordFields(mistake)}
        <button class="main">Set password</button>
      </form>
      ${
        issuer &&
        html`<p>Or sign in with ${issuer.settings.name} instead of a password, from now on:</p>
          <p>
            <a
              class="button"
              href="/ui/oidc/start?${new URLSearchParams({ link: token, form_key: formKey }).toString()}"
              >Link this account to ${issuer.settings.name}</a
            >
          </p>`
      }
    </div>`,
  };
}

const worksNoMore = problem(
  404,
  'This link works no more',
  'It was used already, it is older than a week, or a newer one took its place. The operator of this server can make another.',
);

/** The page of an operator's link for a user. Opening it does not use it up: message previews open links too. */
export const routes: PageRoute[] = [
  {
    method: 'GET',
    path: '/ui/password',
    async visit({ site, queryText, formKey }) {
      const token = queryText('token');
      const owner = await ownerOfLink(site.db.read, token);
      return owner ? passwordPage({ formKey, token, email: owner.email, issuer: site.issuer }) : worksNoMore;
    },
  },
  {
    method: 'POST',
    path: '/ui/password',
    async visit(visit) {
      const { site, formText, formKey, address } = visit;
      const [token, password] = [formText('token'), formText('password')];
      const owner = await ownerOfLink(site.db.read, token);
      if (!owner) return worksNoMore;
      const mistake = mistakeIn(password, formText('again'), owner.email);
      if (mistake !== undefined)
        return passwordPage({ formKey, token, email: owner.email, mistake, issuer: site.issuer });
      if (!(await setPasswordByLink(site, { token, password, address }))) return worksNoMore;
      return { goTo: '/ui/sign-in?password=set', status: 303 };
    },
  },
];
