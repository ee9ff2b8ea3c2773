import type { OrganisationView } from '../../shared/records/organisation.ts';
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

function ownerLink(href: string, name: string, isChosen: boolean): Html {
  return html`<a href="${href}" ${isChosen && html`aria-current="true"`}>${name}</a>`;
}

/** Only asked if there is a choice. */
function ownerChoice(organisations: readonly OrganisationView[], owner: OrganisationView | undefined): Html | false {
  if (organisations.length === 0) return false;
  return html`<nav aria-label="Owner" class="tabs sections">
    <span class="aside">Owner:</span>
    ${ownerLink(path, 'You', owner === undefined)}
    ${organisations.map(({ id_str: id, name }) =>
      ownerLink(`${path}?${new URLSearchParams({ organisation: name }).toString()}`, name, id === owner?.id_str),
    )}
  </nav>`;
}

/** A form that was refused has the owner's number. */
function ownerIn({ queryText, formText }: PageVisit, organisations: readonly OrganisationView[]) {
  return organisations.find(
    ({ id_str: id, name }) => name === queryText('organisation') || id === formText('organisation_id'),
  );
}

async function managed({ api }: PageVisit): Promise<OrganisationView[]> {
  return (await api.get('/organisations')).filter(({ role }) => role === 'owner' || role === 'maintainer');
}

const path = '/ui/projects/new';

export const routes = page({
  path,
  async show(visit) {
    await visit.api.admit('POST /projects');
    const organisations = await managed(visit);
    const owner = ownerIn(visit, organisations);
    const of = owner && { organisation_id: owner.id_str };
    const form = recordForm(visit, 'create', newProjectForm, undefined, of);
    return {
      title: 'New project',
      main: html`<h1>New project</h1>
        ${steps(1)} ${ownerChoice(organisations, owner)} ${await forgeChoice(visit, owner)}
        <h2>By hand</h2>
        ${form.wrap(form.fields(), { button: 'Create project', isCard: true, label: 'New project' })}`,
    };
  },
  actions: {
    connect: {
      route: 'POST /forges',
      async done({ id_str: id }, visit) {
        const owner = ownerIn(visit, await managed(visit));
        const query = new URLSearchParams({ ...(owner && { organisation: owner.name }), forge: id });
        return { goTo: `${path}?${query.toString()}`, notice: 'forge_connected' };
      },
    },
    build: {
      route: 'POST /projects',
      done: ({ id_str: id }) => ({ goTo: `/ui/projects/${id}/setup` }),
    },
    create: {
      route: 'POST /projects',
      fields: withPastedAddress,
      done: ({ id_str: id }) => ({ goTo: `/ui/projects/${id}/setup` }),
    },
  },
});
