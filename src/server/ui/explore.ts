import { longest } from '../../shared/domain/bounds.ts';
import type { PublicProject } from '../../shared/records/project.ts';
import { html, type Html } from './html.ts';
import { openPage } from './pages.ts';
import { cursors, empty, filterForm, pagination } from './parts.ts';
import type { PageRoute } from './site.ts';
import { stateBadge } from './states.ts';

export const explorePath = '/ui/explore';

const onPage = 50;

function item({ id_str: id, name, organisation, description, build_state: state }: PublicProject): Html {
  return html`<li class="row">
    <span class="public-state">${stateBadge(state)}</span>
    <span class="public-name">
      <a href="/ui/projects/${id}">${organisation !== '' && html`${organisation} / `}<b>${name}</b></a>
      ${description !== '' && html`<span class="aside brief">${description}</span>`}
    </span>
  </li>`;
}

export const routes: PageRoute[] = openPage({
  path: explorePath,
  async show(visit) {
    const filter = visit
      .queryText('filter')
      .replaceAll(/\p{Cc}+/gu, ' ')
      .trim()
      .slice(0, longest.filter)
      .toWellFormed();
    const { before, after } = cursors(visit);
    const query = { filter, before, after, limit: onPage };
    const projects = await visit.api.list('/public_projects', { query });
    const none =
      filter === ''
        ? empty('No public projects', 'The owner of a project makes it public in its settings.')
        : empty('Nothing found', `No public project has “${filter}” in its name.`);
    return {
      title: 'Public projects',
      main: html`<div class="title">
          <h1>Public projects</h1>
          <div class="row">
            ${filterForm(explorePath, { name: 'filter', label: 'Name', value: filter, most: longest.filter, button: 'Show' })}
          </div>
        </div>
        ${
          projects.items.length === 0
            ? none
            : html`<ul class="card rows">
                ${projects.items.map(item)}
              </ul>`
        }
        ${pagination(projects, { path: explorePath, query: { filter } })}`,
    };
  },
});
