import { identifier, required } from '../../shared/records/fields.ts';
import type { SuiteDependency } from '../../shared/records/suite.ts';
import { fieldTable, type Choices } from './controls.ts';
import { pageForm, recordForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { orMissing, section, table } from './parts.ts';
import type { ProjectVisit } from './project-pages.ts';
import { deletionButton, deletionPage } from './resource-pages.ts';
import { settingsPage } from './settings.ts';
import type { PageRoute } from './site.ts';
import { suitePath } from './suite-rules.ts';

const of = '/projects/:project_id/suites/:suite_id/dependencies';
const mostShared = 1000;

const dependencyForm = fieldTable(
  { dependency_id: required(identifier()) },
  { dependency_id: { label: 'Dependency', wrong: 'This is not the number of a dependency.' } },
);

/** A field for the ID. A collaborator cannot list the owner's dependencies, but can enter an ID. */
const byNumber = {
  hint: html`The number of a dependency: of one that the owner of the project has told you, or of a shared one, as it is
  in its address.`,
};

export async function dependenciesPart(visit: ProjectVisit, all: Choices | undefined): Promise<Html> {
  const attached = await visit.api.get(of);
  const form = recordForm(visit, 'add_dependency', dependencyForm);
  const choices = all?.filter(([id]) => !attached.some(({ id_ref: is }) => is === id));
  const field = form.field('dependency_id', choices ? { choices } : byNumber);
  const rows = attached.map((one) => row(visit, one));
  return section(
    'dependencies',
    'Dependencies',
    html`<p class="aside">Dependencies are mounted at their prefixes when the command runs, layered in this order.</p>
      ${attached.length > 0 && table('List of dependencies', ['Name', 'Prefix', 'Launch command', 'Actions'], rows)}
      ${
        choices?.length === 0
          ? html`<p class="card aside">
              There is nothing to add: <a href="/ui/dependencies/new">describe a dependency</a> of yours first, or wait
              until a user shares one.
            </p>`
          : form.wrap(field, { button: 'Add dependency', kind: 'plain', isCard: true, label: 'New dependency' })
      }`,
    { isTarget: true },
  );
}

/** Undefined for a collaborator, who cannot list the owner's dependencies. */
export async function dependencyChoices({ api, project }: ProjectVisit): Promise<Choices | undefined> {
  if (!project.owned) return undefined;
  const own = await api.get('/dependencies');
  const { items: shared } = await api.list('/marketplace', { query: { limit: mostShared } });
  const taken = new Set(own.map(({ id_str: id }) => id));
  return [
    ...own.map(({ id_str: id, name }) => [id, name] as const),
    ...shared
      .filter(({ id_str: id }) => !taken.has(id))
      .map(({ id_str: id, name }) => [id, `${name} (shared)`] as const),
  ];
}

function row(visit: ProjectVisit, dependency: SuiteDependency): Html {
  const { id_ref: id, name, prefix, launch_command: launch, update_available: isBehind } = dependency;
  const nameId = `dependency-${id}`;
  const update = pageForm(visit, 'update_dependency', { dependency_id: id });
  return html`<tr>
    <td><a id="${nameId}" href="/ui/dependencies/${id}">${name}</a></td>
    <td><code>${prefix}</code></td>
    <td><code class="brief">${launch}</code></td>
    <td class="number">
      <div class="row end">
        ${
          isBehind &&
          html`<span>Something newer is shared.</span>
            ${update.wrap(false, { button: 'Update', kind: 'quiet', describedBy: nameId })}`
        }
        ${deletionButton(`${visit.path}/dependencies/${id}/delete`, nameId)}
      </div>
    </td>
  </tr>`;
}

export const routes: PageRoute[] = deletionPage({
  frame: settingsPage,
  path: '/suites/:suite_id/dependencies/:dependency_id/delete',
  route: `DELETE ${of}/:dependency_id`,
  read: async ({ api, param }: ProjectVisit) =>
    orMissing((await api.get(of)).find(({ id_ref: id }) => id === param('dependency_id'))),
  question: ({ name }) => `Take ${name} off this suite?`,
  goes: ({ name }) =>
    html`<p>
      Builds of the suite that begin from now on do not have <strong>${name}</strong>. The dependency itself stays. If
      it is another account&rsquo;s, what the suite has of it goes: added again, it is what is shared then.
    </p>`,
  back: (visit) => `${suitePath(visit)}#dependencies`,
});
