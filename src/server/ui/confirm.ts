import { newChallenge } from '../auth/challenges.ts';
import { beginFlow, takeFlow } from '../auth/flows.ts';
import { passkeysOf, requestOptions, usePasskey } from '../auth/passkeys.ts';
import { proveSession } from '../auth/sessions.ts';
import { checkPassword } from '../auth/set-password.ts';
import { hasPassword } from './account.ts';
import { html, type Html } from './html.ts';
import { keyField, notice, type Page } from './layout.ts';
import { passkeyForm } from './passkey-form.ts';
import { localPath, refusalOf, type Told } from './sign-in-words.ts';
import { forPeople, type PageRoute, type PersonVisit, type Response, type SiteVisit } from './site.ts';

type ConfirmVisit = PersonVisit & SiteVisit;

const path = '/ui/confirm';

/** The password is the only proof: there is no passkey, and no sign-in at an issuer is needed. */
export async function provesByPassword(visit: ConfirmVisit): Promise<boolean> {
  return hasPassword(visit) && (await passkeysOf(visit.site.db.read, visit.person.id)).length === 0;
}

/** Asks for the passkey or the password again. A user with neither signs in at the issuer again. */
async function confirmPage(visit: ConfirmVisit, returnTo: string, told?: Told): Promise<Page> {
  const { site, person, formKey, origin } = visit;
  const passkeys = await passkeysOf(site.db.read, person.id);
  const back = html`<input type="hidden" name="return" value="${returnTo}" />`;
  const parts: (Html | false)[] = [];
  if (passkeys.length > 0) {
    const challenge = newChallenge();
    visit.keepFlow(await beginFlow(site, { step: 'passkey', challenge, returnTo, userId: String(person.id) }));
    const options = requestOptions(origin, challenge, passkeys);
    parts.push(passkeyForm({ formKey, action: path, kind: 'get', options, button: 'Use a passkey', fields: back }));
  }
  if (hasPassword(visit))
    parts.push(
      html`<form method="post" action="${path}">
        ${keyField(formKey)}${back}
        <input type="email" name="email" autocomplete="username" value="${person.email}" readonly hidden />
        <label for="password">Password</label>
        <input id="password" name="password" type="password" autocomplete="current-password" required />
        <button ${passkeys.length === 0 && html`class="main"`}>Confirm</button>
      </form>`,
    );
  if (parts.length === 0 && site.issuer) {
    const query = new URLSearchParams({ return: returnTo, form_key: formKey, confirms: '1' });
    parts.push(
      html`<p>
        <a class="button main" href="/ui/oidc/start?${query.toString()}"
          >Sign in with ${site.issuer.settings.name} again</a
        >
      </p>`,
    );
  }
  return {
    title: 'Is it you?',
    isNarrow: true,
    hasPasskeys: passkeys.length > 0,
    status: told?.status ?? 200,
    headers: told?.headers ?? {},
    main: html`<div class="card">
      <h1>Is it you?</h1>
      ${told && notice('bad', told.message)}
      <p>
        You signed in more than 15 minutes ago. Before you make or change credentials, or delete your account, show
        again who you are.
      </p>
      ${parts}
      <p class="aside"><a href="${returnTo}">Cancel</a></p>
    </div>`,
  };
}

async function confirm(visit: ConfirmVisit): Promise<Response> {
  const { site, person, visitor, formText, address, origin } = visit;
  const returnTo = localPath(formText('return'));
  const answer = formText('answer');
  let isProven = false;
  if (answer === '' && hasPassword(visit)) {
    const refusal = await checkPassword(site, person, { password: formText('password'), address });
    if (refusal) return confirmPage(visit, returnTo, refusalOf(refusal, 'The password is wrong.'));
    isProven = true;
  } else {
    const flow = await takeFlow(site, visitor.flow, 'passkey');
    const isOwn = flow?.userId === String(person.id);
    const used =
      isOwn && (await usePasskey(site.db, { answer, challenge: flow.challenge, address: origin }, person.id));
    isProven = used !== false && used !== undefined;
  }
  const { session } = visitor;
  if (!isProven || session === undefined)
    return confirmPage(visit, returnTo, { status: 401, message: 'That passkey is not one of this account.' });
  visit.keepFlow(undefined);
  await site.db.transaction((trx) => proveSession(trx, session));
  return { goTo: returnTo, status: 303 };
}

export const routes: PageRoute[] = [
  forPeople({
    method: 'GET',
    path,
    async visit(visit) {
      const returnTo = localPath(visit.queryText('return'));
      return visit.visitor.isProven ? { goTo: returnTo, status: 303 } : confirmPage(visit, returnTo);
    },
  }),
  forPeople({ method: 'POST', path, visit: confirm }),
];
