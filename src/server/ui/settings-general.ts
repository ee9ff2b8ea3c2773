import { identifier, required, text } from '../../shared/records/fields.ts';
import { projectFields, type Project } from '../../shared/records/project.ts';
import { isOpen, newProjectForm, withPastedAddress } from './addresses.ts';
import { fieldTable } from './controls.ts';
import { recordForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { copyable, counted, fact, section } from './parts.ts';
import { connectionPart } from './project-forge.ts';
import type { ProjectVisit } from './project-pages.ts';
import { deletionButton, deletionPage } from './resource-pages.ts';
import { settingsPage, settingsPath } from './settings.ts';
import type { PageRoute } from './site.ts';
import { addProjectVariable, projectVariables } from './variables.ts';

const projectForm = fieldTable(projectFields, {
  ...newProjectForm.texts,
  config_file: {
    label: 'File in the repository',
    isCode: true,
    hint: html`Such as <code>.headrace.toml</code>: each commit is then built by the suites of its own file, and on the
      default branch the project is made what the file says. Anyone who can push can change it. Blank for none.`,
    wrong: 'This is no path in the repository that ends in .toml, .yml, .yaml or .json.',
  },
  public: {
    label: 'Public',
    hint: 'Anybody may read its commits, builds, logs, tests and artifacts, without an account. Check what your builds print first.',
  },
  includable: {
    label: 'Files of other projects may include files of its repository',
    hint: 'Only projects of the same account. Whoever may push to one of them can then use the templates in these files.',
  },
  branch_secrets: {
    label: 'Secrets for new suites of branches',
    hint: 'A suite that only the file of a branch has gets the variables of the project, and may have any tags.',
  },
});

const general = settingsPage({
  path: '',
  showsSecrets: true,
  async show(visit) {
    const { project, path } = visit;
    const form = recordForm(visit, 'save', projectForm, project);
    return {
      title: 'Settings',
      main: html`<h1>General</h1>
        ${project.owned ? form.wrap(form.fields(), { button: 'Save', isCard: true, label: 'Project' }) : factsOf(visit)}
        ${project.owned && (await transferPart(visit))} ${await connectionPart(visit)} ${keyPart(visit)}
        ${await projectVariables(visit)}
        ${
          project.owned &&
          section(
            'deletion',
            'Delete this project',
            html`<p>The next page lists everything that goes with it, and asks once.</p>
              ${deletionButton(`${path}/delete`)}`,
            { isCard: true },
          )
        }`,
    };
  },
  actions: {
    save: { route: 'PUT /projects/:project_id', fields: withPastedAddress, done: 'saved' },
    transfer: { route: 'POST /projects/:project_id/transfer', done: handedOver },
    offer: { route: 'POST /projects/:project_id/transfer', done: handedOver },
    add_variable: addProjectVariable,
    connect: { route: 'POST /projects/:project_id/connect', done: 'mended' },
  },
});

async function transferPart(visit: ProjectVisit): Promise<Html> {
  const organisations = await visit.api.get('/organisations');
  const managed = organisations.filter(({ role }) => role === 'owner' || role === 'maintainer');
  const others = managed.filter(({ id }) => id !== visit.project.organisation_id);
  const toOne = recordForm(
    visit,
    'transfer',
    fieldTable(
      { organisation_id: identifier() },
      {
        organisation_id: { label: 'Organisation', choices: others.map(({ id_str: id, name }) => [id, name] as const) },
      },
    ),
  );
  const toPerson = recordForm(visit, 'offer', personForm);
  return section(
    'transfer',
    'Hand over',
    html`<p class="aside">Running jobs continue. Hooks, keys, addresses and collaborators stay.</p>
      ${others.length > 0 && toOne.wrap(toOne.fields(), { button: 'Hand over to the organisation', kind: 'plain', label: 'To an organisation' })}
      ${toPerson.wrap(toPerson.fields(), { button: 'Offer to the person', kind: 'plain', label: 'To a person' })}`,
    { isCard: true },
  );
}

function handedOver({ owned }: Project, { path }: { path: string }) {
  return { goTo: owned ? path : '/ui/', notice: 'handed_over' as const };
}

const personForm = fieldTable(
  { email: required(text('email')) },
  {
    email: {
      label: 'E-mail of the new owner',
      type: 'email',
      hint: 'They accept on their dashboard. Until then the project stays here.',
      wrong: 'No user with this address can own projects here.',
    },
  },
);

function keyPart({ project, projectPath }: ProjectVisit): Html {
  return section(
    'key',
    'SSH key',
    html`<p>${keyUse(project)}</p>
      ${copyable(project.ssh_public_key, 'ssh-key')}
      <p><a href="${projectPath}/setup#key">Check connection</a></p>`,
    { isCard: true },
  );
}

function keyUse(project: ProjectVisit['project']): string {
  if (project.forge_state !== 'none' && isOpen(project))
    return 'The repository is read with the token of its forge. Deploys are pushed with this key: install it where they go.';
  if (project.forge_state !== 'none')
    return 'The connection has put this key into the repository, where it may read. To deploy with it, install it where deploys go.';
  return isOpen(project)
    ? 'The repository is read without it. Deploys are pushed with it: install it where they go.'
    : 'With this key the repository is read, and deploys are pushed. Install it where the repository is hosted.';
}

function factsOf({ project }: ProjectVisit): Html {
  const { clone_url: url, description, config_file: file } = project;
  return html`<section class="card" aria-label="Project">
    <dl>
      ${fact('Repository address', html`<code>${url}</code>`)} ${fact('Description', description || '–')}
      ${fact('File in the repository', file === '' ? '–' : html`<code>${file}</code>`)}
    </dl>
    <p class="aside">Only the owner of the project can change these.</p>
  </section>`;
}

const deletion = deletionPage({
  frame: settingsPage,
  path: '/delete',
  route: 'DELETE /projects/:project_id',
  async read({ api, project }: ProjectVisit) {
    return { project, suites: await api.get('/projects/:project_id/suites') };
  },
  question: ({ project }) => `Delete ${project.name}?`,
  goes: ({ project, suites }) =>
    html`<p>
      <strong>${project.name}</strong> is deleted, with
      ${suites.length > 0 && `its ${counted(suites.length, 'suite')}, `}all of its variables, its SSH key, every commit,
      build and deploy with their logs, its notifications, and all access to it. Running jobs are stopped.
      ${
        project.forge_state === 'none'
          ? 'The repository itself stays as it is.'
          : html`Its key, its hook and its statuses are taken away at the forge; otherwise the repository
              <code>${project.forge_repository}</code> stays as it is.`
      }
    </p>`,
  back: () => '/ui/',
  keep: settingsPath,
});

export const routes: PageRoute[] = [...general, ...deletion];
