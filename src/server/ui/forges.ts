import { forgeProviders as providers, providerChoices, tokensAt } from '../../shared/domain/forge-providers.ts';
import { required } from '../../shared/records/fields.ts';
import { forgeFields, forgeToken, type Forge } from '../../shared/records/forge.ts';
import { fieldTable } from './controls.ts';
import { pageForm, recordForm, type FormVisit } from './forms.ts';
import { html, type Html } from './html.ts';
import { ago } from './moments.ts';
import { notice } from './layout.ts';
import { page, type PageVisit } from './pages.ts';
import { empty, fact } from './parts.ts';
import { backLink, buttonTo, deletionPage } from './resource-pages.ts';
import type { PersonVisit, PageRoute } from './site.ts';
import { stateBadge } from './states.ts';

const path = '/ui/account/forges';

export function tokenPath(forgeId: string): string {
  return `${path}/${forgeId}#token`;
}

export function forgePath(forgeId: string): string {
  return `${path}/${forgeId}`;
}

export function forgeName({ provider, url }: Pick<Forge, 'provider' | 'url'>): string {
  return `${providers[provider].name} at ${new URL(url).host}`;
}

const forgeForm = fieldTable(
  { ...forgeFields, token: required(forgeToken) },
  {
    provider: { label: 'Provider', choices: providerChoices },
    url: {
      label: 'Address',
      isCode: true,
      placeholder: 'https://git.example.org',
      hint: 'Of a forge of your own. Blank for the public one.',
      wrong: 'This is no address of such a forge.',
    },
    token: {
      label: 'Token',
      type: 'password',
      hint: 'It is stored encrypted and never shown.',
      wrong: 'The forge does not take this token.',
    },
  },
);

function makeToken(provider: Forge['provider'], url: string): Html {
  const { tokens, scopes } = tokensAt({ provider, url });
  const ticked = scopes.map((scope, at) => html`${at > 0 && ', '}<code>${scope}</code>`);
  return html`<a href="${url}${tokens}" rel="noreferrer" target="_blank" data-tokens="${tokens}">make a token</a> with
    ${scopes.length === 1 ? 'the scope' : 'the scopes'} ${ticked}`;
}

/** The page with this form needs the action `connect`. A script shows only the chosen kind's token page. */
export function connectForm(visit: FormVisit, { isCard, of }: { isCard: boolean; of?: Record<string, string> }): Html {
  const form = recordForm(visit, 'connect', forgeForm, undefined, of);
  const kinds = Object.keys(providers) as Forge['provider'][];
  return form.wrap(
    html`${form.fields('provider', 'url')}
      <p class="hint">Where a token is made, and what to tick there:</p>
      <ul class="hosts" data-forge-tokens>
        ${kinds.map(
          (kind) =>
            html`<li data-provider="${kind}" data-url="${providers[kind].url}">
              <b>${providers[kind].name}:</b> ${makeToken(kind, providers[kind].url)}
            </li>`,
        )}
      </ul>
      ${form.field('token')}`,
    { button: 'Connect', isCard, label: 'Connect a forge' },
  );
}

/** True if the forge accepts the token, but the token lacks rights. */
const lacksRights = ({ state, state_reason: reason }: Forge): boolean => state === 'connected' && reason !== '';

function factsOf(forge: Forge): Html {
  const { url, login, state, state_reason: reason, checked_at: checked } = forge;
  return html`<dl class="facts">
    ${fact('Address', html`<code>${url}</code>`)} ${fact('Account there', login)} ${fact('Last checked', ago(checked))}
    ${fact('State', html`${stateBadge(lacksRights(forge) ? 'incomplete' : state)} ${reason}`)}
  </dl>`;
}

function checkButton({ formKey }: Pick<PersonVisit, 'formKey'>, { id_str: id }: Forge, describedBy?: string): Html {
  const form = pageForm({ formKey, path: `${path}/${id}`, refused: undefined }, 'check');
  return form.wrap(false, { button: 'Check', kind: 'plain', ...(describedBy !== undefined && { describedBy }) });
}

/**
 * A form that repairs a project at its forge. Its page needs the action `connect`, and the form names the project if
 * the page's address does not. If the forge rejects the token, nothing can be created there, so the token is replaced
 * first.
 */
export function mendButton(
  visit: FormVisit,
  {
    forge,
    describedBy,
    isInPlace = false,
    ...of
  }: { forge: Forge; describedBy: string; project_id?: string; isInPlace?: boolean },
): Html {
  if (forge.state === 'refused')
    return buttonTo(tokenPath(forge.id_str), { button: 'Replace token', kind: 'plain', describedBy });
  const form = pageForm(visit, 'connect', { ...of, forge_id: forge.id_str });
  return form.wrap(false, { button: isInPlace ? 'Check and fix' : 'Fix', kind: 'plain', isInline: true, describedBy });
}

function twiceNotice({ login, ...forge }: Forge): Html {
  return notice(
    'bad',
    html`${forgeName(forge)} is connected twice as ${login}, so each repository there is listed twice. Disconnect one of
    them, or replace its token.`,
  );
}

export async function forgesPart(visit: PersonVisit): Promise<Html> {
  const forges = await visit.api.get('/forges');
  const cards = forges.map((forge, at) => {
    const { id_str: id, provider, url, login } = forge;
    const isSame = (one: Forge): boolean => one.provider === provider && one.url === url && one.login === login;
    const isSecond = login !== '' && forges.slice(0, at).some(isSame);
    const name = `forge-${id}`;
    return html`<section class="card" aria-labelledby="${name}">
      <h3 id="${name}"><a href="${path}/${id}">${forgeName(forge)}</a></h3>
      ${isSecond && twiceNotice(forge)} ${factsOf(forge)}
      <div class="row">
        ${checkButton(visit, forge, name)}
        ${buttonTo(tokenPath(id), { button: 'Replace token', kind: 'plain', describedBy: name })}
        ${buttonTo(`${path}/${id}/delete`, { button: 'Disconnect', kind: 'danger', describedBy: name })}
      </div>
    </section>`;
  });
  return html`<section aria-labelledby="forges">
    <div class="title">
      <h2 id="forges">Forges</h2>
      <a class="button" href="${path}">Connect a forge</a>
    </div>
    ${cards.length === 0 ? empty('No forge is connected', 'Projects of a connected forge are set up in one step.') : cards}
  </section>`;
}

const back = backLink('/ui/account', 'Your account');

const connecting = page({
  path,
  showsSecrets: true,
  async show(visit) {
    await visit.api.admit('POST /forges');
    return {
      title: 'Connect a forge',
      main: html`${back}
        <h1>Connect a forge</h1>
        <p>
          A new project is then a choice from the list of your repositories. Headrace puts its key and its hook into the
          repository, and tells the forge how the builds of each commit ended.
        </p>
        ${connectForm(visit, { isCard: true })}`,
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
    const form = recordForm(visit, 'token', forgeForm);
    const hint = html`At the forge ${makeToken(forge.provider, forge.url)}. What the projects lack there is put in place
    with it.`;
    return {
      title: forgeName(forge),
      main: html`${back}
        <h1>${forgeName(forge)}</h1>
        <section class="card" aria-label="Forge">
          ${factsOf(forge)}
          <div class="row">
            ${checkButton(visit, forge)}
            ${buttonTo(`${path}/${forge.id_str}/delete`, { button: 'Disconnect', kind: 'danger' })}
          </div>
        </section>
        <h2 id="token">Replace token</h2>
        ${form.wrap(form.field('token', { hint }), { button: 'Replace token', isCard: true, label: 'Replace token' })}`,
    };
  },
  actions: {
    check: { route: 'POST /forges/:forge_id/check', done: 'forge_checked' },
    token: { route: 'PUT /forges/:forge_id', done: 'forge_token' },
  },
});

const mostNames = 10;

function listed(names: readonly string[]): string {
  const others = names.length - mostNames;
  return [...names.slice(0, mostNames), ...(others > 0 ? [`${others} more`] : [])].join(', ');
}

const deletion = deletionPage({
  frame: page,
  path: `${path}/:forge_id/delete`,
  route: 'DELETE /forges/:forge_id',
  read: ({ api }: PageVisit) => api.get('/forges/:forge_id'),
  question: (forge) => `Disconnect ${forgeName(forge)}?`,
  async goes(forge, { api }) {
    const projects = await api.get('/projects');
    const names = projects.filter(({ forge_id_str: id }) => id === forge.id_str).map(({ name }) => name);
    return html`<p>
      The token is
      deleted${
        names.length > 0 &&
        html`, and so are the key, the hook and the statuses of <strong>${listed(names)}</strong>. Existing builds stay.
          Nothing is fetched or triggered there until the project is connected again or its key and hook are installed
          by hand`
      }.
    </p>`;
  },
  back: () => '/ui/account',
  button: 'Disconnect',
  notice: 'forge_disconnected',
});

export const routes: PageRoute[] = [...connecting, ...one, ...deletion];
