import type { SearchHit } from '../../shared/records/project.ts';
import { html, type Html } from './html.ts';
import { page } from './pages.ts';
import { empty, shortSha, subjectOf } from './parts.ts';
import type { PageRoute } from './site.ts';
import { stateMark } from './states.ts';

/** `browser/search.ts` shows this list in a dialog. */

const titles: Record<SearchHit['kind'], string> = {
  project: 'Projects',
  branch: 'Branches',
  suite: 'Suites',
  commit: 'Commits',
};

function addressOf({ kind, id_str: id, project_id_str: project, name }: SearchHit): string {
  const root = `/ui/projects/${project}`;
  if (kind === 'branch') return `${root}?branch=${encodeURIComponent(name)}`;
  if (kind === 'project') return root;
  return kind === 'suite' ? `${root}/settings/suites/${id}` : `${root}/commits/${id}`;
}

function item(found: SearchHit): Html {
  const { kind, name, ref, project_name: project, build_state: state } = found;
  return html`<li>
    ${state !== '' && stateMark(state, 'State')}
    <span>
      <a href="${addressOf(found)}">${kind === 'commit' ? subjectOf(name) : name}</a>
      ${
        kind !== 'project' &&
        html`<span class="aside">${project} ${ref !== '' && html`<code>${shortSha(ref)}</code>`}</span>`
      }
    </span>
  </li>`;
}

function results(found: readonly SearchHit[], wanted: string): Html {
  if (wanted === '') return empty('Search', 'By name of a project, branch or suite, or by message or SHA of a commit.');
  if (found.length === 0)
    return empty('Nothing found', `No project, branch, suite or commit of yours has “${wanted}”.`);
  const groups = Map.groupBy(found, ({ kind }) => kind);
  return html`${Array.from(
    groups,
    ([kind, some]) =>
      html`<h2>${titles[kind]}</h2>
        <ul class="card rows found">
          ${some.map(item)}
        </ul>`,
  )}`;
}

/** Truncates the text to the API's limit, because a user may paste a whole log. */
function searchable(typed: string): string {
  return typed
    .replaceAll(/\p{Cc}+/gu, ' ')
    .trim()
    .slice(0, 200)
    .toWellFormed();
}

export const routes: PageRoute[] = page({
  path: '/ui/search',
  async show({ api, queryText }) {
    const wanted = searchable(queryText('q'));
    const found = wanted === '' ? [] : await api.get('/search', { query: { q: wanted } });
    return {
      title: wanted === '' ? 'Search' : `Search: ${wanted}`,
      searched: wanted,
      main: html`<h1>Search</h1>
        <div id="found">${results(found, wanted)}</div>`,
    };
  },
});
