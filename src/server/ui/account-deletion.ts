import { ApiError } from '../../shared/errors.ts';
import { emptyGroup } from '../../shared/records/raw.ts';
import { deletionPath } from './account-pages.ts';
import { provesByPassword } from './confirm.ts';
import { html } from './html.ts';
import { keyField, notice, type Page } from './layout.ts';
import { forPeople, proveFirst, type PageRoute, type PersonVisit, type SiteVisit } from './site.ts';

type AccountVisit = PersonVisit & SiteVisit;

function deletionPage({ person, formKey }: AccountVisit, takesPassword: boolean, refused?: ApiError): Page {
  const isWrong = refused?.fields.password?.some((code) => code !== 'resource_temporary_unavailable') ?? false;
  const words = isWrong ? 'The password is wrong.' : (refused?.detail ?? 'Too many attempts. Try again in a while.');
  return {
    title: 'Delete your account',
    isNarrow: true,
    status: refused?.status ?? 200,
    main: html`<form method="post" action="${deletionPath}" class="card">
        ${keyField(formKey)}
        <h1>Delete your account</h1>
        ${refused && notice('bad', words)}
        <p>
          Your sessions, passkeys, tokens, API key and applications stop working at once, and you leave your
          organisations and projects. Hand over or delete your own projects first. This cannot be undone.
        </p>
        <p><strong>${person.email}</strong></p>
        ${
          takesPassword &&
          html`<input type="email" name="email" autocomplete="username" value="${person.email}" readonly hidden />
            <label for="password">Password</label>
            <input id="password" name="password" type="password" autocomplete="current-password" required />`
        }
        <button class="danger">Delete the account</button>
      </form>
      <p class="back"><a href="/ui/account">Your account</a></p>`,
  };
}

export const routes: PageRoute[] = [
  forPeople({
    method: 'GET',
    path: deletionPath,
    async visit(visit) {
      const takesPassword = await provesByPassword(visit);
      if (!takesPassword && !visit.visitor.isProven) return proveFirst(deletionPath);
      return deletionPage(visit, takesPassword);
    },
  }),
  forPeople({
    method: 'POST',
    path: deletionPath,
    async visit(visit) {
      const takesPassword = await provesByPassword(visit);
      if (!takesPassword && !visit.visitor.isProven) return proveFirst(deletionPath);
      const password = takesPassword ? visit.formText('password') : '';
      if (takesPassword && password === '') return deletionPage(visit, true, new ApiError('is_blank', 'password'));
      try {
        await visit.api.call('DELETE /account', { body: Object.assign(emptyGroup(), { password }) });
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        return deletionPage(visit, takesPassword, error);
      }
      visit.signOut();
      return { goTo: '/ui/sign-in', status: 303 };
    },
  }),
];
