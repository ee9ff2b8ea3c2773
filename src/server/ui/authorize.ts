import { findUserById } from '../auth/users.ts';
import { scopes } from '../http/route.ts';
import { repeated, type RawGroup } from '../../shared/records/raw.ts';
import { allowed, denied, checkRequest, parameterNames, type Mistake, type Request } from '../oauth/authorize.ts';
import { outOfBand, policySource } from '../oauth/redirects.ts';
import { html, type Html } from './html.ts';
import { keyField, problem, type Page } from './layout.ts';
import { signInFirst, type PageRoute, type Response, type SiteVisit } from './site.ts';

/** An application sends a user here to request access (RFC 6749 section 3.1). */
const path = '/oauth2/authorize';

function sentAgain(sent: RawGroup): [string, string][] {
  return parameterNames.flatMap((name): [string, string][] => {
    const value = sent[name];
    if (value === repeated)
      return [
        [name, ''],
        [name, ''],
      ];
    if (value !== undefined && typeof value !== 'string') return [[`${name}[]`, '']];
    return value === undefined || value === '' ? [] : [[name, value]];
  });
}

function hiddenFields(sent: RawGroup, formKey: string): Html {
  return html`${keyField(formKey)}
  ${sentAgain(sent).map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`)}`;
}

function addressOf(sent: RawGroup): string {
  return `${path}?${new URLSearchParams(sentAgain(sent)).toString()}`;
}

interface Question {
  request: Request;
  sent: RawGroup;
  email: string;
  origin: string;
  formKey: string;
}

function consentPage({ request, sent, email, origin, formKey }: Question): Page {
  const { client, redirectUri, forMcp } = request;
  return {
    title: `Allow ${client.name}?`,
    isNarrow: true,
    formTarget: policySource(redirectUri),
    main: html`<div class="card">
      <h1>Allow <strong>${client.name}</strong> to act for you?</h1>
      <p>${origin} If you allow it, it can:</p>
      <ul class="scopes">
        ${request.scopes.map((scope) => html`<li>${scopes[scope]}</li>`)}
      </ul>
      ${forMcp && html`<p>It can do so only with the tools for agents.</p>`}
      <p>${destination(redirectUri)}</p>
      <form method="post" action="${path}" class="row choice">
        ${hiddenFields(sent, formKey)}
        <button class="main" name="decision" value="allow">Allow</button>
        <button name="decision" value="deny">Deny</button>
      </form>
      <p class="aside">It keeps this until you revoke it on your applications page.</p>
      <form method="post" action="/ui/sign-out" class="aside">
        ${keyField(formKey)}
        <input type="hidden" name="return" value="${addressOf(sent)}" />
        You are signed in as ${email}. <button class="link">Use another account</button>
      </form>
    </div>`,
  };
}

async function originOf({ db }: SiteVisit['site'], { ownerId, documentUrl }: Request['client']): Promise<string> {
  if (documentUrl !== null) {
    const { host } = new URL(documentUrl);
    return `Nobody registered it here. All that is known about it is a document of ${host}. Go on only if you trust ${host}.`;
  }
  if (ownerId !== null) return `It was registered by ${(await findUserById(db.read, ownerId))?.email ?? ''}.`;
  return 'It is the command line of Headrace. Go on only if you have just run headrace login yourself.';
}

function destination(redirectUri: string): Html {
  if (redirectUri === outOfBand) return html`You will be shown a code to copy into it.`;
  return html`Your answer goes to <strong>${hostOf(redirectUri)}</strong>.`;
}

function hostOf(redirectUri: string): string {
  const { host, protocol } = new URL(redirectUri);
  return host === '' ? protocol : host;
}

function codePage(name: string, code: string): Page {
  return {
    title: 'Your code',
    isNarrow: true,
    main: html`<div class="card">
      <h1>Copy this code into ${name}</h1>
      <p><code class="secret" id="code">${code}</code></p>
      <p class="aside">It works once, within ten minutes. Then you can close this page.</p>
    </div>`,
  };
}

/** Shown if the user cannot be asked for consent. The browser returns to the application only if the user clicks. */
function mistakePage({ client, redirectUri, why }: Mistake, sent: RawGroup, formKey: string): Page {
  return {
    title: 'This application cannot be allowed',
    status: 400,
    isNarrow: true,
    formTarget: policySource(redirectUri),
    main: html`<div class="card">
      <h1>${client.name} asked for something that cannot be</h1>
      <p>It made a mistake: ${why}. You have allowed nothing.</p>
      <p>If you were using it, go back and tell whoever made it. If you came here by a link, close this page.</p>
      <form method="post" action="${path}" class="row choice">
        ${hiddenFields(sent, formKey)}
        <button name="decision" value="return">Go back to ${hostOf(redirectUri)}</button>
      </form>
    </div>`,
  };
}

function notRegistered(advice: string): Response {
  const text = `${advice} You have allowed nothing, and were not sent on. Tell its developers.`;
  return problem(400, 'This application cannot be allowed', text);
}

export const routes: PageRoute[] = [
  {
    method: 'GET',
    path,
    async visit({ site, query, visitor, formKey }) {
      const checkedRequest = await check(site, visitor.person, query);
      if ('signIn' in checkedRequest) return signInFirst(addressOf(query));
      if ('tell' in checkedRequest) return notRegistered(checkedRequest.tell);
      if (!visitor.person) return signInFirst(addressOf(query));
      if ('mistake' in checkedRequest) return mistakePage(checkedRequest.mistake, query, formKey);
      const { ask: request } = checkedRequest;
      const origin = await originOf(site, request.client);
      return consentPage({ request, sent: query, email: visitor.person.email, origin, formKey });
    },
  },
  {
    method: 'POST',
    path,
    async visit(visit) {
      const checkedRequest = await check(visit.site, visit.visitor.person, visit.form);
      if ('signIn' in checkedRequest) return signInFirst(addressOf(visit.form));
      if ('tell' in checkedRequest) return notRegistered(checkedRequest.tell);
      const { person } = visit.visitor;
      if (!person) return signInFirst(addressOf(visit.form));
      if ('mistake' in checkedRequest) return { goTo: checkedRequest.mistake.goTo, status: 302 };
      return decide(visit, checkedRequest.ask, person);
    },
  },
];

function check(site: SiteVisit['site'], person: { id: bigint } | undefined, sent: RawGroup) {
  return checkRequest({ db: site.db.read, documents: site.documents, issuer: site.origin(), person }, sent);
}

async function decide(visit: SiteVisit, request: Request, person: { id: bigint; email: string }): Promise<Response> {
  const { site, address, formText } = visit;
  if (formText('decision') !== 'allow') {
    const goTo = denied(request);
    if (goTo !== undefined) return { goTo, status: 302 };
    return problem(200, 'Denied', `${request.client.name} was not allowed anything.`);
  }
  const answer = await allowed({ ...site, address }, request, person);
  return 'goTo' in answer ? { goTo: answer.goTo, status: 302 } : codePage(request.client.name, answer.code);
}
