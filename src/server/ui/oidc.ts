import { randomBytes } from 'node:crypto';
import { beginFlow, takeFlow, type Flow } from '../auth/flows.ts';
import { signIn } from '../auth/sign-in.ts';
import { AlreadyLinkedError } from '../auth/identities.ts';
import { findUserById } from '../auth/users.ts';
import { arrive } from '../oidc/arrive.ts';
import { IssuerError, type Issuer, type IssuerTrouble } from '../oidc/issuer.ts';
import { html } from './html.ts';
import { keyField, notice, problem, type Page } from './layout.ts';
import { secondPage } from './second.ts';
import { localPath, notAdmittedPage, refusalOf } from './sign-in-words.ts';
import { notFound, type PageRoute, type Response, type SiteVisit } from './site.ts';
import { fitsFormKey } from './visitor.ts';

/** An address that returns after the issuer and both databases must fit into a page's address. */
const longestReturn = 2000;

interface Beginning {
  returnTo: string;
  link?: string | undefined;
  /** The signed-in user has to sign in again. */
  confirms?: bigint | undefined;
}

/** Sends the browser to the issuer. An issuer without an answer gets a page of ours. */
export async function goToIssuer(
  visit: Pick<SiteVisit, 'site' | 'keepFlow'>,
  issuer: Issuer,
  { returnTo, link, confirms }: Beginning,
): Promise<Response> {
  const [state, nonce, verifier] = [secret(), secret(), secret()];
  let goTo: string;
  try {
    goTo = await issuer.begin({ state, nonce, verifier }, confirms !== undefined);
  } catch (error) {
    return troublePage(issuer, error);
  }
  const flow: Flow = {
    step: 'issuer',
    state,
    nonce,
    verifier,
    returnTo: returnTo.length > longestReturn ? '/ui/' : returnTo,
    ...(link !== undefined && { link }),
    ...(confirms !== undefined && { confirms: String(confirms) }),
  };
  visit.keepFlow(await beginFlow(visit.site, flow));
  return { goTo, status: 302 };
}

function secret(): string {
  return randomBytes(32).toString('base64url');
}

const troubles: Record<IssuerTrouble, { status: number; title: string; text: string }> = {
  silent: {
    status: 502,
    title: 'No answer',
    text: 'gave no answer that this server can use. You are not signed in. Try again in a while.',
  },
  refused: { status: 403, title: 'Not signed in', text: 'did not sign you in. Nothing has changed here.' },
  wrong: {
    status: 400,
    title: 'Not signed in',
    text: 'answered for another sign-in, server or user. This server does not believe it, and nothing has changed here.',
  },
};

function troublePage({ settings: { name } }: Issuer, error: unknown): Page {
  if (!(error instanceof IssuerError)) throw error;
  const { status, title, text } = troubles[error.trouble];
  return problem(status, title, `${name} ${text}`);
}

interface Linking {
  formKey: string;
  email: string;
  name: string;
  message?: string | undefined;
  status?: number;
  headers?: Record<string, string>;
}

function linkingPage({ formKey, email, name, message, status = 200, headers = {} }: Linking): Page {
  return {
    title: 'Link your account',
    isNarrow: true,
    status,
    headers,
    main: html`<div class="card">
      <h1>Link your account</h1>
      ${message !== undefined && notice('bad', message)}
      <p>
        There is an account with the address <strong>${email}</strong> here. Enter its password once to link it to
        ${name}. From then on, ${name} signs you in.
      </p>
      <form method="post" action="/ui/oidc/link">
        ${keyField(formKey)}
        <input type="email" name="email" autocomplete="username" value="${email}" readonly hidden />
        <label for="password">Password of this account</label>
        <input id="password" name="password" type="password" autocomplete="current-password" required />
        <button class="main">Link and sign in</button>
      </form>
      <p class="aside">Without a password, ask the operator of this server for a link. It can link the account too.</p>
    </div>`,
  };
}

const tooOld = problem(
  400,
  'This sign-in is over',
  'It began in another browser, took longer than ten minutes, or was finished already. Begin again.',
);

async function callback(visit: SiteVisit): Promise<Response> {
  const { site, visitor, url, address, formKey } = visit;
  const { issuer } = site;
  if (!issuer) return notFound;
  const flow = await takeFlow(site, visitor.flow, 'issuer');
  visit.keepFlow(undefined);
  if (!flow) return tooOld;
  const at = url.indexOf('?');
  let vouched;
  try {
    vouched = await issuer.finish(at < 0 ? '' : url.slice(at), flow);
  } catch (error) {
    return troublePage(issuer, error);
  }
  const arrived = await arrive(site, issuer.settings, {
    flow,
    vouched,
    browser: { address, session: visitor.session },
  });
  if ('session' in arrived) {
    visit.signIn(arrived.session);
    return { goTo: arrived.returnTo, status: 303 };
  }
  if ('notAdmitted' in arrived) return notAdmittedPage(arrived.notAdmitted, issuer);
  if ('asks' in arrived) return secondPage(visit, arrived.asks);
  visit.keepFlow(arrived.linking);
  return linkingPage({ formKey, email: arrived.email, name: issuer.settings.name });
}

async function linkWithPassword(visit: SiteVisit): Promise<Response> {
  const { site, visitor, formText, formKey, address } = visit;
  const { issuer } = site;
  if (!issuer) return notFound;
  const flow = await takeFlow(site, visitor.flow, 'linking');
  visit.keepFlow(undefined);
  const user = flow && (await findUserById(site.db.read, BigInt(flow.userId)));
  if (!flow || !user) return tooOld;
  const { vouched, returnTo } = flow;
  const entered = { email: user.email, password: formText('password'), address, session: visitor.session };
  try {
    const result = await signIn(site, { ...entered, returnTo, vouched });
    if ('asks' in result) return await secondPage(visit, result.asks);
    if ('session' in result) {
      visit.signIn(result.session);
      return { goTo: returnTo, status: 303 };
    }
    visit.keepFlow(await beginFlow(site, flow));
    const { message, ...refusal } = refusalOf(result, 'The password is wrong.');
    return linkingPage({ formKey, email: user.email, name: issuer.settings.name, message, ...refusal });
  } catch (error) {
    if (error instanceof AlreadyLinkedError) return notAdmittedPage('taken', issuer);
    throw error;
  }
}

export const routes: PageRoute[] = [
  {
    method: 'GET',
    path: '/ui/oidc/start',
    // A link and not a form: a form may lead only to sites that the page names, and an issuer may lead on to others.
    async visit(visit) {
      const { site, visitor, queryText } = visit;
      if (!site.issuer) return notFound;
      const returnTo = localPath(queryText('return'));
      const link = queryText('link');
      // Another site's link begins no sign-in.
      if (!fitsFormKey(queryText('form_key'), visitor))
        return { goTo: `/ui/sign-in?${new URLSearchParams({ return: returnTo }).toString()}`, status: 303 };
      const confirms = queryText('confirms') === '' ? undefined : visitor.person?.id;
      return goToIssuer(visit, site.issuer, { returnTo, confirms, ...(link !== '' && { link }) });
    },
  },
  { method: 'GET', path: '/ui/oidc/callback', visit: callback },
  { method: 'POST', path: '/ui/oidc/link', visit: linkWithPassword },
];
