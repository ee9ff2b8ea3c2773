import { groupOf } from '../../shared/records/raw.ts';
import { newProjectForm, withPastedAddress } from './addresses.ts';
import { forgeChoice } from './forge-repositories.ts';
import { recordForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { page, type PageVisit } from './pages.ts';

export function steps(current: 1 | 2 | 3, second = 'Connection'): Html {
  const names = ['Name and repository', second, 'First suite'];
  return html`<ol class="steps" aria-label="Steps">
    ${names.map(
      (name, at) =>
        html`<li ${at + 1 === current && html`aria-current="step"`}>Step ${at + 1} of 3<span>${name}</span></li>`,
    )}
  </ol>`;
}

/** Only asked if there is a choice. */
async function ownerChoice({ api, queryText }: PageVisit): Promise<Html | false> {
  const organisations = (await api.get('/organisations')).filter(
    ({ role }) => role === 'owner' || role === 'maintainer',
  );
  if (organisations.length === 0) return false;
  return html`<div class="field">
    <label for="owner">Owner</label>
    <select id="owner" name="organisation_id">
      <option value="">You</option>
      ${organisations.map(
        ({ id_str: id, name }) =>
          html`<option value="${id}" ${name === queryText('organisation') && html`selected`}>${name}</option>`,
      )}
    </select>
  </div>`;
}

export const routes = page({
  path: '/ui/projects/new',
  async show(visit) {
    await visit.api.admit('POST /projects');
    const form = recordForm(visit, 'create', newProjectForm);
    const owner = await ownerChoice(visit);
    return {
      title: 'New project',
      main: html`<h1>New project</h1>
        ${steps(1)} ${await forgeChoice(visit)}
        <h2>By hand</h2>
        ${form.wrap(html`${owner} ${form.fields()}`, { button: 'Create project', isCard: true, label: 'New project' })}`,
    };
  },
  actions: {
    connect: {
      route: 'POST /forges',
      done: ({ id_str: id }) => ({ goTo: `/ui/projects/new?forge=${id}`, notice: 'forge_connected' }),
    },
    build: {
      route: 'POST /projects',
      done: ({ id_str: id }) => ({ goTo: `/ui/projects/${id}/setup` }),
    },
    create: {
      route: 'POST /projects',
      fields(form) {
        const { organisation_id: organisation, ...rest } = withPastedAddress(form);
        return groupOf(organisation ? { ...rest, organisation_id: organisation } : rest);
      },
      done: ({ id_str: id }) => ({ goTo: `/ui/projects/${id}/setup` }),
    },
  },
});
