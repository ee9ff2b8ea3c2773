import type { OwnDependency } from '../../shared/records/dependency.ts';
import { longest } from '../../shared/domain/bounds.ts';
import { formatBytes } from '../../shared/lib/byte-units.ts';
import { dependencyForm, dependencyParts } from './dependency-form.ts';
import { html, type Html } from './html.ts';
import { recordForm } from './forms.ts';
import { page } from './pages.ts';
import { cursors, empty, filterForm, pagination, table } from './parts.ts';
import type { PageRoute } from './site.ts';
import { stateBadge } from './states.ts';

const list = page({
  path: '/ui/dependencies',
  async show(visit) {
    const dependencies = await visit.api.get('/dependencies');
    return {
      title: 'Dependencies',
      live: ['dependencies'],
      main: html`<div class="title">
          <h1>Dependencies</h1>
          <a class="button main" href="/ui/dependencies/new">New dependency</a>
        </div>
        <div id="list" data-live>
          ${table('Dependencies', ['Name', 'State', 'Source', 'Description'], dependencies.map(row), {
            none: empty(
              'No dependencies yet',
              html`A dependency is software that your suites need and the machine does not have. You upload its source;
                it is compiled once, and is ready in every build. Shared dependencies of other users are in the
                <a href="/ui/marketplace">marketplace</a>.`,
            ),
          })}
        </div>`,
    };
  },
});

function row({
  id_str: id,
  name,
  marketplace_state: state,
  archive_file_size: size,
  description,
}: OwnDependency): Html {
  return html`<tr id="dependency-${id}">
    <td><a href="/ui/dependencies/${id}">${name}</a></td>
    <td>${stateBadge(state)}</td>
    <td class="nowrap">${size === null ? '–' : formatBytes(size)}</td>
    <td class="brief">${description}</td>
  </tr>`;
}

const creation = page({
  path: '/ui/dependencies/new',
  async show(visit) {
    const organisations = await visit.api.get('/organisations');
    const owner = organisations.find(
      ({ id_str: id, name }) => name === visit.queryText('organisation') || id === visit.formText('organisation_id'),
    );
    const form = recordForm(visit, 'create', dependencyForm, undefined, owner && { organisation_id: owner.id_str });
    return {
      title: 'New dependency',
      main: html`<h1>New dependency</h1>
        <p>
          ${owner && html`It will belong to <strong>${owner.name}</strong>.`} First say how it is compiled. Its source
          is uploaded next.
        </p>
        ${form.wrap(await dependencyParts(visit, form), { button: 'Create dependency', isCard: true, label: 'New dependency' })}`,
    };
  },
  actions: {
    create: {
      route: 'POST /dependencies',
      done: ({ id }) => ({ goTo: `/ui/dependencies/${id}`, notice: 'created' }),
    },
  },
});

const marketplace = page({
  path: '/ui/marketplace',
  async show(visit) {
    const name = visit.queryText('name').slice(0, longest.name);
    const found = await visit.api.list('/marketplace', { query: { limit: 50, name, ...cursors(visit) } });
    return {
      title: 'Marketplace',
      live: ['dependencies'],
      main: html`<h1>Marketplace</h1>
        <p>Dependencies that every account may use. Add them to a suite in the settings of a project.</p>
        ${filterForm('/ui/marketplace', { name: 'name', label: 'Name', value: name, most: longest.name, button: 'Search' })}
        <div id="list" data-live>
          ${
            found.items.length === 0
              ? name === ''
                ? empty('No shared dependencies yet', 'To share a dependency that you have compiled, open its page.')
                : empty('Nothing like that is shared', html`No name has <strong>${name}</strong> in it.`)
              : table('Shared dependencies', ['Name', 'Prefix', 'Description'], found.items.map(sharedRow))
          }
        </div>
        ${pagination(found, { path: '/ui/marketplace', query: { name } })}`,
    };
  },
});

function sharedRow({ id_str: id, name, prefix, description }: OwnDependency): Html {
  return html`<tr id="dependency-${id}">
    <td><a href="/ui/dependencies/${id}">${name}</a></td>
    <td><code>${prefix}</code></td>
    <td class="brief">${description}</td>
  </tr>`;
}

export const routes: PageRoute[] = [...list, ...creation, ...marketplace];
