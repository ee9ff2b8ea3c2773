import { inBrowser, recordAudit } from '../auth/audit.ts';
import { endSession } from '../auth/sessions.ts';
import { signIn, type SignedIn } from '../auth/sign-in.ts';
import { html } from './html.ts';
import { keyField, notice, type Page } from './layout.ts';
import type { PageRoute, SiteVisit } from './site.ts';

interface Shown {
  formKey: string;
  returnTo: string;
  email?: string;
  message?: string | undefined;
  isGood?: boolean;
  status?: number;
  headers?: Record<string, string>;
}

function signInPage({
  formKey,
  returnTo,
  email = '',
  message,
  isGood = false,
  status = 200,
  headers = {},
}: Shown): Page {
  return {
    title: 'Sign in',
    status,
    headers,
    isNarrow: true,
    main: html`<div class="card">
      <h1>Sign in</h1>
      ${message !== undefined && notice(isGood ? 'good' : 'bad', message)}
      <form method="post" action="/ui/sign-in">
        ${keyField(formKey)}
        <input type="hidden" name="return" value="${returnTo}" />
        <label for="email">E-mail address</label>
        <input id="email" name="email" type="email" autocomplete="username" required value="${email}" />
        <label for="password">Password</label>
        <input id="password" name="password" type="password" autocomplete="current-password" required />
        <button class="main">Sign in</button>
      </form>
      <p class="aside">
        Forgotten the password, or invited and without one? The operator of this server can make you a link to set it.
      </p>
    </div>`,
  };
}

/** Leads only to our own pages, however the path is spelled. */
export function localPath(text: string): string {
  const here = 'https://headrace.invalid';
  if (!text.startsWith('/') || !URL.canParse(text, here)) return '/ui/';
  const { origin, pathname, search } = new URL(text, here);
  const isOwnPage = origin === here && (pathname.startsWith('/ui/') || pathname === '/oauth2/authorize');
  return isOwnPage ? `${pathname}${search}` : '/ui/';
}

function refusal(refused: Exclude<SignedIn, { session: string }>): Pick<Shown, 'message' | 'status' | 'headers'> {
  if (refused.refused === 'wrong') return { status: 401, message: 'The e-mail address or the password is wrong.' };
  if (refused.refused === 'suspended') {
    return { status: 401, message: 'This account is suspended. Ask the operator of this server.' };
  }
  return waitFor(refused.seconds);
}

export function waitFor(seconds: number): { status: 429; message: string; headers: Record<string, string> } {
  const time = seconds < 120 ? `${seconds} seconds` : `${Math.ceil(seconds / 60)} minutes`;
  const message = `Too many attempts went wrong. Wait ${time}, then try again.`;
  return { status: 429, message, headers: { 'retry-after': String(seconds) } };
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
    async visit({ visitor, formKey, queryText }) {
      const returnTo = localPath(queryText('return'));
      if (visitor.person) return { goTo: returnTo, status: 303 };
      const isSet = queryText('password') === 'set';
      return signInPage({ formKey, returnTo, isGood: isSet, message: isSet ? 'Your password is set.' : undefined });
    },
  },
  {
    method: 'POST',
    path: '/ui/sign-in',
    async visit(visit) {
      const [email, password] = [visit.formText('email'), visit.formText('password')];
      const returnTo = localPath(visit.formText('return'));
      const attempt = { email, password, address: visit.address, session: visit.visitor.session };
      const result = await signIn(visit.site, attempt);
      if ('refused' in result) return signInPage({ formKey: visit.formKey, returnTo, email, ...refusal(result) });
      visit.signIn(result.session);
      return { goTo: returnTo, status: 303 };
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
