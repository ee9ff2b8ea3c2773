import { requestOptions, passkeysOf } from '../auth/passkeys.ts';
import { readFlow } from '../auth/flows.ts';
import { takeSecond } from '../auth/second-step.ts';
import { AlreadyLinkedError } from '../auth/identities.ts';
import { html } from './html.ts';
import { keyField, notice, problem, type Page } from './layout.ts';
import { passkeyForm } from './passkey-form.ts';
import { notAdmittedPage, refusalOf, type Told } from './sign-in-words.ts';
import type { PageRoute, Response, SiteVisit } from './site.ts';

const action = '/ui/sign-in/second';

const over = problem(
  400,
  'This sign-in is over',
  'It took longer than ten minutes, or was finished already. Sign in again.',
);

/** A passkey or a recovery code after the password. */
export async function secondPage(visit: SiteVisit, flow: string, told?: Told): Promise<Page> {
  const { site, formKey, origin } = visit;
  const asked = await readFlow(site, flow, 'second');
  if (!asked) return over;
  visit.keepFlow(flow);
  const passkeys = await passkeysOf(site.db.read, BigInt(asked.userId));
  return {
    title: 'One more step',
    isNarrow: true,
    hasPasskeys: true,
    status: told?.status ?? 200,
    headers: told?.headers ?? {},
    main: html`<div class="card">
      <h1>One more step</h1>
      ${told && notice('bad', told.message)}
      <p>This account also asks for a passkey.</p>
      ${passkeyForm({
        formKey,
        action,
        kind: 'get',
        options: requestOptions(origin, asked.challenge, passkeys),
        button: 'Use a passkey',
      })}
      <form method="post" action="${action}">
        ${keyField(formKey)}
        <label for="recovery">Recovery code</label>
        <p class="hint" id="recovery-hint">If you have no passkey at hand. Each code is good once.</p>
        <input
          id="recovery"
          name="recovery_code"
          autocomplete="one-time-code"
          autocapitalize="none"
          spellcheck="false"
          required
          aria-describedby="recovery-hint"
        />
        <button>Use the recovery code</button>
      </form>
    </div>`,
  };
}

async function take(visit: SiteVisit): Promise<Response> {
  const { site, visitor, formText, origin, address } = visit;
  visit.keepFlow(undefined);
  try {
    const result = await takeSecond(site, {
      flow: visitor.flow,
      answer: formText('answer'),
      code: formText('recovery_code'),
      origin,
      address,
      session: visitor.session,
    });
    if (result === 'over') return over;
    if ('asks' in result) {
      return await secondPage(
        visit,
        result.asks,
        refusalOf(result, 'That passkey or recovery code is not one of this account.'),
      );
    }
    visit.signIn(result.session);
    return { goTo: result.returnTo, status: 303 };
  } catch (error) {
    if (error instanceof AlreadyLinkedError && site.issuer) return notAdmittedPage('taken', site.issuer);
    throw error;
  }
}

export const routes: PageRoute[] = [{ method: 'POST', path: action, visit: take }];
