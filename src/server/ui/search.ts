import type { SearchHit } from '../../shared/records/project.ts';
import { html, type Html } from './html.ts';
import { page, type PageVisit } from './pages.ts';
import { empty, shortSha, subjectOf } from './parts.ts';
import { sectionsNamed } from './settings.ts';
import type { PageRoute } from './site.ts';
import { stateMark } from './states.ts';

/** `browser/search.ts` shows this list in a dialog. */

const titles: Record<SearchHit['kind'], string> = {
  project: 'Projects',
  branch: 'Branches',
  suite: 'Suites',
  commit: 'Commits',
  test: 'Tests',
};

function addressOf({ kind, id_str: id, project_id_str: project, name }: SearchHit): string {
  const root = `/ui/projects/${project}`;
  if (kind === 'branch') return `${root}?branch=${encodeURIComponent(name)}`;
  if (kind === 'project') return root;
  if (kind === 'test') return `${root}/builds/${id}/tests?${new URLSearchParams({ filter: name }).toString()}`;
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
        html`<span class="aside"
          >${project} ${kind === 'test' ? ref : ref !== '' && html`<code>${shortSha(ref)}</code>`}</span
        >`
      }
    </span>
  </li>`;
}

interface SettingsFound {
  path: string;
  name: string;
  project: string;
}

const mostSettings = 10;

/** The settings that the words name: of the projects that the other words name, the newest first. */
async function settingsFor({ api }: PageVisit, wanted: string): Promise<SettingsFound[]> {
  const { sections, rest } = sectionsNamed(wanted);
  if (sections.length === 0) return [];
  const projects = (await api.get('/projects'))
    .filter(({ name }) => rest.every((word) => name.toLowerCase().includes(word)))
    .toSorted((a, b) => (a.id > b.id ? -1 : 1));
  return projects
    .slice(0, mostSettings)
    .flatMap(({ id_str: id, name: project, owned }) =>
      sections
        .filter(({ isOwners }) => owned || !isOwners)
        .map(({ path, name }) => ({ path: `/ui/projects/${id}/settings${path}`, name, project })),
    )
    .slice(0, mostSettings);
}

function settingsList(found: readonly SettingsFound[]): Html | false {
  if (found.length === 0) return false;
  return html`<h2>Settings</h2>
    <ul class="card rows found">
      ${found.map(
        ({ path, name, project }) =>
          html`<li>
            <span><a href="${path}">${name}</a> <span class="aside">${project}</span></span>
          </li>`,
      )}
    </ul>`;
}

function results(found: readonly SearchHit[], settings: readonly SettingsFound[], wanted: string): Html {
  if (wanted === '')
    return empty('Search', 'By name of a project, branch, suite, test or setting, or by message or SHA of a commit.');
  if (found.length + settings.length === 0)
    return empty('Nothing found', `No project, branch, suite, commit, test or setting of yours has “${wanted}”.`);
  const groups = Map.groupBy(found, ({ kind }) => kind);
  return html`${Array.from(
    groups,
    ([kind, some]) =>
      html`<h2>${titles[kind]}</h2>
        <ul class="card rows found">
          ${some.map(item)}
        </ul>`,
  )}
  ${settingsList(settings)}`;
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
  async show(visit) {
    const { api, queryText } = visit;
    const wanted = searchable(queryText('q'));
    const found = wanted === '' ? [] : await api.get('/search', { query: { q: wanted } });
    return {
      title: wanted === '' ? 'Search' : `Search: ${wanted}`,
      searched: wanted,
      main: html`<h1>Search</h1>
        <div id="found">${results(found, wanted === '' ? [] : await settingsFor(visit, wanted), wanted)}</div>`,
    };
  },
});
