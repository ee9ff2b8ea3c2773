import type { SuiteDependency } from '../../shared/records/suite.ts';
import { html, type Html } from './html.ts';
import { pageForm, type PageForm } from './forms.ts';
import { orMissing, table } from './parts.ts';
import { deletionButton, deletionPage, type ProjectVisit } from './project-pages.ts';
import type { PageRoute } from './site.ts';
import { suitePath } from './suite-rules.ts';

interface Choice {
  id_str: string;
  name: string;
}

const of = '/projects/:project_id/suites/:suite_id/dependencies';
const mostShared = 1000;

export async function dependenciesPart(visit: ProjectVisit): Promise<Html> {
  const attached = await visit.api.get(of);
  const form = pageForm(visit, 'add_dependency');
  const field = visit.project.owned ? await choiceField(visit, form, attached) : numberField(form);
  return html`<section id="dependencies" aria-labelledby="dependencies-title">
    <h2 id="dependencies-title">Dependencies</h2>
    <p class="aside">Software that stands at its prefix when the command runs, laid over each other in this order.</p>
    ${
      attached.length > 0 &&
      table(
        'List of dependencies',
        ['Name', 'Prefix', 'Launch command', 'Actions'],
        attached.map((one) => row(visit, one)),
      )
    }
    ${
      field === undefined
        ? html`<p class="card aside">
            There is nothing to add: <a href="/ui/dependencies/new">describe a dependency</a> of yours first, or wait
            until somebody shares one.
          </p>`
        : form.wrap(field, { button: 'Add dependency', kind: 'plain', isCard: true, label: 'New dependency' })
    }
  </section>`;
}

async function choiceField(
  { api }: ProjectVisit,
  form: PageForm,
  attached: SuiteDependency[],
): Promise<Html | undefined> {
  const own = await api.get('/dependencies');
  const { items: shared } = await api.list('/marketplace', { query: { limit: mostShared } });
  const taken = new Set([...attached.map(({ id_ref: id }) => id), ...own.map(({ id_str: id }) => id)]);
  const choices = [
    ...own.filter(({ id_str: id }) => !attached.some((one) => one.id_ref === id)).map((one) => choice(one, '')),
    ...shared.filter(({ id_str: id }) => !taken.has(id)).map((one) => choice(one, ' (shared)')),
  ];
  return choices.length === 0 ? undefined : form.select('dependency_id', 'Dependency', choices);
}

function choice({ id_str: id, name }: Choice, note: string): readonly [string, string] {
  return [id, `${name}${note}`];
}

/** A collaborator cannot list the owner's dependencies, but can enter an identifier. */
function numberField(form: PageForm): Html {
  return form.text('dependency_id', 'Dependency', {
    required: true,
    hint: html`The number of a dependency: of one that the owner of the project has told you, or of a shared one, as it
    stands in its address.`,
    wrong: 'This is not the number of a dependency.',
  });
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
      <div class="actions end">
        ${
          isBehind &&
          html`<span>Something newer is shared.</span>
            ${update.wrap(html``, { button: 'Update', kind: 'quiet', describedBy: nameId })}`
        }
        ${deletionButton(`${visit.path}/dependencies/${id}/delete`, nameId)}
      </div>
    </td>
  </tr>`;
}

export const routes: PageRoute[] = deletionPage({
  path: '/suites/:suite_id/dependencies/:dependency_id/delete',
  route: `DELETE ${of}/:dependency_id`,
  async what(visit) {
    const attached = await visit.api.get(of);
    const { name } = orMissing(attached.find(({ id_ref: id }) => id === visit.param('dependency_id')));
    return {
      title: `Take ${name} off this suite?`,
      goes: html`<p>
        Builds of the suite that begin from now on do not have <strong>${name}</strong>. The dependency itself stays. If
        it is another account&rsquo;s, what the suite has of it goes: added again, it is what is shared then.
      </p>`,
    };
  },
  back: (visit) => `${suitePath(visit)}#dependencies`,
});
