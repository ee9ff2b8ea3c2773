import { forgeProviders as providers } from '../domain/forge-providers.ts';
import { ApiError } from '../errors.ts';
import type { Forge, ForgeRepository } from '../records/forge.ts';
import { pageForm, type FormVisit, type PageForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { notice } from './layout.ts';
import { ago } from './moments.ts';
import { page, type PageVisit } from './pages.ts';
import { empty, fact } from './parts.ts';
import { confirmation } from './project-pages.ts';
import { notFound, type PersonVisit, type PageRoute } from './site.ts';

/** Connected forges: on the page of the account, and as the beginning of a new project. */

const path = '/ui/account/forges';

const stateWords: Record<string, string> = {
  connected: 'Connected',
  refused: 'The token is refused',
  unreachable: 'Cannot be reached',
};

function tokenField(form: PageForm, hint: Html): Html {
  return form.text('token', 'Token', {
    type: 'password',
    required: true,
    autocomplete: 'new-password',
    hint,
    wrong: 'The forge does not take this token.',
  });
}

/** The form that connects a forge; its page has the action `connect`. */
export function connectForm(visit: FormVisit): Html {
  const form = pageForm(visit, 'connect');
  const where = Object.values(providers).map(
    ({ name, url, tokens, scopes }) =>
      html`<li>
        <b>${name}:</b> <a href="${url}${tokens}" rel="noreferrer" target="_blank">make a token</a> with ${scopes}
      </li>`,
  );
  return form.wrap(
    html`<h2>Connect a forge</h2>
      ${form.select(
        'provider',
        'Provider',
        Object.entries(providers).map(([provider, { name }]) => [provider, name] as const),
      )}
      ${form.text('url', 'Address', {
        isCode: true,
        placeholder: 'https://git.example.org',
        hint: 'Blank is the public one.',
        wrong: 'This is no address of such a forge.',
      })}
      ${tokenField(form, html`It is stored encrypted and never shown. Where it is made, and what it has to be allowed:`)}
      <ul class="hosts">
        ${where}
      </ul>`,
    { button: 'Connect', isCard: true, label: 'Connect a forge' },
  );
}

function stateOf({ state, state_reason: reason }: Forge): Html {
  return html`${stateWords[state] ?? state}${reason !== '' && html`. ${reason}`}`;
}

/** On the page of the account. */
export async function forgesPart(visit: PersonVisit): Promise<Html> {
  const forges = await visit.api.get('/forges');
  const cards = forges.map(
    (forge) =>
      html`<section class="card" aria-label="${providers[forge.provider].name}, ${forge.url}">
        <h3><a href="${path}/${forge.id_str}">${providers[forge.provider].name}</a></h3>
        <dl class="facts">
          ${fact('Address', html`<code>${forge.url}</code>`)} ${fact('Account there', forge.login)}
          ${fact('State', stateOf(forge))} ${fact('Last checked', ago(forge.checked_at))}
        </dl>
        ${oneAction(visit, forge, 'check', 'Check')}
        <p>
          <a href="${path}/${forge.id_str}#token">Replace token</a>
          <a href="${path}/${forge.id_str}/delete">Disconnect</a>
        </p>
      </section>`,
  );
  return html`<section aria-labelledby="forges">
    <h2 id="forges">Forges</h2>
    ${cards.length === 0 ? empty('No forge is connected', 'Projects of a connected forge are set up in one step.') : cards}
    <p><a class="button" href="${path}">Connect a forge</a></p>
  </section>`;
}

function oneAction(visit: Pick<PersonVisit, 'formKey'>, { id_str: id }: Forge, action: string, button: string): Html {
  const form = pageForm({ formKey: visit.formKey, path: `${path}/${id}`, refused: undefined }, action);
  return form.wrap(html``, { button, kind: 'plain' });
}

const connecting = page({
  path,
  showsSecrets: true,
  async show(visit) {
    await visit.api.admit('POST /forges');
    return {
      title: 'Connect a forge',
      main: html`<p class="aside"><a href="/ui/account">Your account</a></p>
        <h1>Connect a forge</h1>
        ${connectForm(visit)}`,
    };
  },
  actions: {
    connect: { route: 'POST /forges', done: () => ({ goTo: '/ui/account#forges', notice: 'forge_connected' }) },
  },
});

const one = page({
  path: `${path}/:forge_id`,
  showsSecrets: true,
  async show(visit) {
    const forge = await visit.api.get('/forges/:forge_id');
    const form = pageForm(visit, 'token');
    const { name, tokens, scopes } = providers[forge.provider];
    return {
      title: name,
      main: html`<p class="aside"><a href="/ui/account">Your account</a></p>
        <h1>${name}</h1>
        <dl class="facts card">
          ${fact('Address', html`<code>${forge.url}</code>`)} ${fact('Account there', forge.login)}
          ${fact('State', stateOf(forge))}
        </dl>
        ${oneAction(visit, forge, 'check', 'Check')}
        <div id="token">
          ${form.wrap(
            tokenField(
              form,
              html`One with ${scopes}:
                <a href="${forge.url}${tokens}" rel="noreferrer" target="_blank">make a token</a>. What the projects
                lack there is mended with it.`,
            ),
            { button: 'Replace token', isCard: true, label: 'Replace token' },
          )}
        </div>
        <p><a href="${path}/${forge.id_str}/delete">Disconnect</a></p>`,
    };
  },
  actions: {
    check: { route: 'POST /forges/:forge_id/check', done: 'forge_checked' },
    token: { route: 'PUT /forges/:forge_id', done: 'saved' },
  },
});

const deletion = page({
  path: `${path}/:forge_id/delete`,
  async show(visit) {
    const forges = await visit.api.get('/forges');
    const found = forges.find(({ id_str: id }) => id === visit.param('forge_id'));
    if (!found) return notFound;
    const title = `Disconnect ${found.url}?`;
    const goes = html`<p>
      The token goes, and keys, hooks and status targets of its projects are taken away there. The projects stay, and
      have to be set up by hand or connected again.
    </p>`;
    return { title, main: confirmation(visit, { title, goes, back: '/ui/account' }) };
  },
  actions: {
    delete: { route: 'DELETE /forges/:forge_id', done: () => ({ goTo: '/ui/account', notice: 'deleted' }) },
  },
});

/** The beginning of a new project: the repositories of a connected forge, and a way to connect one. */
export async function forgeChoice(visit: PageVisit): Promise<Html> {
  const forges = await visit.api.get('/forges');
  const chosen = forges.find(({ id_str: id }) => id === visit.queryText('forge')) ?? forges[0];
  if (!chosen)
    return html`<details class="card">
      <summary>Connect a forge</summary>
      ${connectForm(visit)}
    </details>`;
  const query = visit.queryText('query').slice(0, 200);
  const number = Math.max(1, Number.parseInt(visit.queryText('page'), 10) || 1);
  const others = forges.map(
    ({ id_str: id, provider, url, login }) =>
      html`<a href="?forge=${id}" ${id === chosen.id_str && html`aria-current="true"`}
        >${providers[provider].name} (${login}, ${new URL(url).host})</a
      >`,
  );
  return html`<section class="card" aria-labelledby="repositories">
      <h2 id="repositories">Repositories</h2>
      ${forges.length > 1 && html`<nav aria-label="Forges" class="sorting">${others}</nav>`}
      ${visit.refused?.action === 'build' && visit.refused.words !== undefined && notice('bad', visit.refused.words)}
      <form method="get" action="${visit.path}" role="search" class="filter">
        <input type="hidden" name="forge" value="${chosen.id_str}" />
        <label for="query">Search</label>
        <input id="query" name="query" type="search" value="${query}" autocomplete="off" />
        <button class="plain">Search</button>
      </form>
      ${await repositoryList(visit, chosen, { query, number })}
    </section>
    <details class="card">
      <summary>Connect a forge</summary>
      ${connectForm(visit)}
    </details>`;
}

async function repositoryList(visit: PageVisit, { id_str: id }: Forge, asked: { query: string; number: number }) {
  const { query, number } = asked;
  const listed = async () =>
    visit.api.get('/forges/:forge_id/repositories', {
      params: { forge_id: id },
      query: { query, page: number },
    });
  let found: ForgeRepository[];
  try {
    found = await listed();
  } catch (error) {
    if (!(error instanceof ApiError) || error.words === undefined) throw error;
    return notice('bad', error.words);
  }
  const link = (page: number, text: string): Html => {
    const search = new URLSearchParams({ forge: id, query, page: String(page) });
    return html`<a href="?${search.toString()}">${text}</a>`;
  };
  if (found.length === 0) return html`<p class="aside">No repository was found.</p>`;
  return html`<ul class="repositories">
      ${found.map((repository) => repositoryItem(visit, id, repository))}
    </ul>
    <p>${number > 1 && link(number - 1, 'Earlier')} ${link(number + 1, 'More')}</p>`;
}

function repositoryItem(visit: PageVisit, forgeId: string, repository: ForgeRepository): Html {
  const { full_name: name, project_id_str: project, archived, may_administer: may } = repository;
  const form = pageForm(visit, 'build', { forge_id: forgeId, repository: name });
  const id = `repository-${name.replaceAll(/[^\w-]/g, '-')}`;
  const about = [repository.private && 'private', archived && 'archived', !may && 'not administered by you'];
  const words = about.filter(Boolean).join(', ');
  return html`<li>
    <span id="${id}"><code>${name}</code> ${words !== '' && html`<span class="aside">${words}</span>`}</span>
    ${
      project === ''
        ? may && !archived && form.wrap(html``, { button: 'Build', isInline: true, describedBy: id })
        : html`<a href="/ui/projects/${project}">Its project</a>`
    }
  </li>`;
}

export const routes: PageRoute[] = [...connecting, ...one, ...deletion];
