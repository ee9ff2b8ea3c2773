import { formatBytes } from '../../shared/lib/byte-units.ts';
import { html } from './html.ts';
import { ago } from './moments.ts';
import { empty, orMissing, table } from './parts.ts';
import type { ProjectVisit } from './project-pages.ts';
import { deletionButton, deletionPage } from './resource-pages.ts';
import { settingsPage, settingsPath } from './settings.ts';
import type { PageRoute } from './site.ts';
import type { VisitApi } from './visit-api.ts';

const of = '/projects/:project_id/caches';

/** The label for a suite that the project does not have. */
const ofBranch = 'a suite of the branch’s own file';

async function suiteNames(api: VisitApi): Promise<Map<string, string>> {
  const suites = await api.get('/projects/:project_id/suites');
  return new Map(suites.map(({ id_str: id, name }) => [id, name]));
}

const list = settingsPage({
  path: '/caches',
  async show({ api, path }) {
    const caches = await api.get(of);
    const names = await suiteNames(api);
    return {
      title: 'Caches',
      main: html`<div class="title">
          <h1>Caches</h1>
          ${caches.length > 0 && html`<a class="button danger" href="${path}/delete">Delete all</a>`}
        </div>
        <p class="aside">
          A passed build stores the cached paths of its suite. The next build on the branch restores them. A new branch
          starts with the cache of the default branch. A deleted cache is created again by the next build that passes.
        </p>
        ${table(
          'Caches',
          ['Suite', 'Branch', 'Size', 'Last used', 'Actions'],
          caches.map(
            (cache) =>
              html`<tr>
                <td id="cache-${cache.id_str}">${names.get(cache.suite_id_str) ?? ofBranch}</td>
                <td><code>${cache.branch}</code></td>
                <td class="nowrap">${formatBytes(cache.size)}</td>
                <td>used ${ago(cache.last_used_at)}, saved ${ago(cache.created_at)}</td>
                <td class="number">${deletionButton(`${path}/${cache.id_str}/delete`, `cache-${cache.id_str}`)}</td>
              </tr>`,
          ),
          { none: empty('No caches yet', 'Name paths to cache in the settings of a suite.') },
        )}`,
    };
  },
});

const deletion = deletionPage({
  frame: settingsPage,
  path: '/caches/:cache_id/delete',
  route: `DELETE ${of}/:cache_id`,
  async read({ api, param }: ProjectVisit) {
    const cache = orMissing((await api.get(of)).find(({ id_str: id }) => id === param('cache_id')));
    return { ...cache, suite: (await suiteNames(api)).get(cache.suite_id_str) ?? ofBranch };
  },
  question: ({ branch }) => `Delete the cache of ${branch}?`,
  goes: ({ suite, branch, size }) =>
    html`<p>
      The cache of <strong>${suite}</strong> on <strong>${branch}</strong> is deleted (${formatBytes(size)}). The next
      build starts without it, or with the cache of the default branch.
    </p>`,
  back: (visit) => `${settingsPath(visit)}/caches`,
});

const deletionOfAll = deletionPage({
  frame: settingsPage,
  path: '/caches/delete',
  route: `DELETE ${of}`,
  read: ({ api }: ProjectVisit) => api.get(of),
  question: () => 'Delete all caches?',
  goes: ({ length }) =>
    html`<p>
      ${length === 1 ? 'The one cache' : `All ${length} caches`} of this project ${length === 1 ? 'goes' : 'go'}. The
      next build of each suite starts without a cache.
    </p>`,
  back: (visit) => `${settingsPath(visit)}/caches`,
});

export const routes: PageRoute[] = [...list, ...deletion, ...deletionOfAll];
