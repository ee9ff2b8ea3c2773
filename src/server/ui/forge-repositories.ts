import { setTimeout as pause } from 'node:timers/promises';
import { longest } from '../../shared/domain/bounds.ts';
import { ApiError } from '../../shared/errors.ts';
import type { PageOf } from '../http/paging.ts';
import type { Forge, ForgeRepository } from '../../shared/records/forge.ts';
import type { OrganisationView } from '../../shared/records/organisation.ts';
import { connectForm, forgeName, tokenPath } from './forges.ts';
import { pageForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { notice } from './layout.ts';
import type { PageVisit } from './pages.ts';
import { empty, filterForm } from './parts.ts';

/** The organisation that will own the project. Undefined if the visitor will. */
type Owner = Pick<OrganisationView, 'id_str' | 'name' | 'role'> | undefined;

function idOf(owner: Owner): Record<string, string> {
  return owner ? { organisation_id: owner.id_str } : {};
}

export async function forgeChoice(visit: PageVisit, owner: Owner): Promise<Html> {
  const forges = await visit.api.get('/forges', { query: idOf(owner) });
  const mayConnect = !owner || owner.role === 'owner';
  const isOpen = visit.refused?.action === 'connect';
  return html`${forges.length > 0 && (await repositories(visit, forges, owner))}
  ${
    mayConnect &&
    html`<details class="card readable" ${isOpen && html`open`}>
      <summary>
        <h2>Connect a forge</h2>
        <span class="aside">and choose from the list of your repositories there: nothing else has to be set up.</span>
      </summary>
      ${connectForm(visit, { isCard: false, of: idOf(owner) })}
    </details>`
  }`;
}

/** The page shows the forges that answer in this time. With `?wait=1` it waits for the full timeout of a call. */
const longestWaitMs = 2500;

interface Asked {
  query: string;
  number: number;
}

function queryOf(query: Record<string, string>): string {
  return `?${new URLSearchParams(query).toString()}`;
}

type Listed = PageOf<ForgeRepository> | { refusal: ApiError } | undefined;

async function repositories(visit: PageVisit, forges: readonly Forge[], owner: Owner): Promise<Html> {
  const within = owner && { organisation: owner.name };
  const query = visit.queryText('query').slice(0, longest.filter);
  const number = Math.max(1, Number.parseInt(visit.queryText('page'), 10) || 1);
  const named = forges.find(({ id_str: id }) => id === visit.queryText('forge'));
  const late = visit.queryText('wait') === '1' ? undefined : pause(longestWaitMs, undefined, { ref: false });
  const tried = await Promise.all(
    (named ? [named] : forges).map(async (forge) => {
      const asked = listAt(visit, forge, { query, number });
      return { forge, listed: await (late ? Promise.race([asked, late]) : asked) };
    }),
  );
  const [first] = tried;
  const found = tried.find(({ listed }) => listed !== undefined) ?? first;
  const chosen = found?.forge;
  const silent = tried.filter(({ listed }) => listed === undefined).map(({ forge }) => silence(forge, within));
  const choices = forges.map(
    ({ id_str: id, login, ...forge }) =>
      html`<a href="${queryOf({ ...within, forge: id })}" ${id === chosen?.id_str && html`aria-current="true"`}
        >${forgeName(forge)} <span class="aside">as ${login}</span></a
      >`,
  );
  const refused = visit.refused?.action === 'build' ? visit.refused.words : undefined;
  return html`<section class="card" aria-labelledby="repositories">
    <h2 id="repositories">Repositories</h2>
    <nav aria-label="Forges" class="tabs sections">${choices}</nav>
    ${refused !== undefined && notice('bad', refused)} ${silent}
    ${filterForm(visit.path, {
      name: 'query',
      label: 'Search',
      value: query,
      most: longest.filter,
      button: 'Search',
      beside: { ...within, forge: chosen?.id_str ?? '' },
    })}
    ${found?.listed && repositoryList(visit, found.forge, found.listed, { query, number, owner })}
  </section>`;
}

async function listAt(visit: PageVisit, { id_str: id }: Forge, { query, number }: Asked): Promise<Listed> {
  try {
    const asked = { params: { forge_id: id }, query: { query, page: number } };
    return await visit.api.list('/forges/:forge_id/repositories', asked);
  } catch (error) {
    if (!(error instanceof ApiError) || error.detail === undefined) throw error;
    return { refusal: error };
  }
}

function silence({ id_str: id, ...forge }: Forge, within: Record<string, string> = {}): Html {
  const words = html`${forgeName(forge)} has not answered within ${longestWaitMs / 1000} seconds.`;
  return notice('bad', html`${words} <a href="${queryOf({ ...within, forge: id, wait: '1' })}">Ask it again</a>`);
}

function repositoryList(
  visit: PageVisit,
  { id_str: id }: Forge,
  listed: NonNullable<Listed>,
  { query, number, owner }: Asked & { owner: Owner },
): Html {
  if ('refusal' in listed) {
    const { detail: words, fields } = listed.refusal;
    const isToken = Object.hasOwn(fields, 'token');
    return notice('bad', html`${words ?? ''} ${isToken && html`<a href="${tokenPath(id)}">Replace token</a>`}`);
  }
  const { items, older, newer } = listed;
  const link = (page: number, text: string, rel: string): Html => {
    const organisation = owner && { organisation: owner.name };
    const search = queryOf({ ...organisation, forge: id, ...(query !== '' && { query }), page: String(page) });
    return html`<a href="${search}" rel="${rel}">${text}</a>`;
  };
  const nothing =
    query === ''
      ? empty('No repositories', 'The account may push to none at this forge.')
      : older
        ? empty('No repository was found so far', `The next page continues the search for “${query}”.`)
        : empty('No repository was found', `None that the account may push to has “${query}” in its name.`);
  const rows = items.map((repository) => repositoryItem(visit, { forge_id: id, ...idOf(owner) }, repository));
  return html`${
    items.length === 0
      ? nothing
      : html`<ul class="acting compact">
          ${rows}
        </ul>`
  }
  ${
    (newer || older) &&
    html`<nav aria-label="Pages" class="pages">
      <span>${newer && link(number - 1, 'Previous', 'prev')}</span> ${older && link(number + 1, 'Next', 'next')}
    </nav>`
  }`;
}

function repositoryItem(visit: PageVisit, at: Record<string, string>, repository: ForgeRepository): Html {
  const { full_name: name, project_id_str: project, archived, may_administer: may } = repository;
  const form = pageForm(visit, 'build', { ...at, repository: name });
  const id = `repository-${name.replaceAll(/[^\w-]/g, '-')}`;
  const about = [
    repository.private && 'private',
    archived && 'archived',
    !may && 'you are no administrator there, so no key and hook can be added',
  ];
  const words = about.filter(Boolean).join(', ');
  return html`<li>
    <span id="${id}"><code>${name}</code> ${words !== '' && html`<span class="aside">${words}</span>`}</span>
    ${
      project === ''
        ? may && !archived && form.wrap(false, { button: 'Build', kind: 'quiet', isInline: true, describedBy: id })
        : html`<a href="/ui/projects/${project}" aria-describedby="${id}">Open project</a>`
    }
  </li>`;
}
