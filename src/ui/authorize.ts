import { findUserById } from '../auth/users.ts';
import { scopes } from '../http/route.ts';
import type { RawGroup } from '../http/raw.ts';
import { allowed, denied, judge, parameterNames, type Judgement, type Request } from '../oauth/authorize.ts';
import { outOfBand, policySource } from '../oauth/redirects.ts';
import { html, type Html } from './html.ts';
import { keyField, problem, type Page } from './layout.ts';
import { signInFirst, type Place, type Response, type Visit } from './site.ts';

/** RFC 6749 section 3.1: where an application sends a person to be asked. */
const path = '/oauth2/authorize';

/** The request in the words in which it came, to be sent again with the answer. */
function sentAgain(sent: RawGroup): [string, string][] {
  return parameterNames.flatMap((name) => {
    const value = sent[name];
    return typeof value === 'string' && value !== '' ? [[name, value] as [string, string]] : [];
  });
}

function addressOf(sent: RawGroup): string {
  return `${path}?${new URLSearchParams(sentAgain(sent)).toString()}`;
}

interface Question {
  request: Request;
  sent: RawGroup;
  /** Who is asked. */
  email: string;
  /** Who registered the application. */
  owner: string;
  formKey: string;
}

function consentPage({ request, sent, email, owner, formKey }: Question): Page {
  const { client, redirectUri } = request;
  return {
    title: `Allow ${client.name}?`,
    isNarrow: true,
    formTarget: policySource(redirectUri),
    main: html`<div class="card">
      <h1>Allow <strong>${client.name}</strong> to act for you?</h1>
      <p>It was registered by ${owner}. If you allow it, it can:</p>
      <ul class="scopes">
        ${request.scopes.map((scope) => html`<li>${scopes[scope]}</li>`)}
      </ul>
      <p>${destination(redirectUri)}</p>
      <form method="post" action="${path}" class="choice">
        ${keyField(formKey)}
        ${sentAgain(sent).map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`)}
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

function destination(redirectUri: string): Html {
  if (redirectUri === outOfBand) return html`You will be shown a code to copy into it.`;
  const { host, protocol } = new URL(redirectUri);
  return html`Your answer goes to <strong>${host === '' ? protocol : host}</strong>.`;
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

/** The request is not one that a person can be asked about. */
function unaskable(judgement: Exclude<Judgement, { ask: Request }>): Response {
  if ('goTo' in judgement) return { goTo: judgement.goTo, status: 302 };
  const text = `${judgement.tell} You have allowed nothing, and were not sent on. Tell whoever made it.`;
  return problem(400, 'This application cannot be allowed', text);
}

export const places: Place[] = [
  {
    method: 'GET',
    path,
    async visit({ db, query, visitor, formKey }) {
      const judgement = await judge(db.read, query);
      if (!('ask' in judgement)) return unaskable(judgement);
      if (!visitor.person) return signInFirst(addressOf(query));
      const owner = await findUserById(db.read, judgement.ask.client.ownerId);
      const { email } = visitor.person;
      return consentPage({ request: judgement.ask, sent: query, email, owner: owner?.email ?? '', formKey });
    },
  },
  {
    method: 'POST',
    path,
    async visit(visit) {
      const judgement = await judge(visit.db.read, visit.form);
      if (!('ask' in judgement)) return unaskable(judgement);
      return decide(visit, judgement.ask);
    },
  },
];

async function decide(visit: Visit, request: Request): Promise<Response> {
  const { visitor, form, formText } = visit;
  if (!visitor.person) return signInFirst(addressOf(form));
  if (formText('decision') !== 'allow') {
    const goTo = denied(request);
    if (goTo !== undefined) return { goTo, status: 302 };
    return problem(200, 'Denied', `${request.client.name} was not allowed anything.`);
  }
  const answer = await allowed(visit, request, visitor.person);
  return 'goTo' in answer ? { goTo: answer.goTo, status: 302 } : codePage(request.client.name, answer.code);
}
