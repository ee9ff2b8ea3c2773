import { scopes, type Scope } from '../http/route.ts';
import { mostRecords, tokenDays } from '../../shared/domain/bounds.ts';
import { tokenFields, type SecretToken, type Token } from '../../shared/records/token.ts';
import { accountNavigation } from './account-pages.ts';
import { fieldTable, type Choices } from './controls.ts';
import { pageForm, recordForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { notice, type Page } from './layout.ts';
import { ago, moment } from './moments.ts';
import { page, type PageVisit } from './pages.ts';
import { section } from './parts.ts';
import type { PageRoute } from './site.ts';

const path = '/ui/account/tokens';

const names = Object.keys(scopes) as Scope[];

const tokenForm = fieldTable(tokenFields(names), {
  name: { label: 'Name', hint: 'What it is for, such as “Release script”.' },
  scopes: { label: 'It may', choices: names.map((scope) => [scope, scopes[scope]] as const) },
  project_ids: {
    label: 'Only in these projects',
    hint:
      'Other projects do not exist for it then, and it opens nothing that belongs to your whole account. Choose none ' +
      'for a token that is good for all.',
    wrong: { not_found: 'One of these projects is gone.' },
  },
  expires_at: {
    label: 'Ends on',
    type: 'date',
    hint: `At the beginning of this day in UTC. At most ${tokenDays.most} days from now.`,
    wrong: `Choose a day within the next ${tokenDays.most} days.`,
  },
});

async function projectChoices({ api }: PageVisit): Promise<{ choices: Choices; isAll: boolean }> {
  const { projects, all } = await api.get('/dashboard', { query: { sort: 'name' } });
  return { choices: projects.map(({ id_str: id, name }) => [id, name] as const), isAll: projects.length === all };
}

function item(visit: PageVisit, token: Token, known: ReadonlyMap<string, string>): Html {
  const { id_str: id, name, expires_at: end, last_used_at: used, last_used_from: from, created_at: since } = token;
  const projects = token.project_ids.map((one) => known.get(String(one)) ?? `project ${one}`);
  return html`<li>
    <h3 id="token-${id}">${name}</h3>
    <p class="aside">
      ${Date.parse(end) <= Date.now() ? 'Ended on' : 'Ends on'} ${moment(end)}. Made on ${moment(since)}.
      ${used === null ? 'Never used.' : html`Last used ${ago(used)}${from !== null && html` from <code>${from}</code>`}.`}
    </p>
    <p>
      ${token.scopes.map((scope) => html`<code>${scope}</code> `)} in
      ${projects.length === 0 ? 'all projects' : projects.join(', ')}
    </p>
    ${pageForm(visit, 'remove', { token_id: id }).wrap(false, {
      button: 'Remove',
      kind: 'danger',
      describedBy: `token-${id}`,
    })}
  </li>`;
}

async function tokensPage(visit: PageVisit): Promise<Page> {
  const tokens = await visit.api.get('/tokens');
  const isNamed = tokens.some(({ project_ids: ids }) => ids.length > 0);
  const { choices } = isNamed ? await projectChoices(visit) : { choices: [] };
  return {
    title: 'Tokens',
    main: html`${accountNavigation(visit, path)}
      <h1>Tokens</h1>
      ${section(
        'tokens',
        'Your tokens',
        html`<p>
            A program acts for you with a token, in the scopes and projects that you choose. It sends the token as
            <code>Authorization: Bearer</code>, or as the password beside your e-mail address.
          </p>
          ${
            tokens.length > 0 &&
            html`<ul class="rows">
              ${tokens.map((token) => item(visit, token, new Map(choices)))}
            </ul>`
          }
          <p><a class="button" href="${path}/new">Make a token</a></p>`,
        { isCard: true },
      )}`,
  };
}

async function newPage(visit: PageVisit): Promise<Page> {
  const { choices, isAll } = await projectChoices(visit);
  const form = recordForm(visit, 'make', tokenForm);
  const usual = new Date(Date.now() + tokenDays.usual * 24 * 60 * 60 * 1000).toISOString().slice(0, 10);
  return {
    title: 'Make a token',
    main: html`<h1>Make a token</h1>
      ${form.wrap(
        html`${form.fields('name', 'scopes')} ${choices.length > 0 && form.field('project_ids', { choices })}
        ${!isAll && html`<p class="aside">These are only some of your projects. The API takes all of them.</p>`}
        ${form.field('expires_at', { value: usual })}`,
        { button: 'Make the token', isCard: true },
      )}
      <p class="back"><a href="${path}">All tokens</a></p>`,
  };
}

function madePage({ name, token, expires_at: end }: SecretToken): Page {
  return {
    title: name,
    main: html`<h1>${name}</h1>
      ${notice('good', 'Your new token. It is shown this once: copy it now.')}
      <p class="card"><code class="secret" id="token">${token}</code></p>
      <p>It ends on ${moment(end)}. You are told three days before.</p>
      <p class="back"><a href="${path}">All tokens</a></p>`,
  };
}

const tooMany = `You have ${mostRecords.user_tokens.most} tokens, and may not have more. Remove one first.`;

export const routes: PageRoute[] = [
  ...page({
    path,
    show: tokensPage,
    actions: { remove: { route: 'DELETE /tokens/:token_id', done: () => ({ goTo: path, notice: 'deleted' }) } },
  }),
  ...page({
    path: `${path}/new`,
    makesCredentials: true,
    show: newPage,
    actions: {
      make: {
        route: 'POST /tokens',
        done: madePage,
        refusals: { is_reserved: tooMany },
        makesCredentials: true,
      },
    },
  }),
];
