import { connectForm, forgeName, forgePath } from './forges.ts';
import { pageForm, recordForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { ago } from './moments.ts';
import { manages, type Shown } from './organisation-page.ts';
import type { NoticeName } from './notices.ts';
import type { PageVisit } from './pages.ts';
import { beside, cursors, empty, pagination, section, table } from './parts.ts';
import { registryForm } from './registries.ts';
import { stateBadge } from './states.ts';

export async function forgesPart({ visit, organisation, of }: Shown): Promise<Html> {
  const forges = await visit.api.get('/forges', { query: of });
  const isOwner = organisation.role === 'owner';
  const rows = forges.map((forge) => {
    const { id_str: id, url, login, state, state_reason: reason } = forge;
    return html`<tr>
      <td>${isOwner ? html`<a href="${forgePath(id)}">${forgeName(forge)}</a>` : forgeName(forge)}</td>
      <td><code>${url}</code></td>
      <td>${login}</td>
      <td>${stateBadge(state)} ${reason}</td>
    </tr>`;
  });
  const none = empty('No forges yet', 'Projects of a connected forge are set up in one step.');
  return section(
    'forges',
    'Forges',
    html`${table('List of forges', ['Forge', 'Address', 'Account there', 'State'], rows, { none })}
    ${
      isOwner &&
      html`<details class="card readable" ${visit.refused?.action === 'connect' && html`open`}>
        <summary>Connect a forge</summary>
        ${connectForm(visit, { isCard: false, of })}
      </details>`
    }`,
    { isTarget: true },
  );
}

export async function registriesPart({ visit, of }: Shown): Promise<Html> {
  const registries = await visit.api.get('/registries', { query: of });
  const form = recordForm(visit, 'add_registry', registryForm, undefined, of);
  const rows = registries.map(
    ({ id_str: id, host, username }) =>
      html`<tr>
        <td id="registry-${id}"><code>${host}</code></td>
        <td>${username}</td>
        <td class="number">
          ${pageForm(visit, 'remove_registry', { registry_id: id }).wrap(false, {
            button: 'Delete',
            kind: 'quiet',
            describedBy: `registry-${id}`,
          })}
        </td>
      </tr>`,
  );
  const none = empty('No credentials yet', 'Images that anybody may pull need none.');
  return section(
    'registries',
    'Registries',
    beside(
      table('List of registries', ['Host', 'User name', 'Actions'], rows, { none }),
      form.wrap(form.fields(), { button: 'Add registry', isCard: true, label: 'New registry' }),
    ),
    { isTarget: true },
  );
}

export async function dependenciesPart(shown: Shown): Promise<Html> {
  const { visit, organisation, of } = shown;
  const dependencies = await visit.api.get('/dependencies', { query: of });
  const rows = dependencies.map(
    ({ id_str: id, name, marketplace_state: state, description }) =>
      html`<tr>
        <td><a href="/ui/dependencies/${id}">${name}</a></td>
        <td>${stateBadge(state)}</td>
        <td class="brief">${description}</td>
      </tr>`,
  );
  const none = empty('No dependencies yet', 'Software that suites of its projects need and the machine does not have.');
  return section(
    'dependencies',
    'Dependencies',
    html`${table('List of dependencies', ['Name', 'State', 'Description'], rows, { none })}
    ${
      manages(shown) &&
      html`<p>
        <a class="button" href="/ui/dependencies/new?organisation=${organisation.name}">New dependency</a>
      </p>`
    }`,
  );
}

export async function runnersPart({ visit, organisation, of }: Shown): Promise<Html> {
  const runners = await visit.api.get('/organisations/:organisation_id/runners', { params: of });
  const rows = runners.map(
    ({ name, state, version, work }) =>
      html`<tr>
        <td>${name}</td>
        <td>${stateBadge(state)}</td>
        <td>${version}</td>
        <td class="number">${work.length}</td>
      </tr>`,
  );
  const none = empty(
    'No runners of its own',
    html`Builds run on the runners of the server. An operator creates one with
      <code>headrace admin runner create NAME --organisation ${organisation.name}</code>.`,
  );
  return section('runners', 'Runners', table('List of runners', ['Name', 'State', 'Version', 'Jobs'], rows, { none }));
}

export async function auditPart({ visit, of }: Shown): Promise<Html> {
  const query = { ...cursors(visit), limit: 20 };
  const entries = await visit.api.list('/organisations/:organisation_id/audit', { params: of, query });
  const rows = entries.items.map(
    ({ created_at: at, action, actor, subject }) =>
      html`<tr>
        <td>${ago(at)}</td>
        <td>${actor?.email ?? '–'}</td>
        <td><code>${action}</code></td>
        <td>${subject.name}</td>
      </tr>`,
  );
  return section(
    'audit',
    'Audit',
    html`${table('Entries', ['When', 'Who', 'What', 'On'], rows)} ${pagination(entries, { path: visit.path })}`,
  );
}

function goingTo(part: string, notice: NoticeName) {
  return (_: unknown, { path }: PageVisit) => ({ goTo: `${path}#${part}`, notice });
}

/** The page with these parts needs these actions. */
export const recordActions = {
  connect: { route: 'POST /forges', done: goingTo('forges', 'forge_connected') },
  add_registry: { route: 'POST /registries', done: goingTo('registries', 'added') },
  remove_registry: { route: 'DELETE /registries/:registry_id', done: goingTo('registries', 'deleted') },
} as const;
