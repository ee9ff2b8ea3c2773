import { addressField, isOpen, withPastedAddress } from './addresses.ts';
import { connectionPart } from './project-forge.ts';
import { pageForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { copyable } from './parts.ts';
import { deletionButton, deletionPage, type ProjectVisit } from './project-pages.ts';
import { settingsPage, settingsPath } from './settings.ts';
import type { PageRoute } from './site.ts';
import { addProjectVariable, projectVariables } from './variables.ts';

const general = settingsPage({
  path: '',
  showsSecrets: true,
  async show(visit) {
    const { project, path } = visit;
    const form = pageForm(visit, 'save');
    const fields = html`${form.text('name', 'Name', { value: project.name, required: true, maxlength: 255 })}
    ${addressField(form, project.clone_url)}
    ${form.area('description', 'Description', { value: project.description, rows: 3 })}
    ${form.text('config_file', 'File in the repository', {
      value: project.config_file,
      maxlength: 255,
      isCode: true,
      hint: html`Such as <code>.headrace.toml</code>: each commit is then built by the suites of its own file, and on
        the default branch the project is made what the file says. Whoever may push writes them. Blank for none.`,
      wrong: 'This is no path in the repository that ends in .toml, .yml, .yaml or .json.',
    })}
    ${form.check('branch_secrets', 'Secrets for new suites of branches', {
      checked: project.branch_secrets,
      hint: 'A suite that only the file of a branch has gets the variables of the project, and may have any tags.',
    })}`;
    return {
      title: 'Settings',
      main: html`<div class="title">
          <h1>General</h1>
          ${project.owned && deletionButton(`${path}/delete`)}
        </div>
        ${project.owned ? form.wrap(fields, { button: 'Save', isCard: true, label: 'Project' }) : factsOf(visit)}
        ${await connectionPart(visit)} ${keyPart(visit)} ${await projectVariables(visit)}`,
    };
  },
  actions: {
    save: { route: 'PUT /projects/:project_id', fields: withPastedAddress, done: 'saved' },
    add_variable: addProjectVariable,
    connect: { route: 'POST /projects/:project_id/connect', done: 'mended' },
  },
});

function keyPart({ project, projectPath }: ProjectVisit): Html {
  return html`<section class="card" aria-labelledby="key-title">
    <h2 id="key-title">SSH key</h2>
    <p>${keyUse(project)}</p>
    ${copyable(project.ssh_public_key, 'ssh-key')}
    <p><a href="${projectPath}/setup#key">Check connection</a></p>
  </section>`;
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
  return html`<section class="card" aria-label="Project">
    <dl>
      <dt>Repository address</dt>
      <dd><code>${project.clone_url}</code></dd>
      <dt>Description</dt>
      <dd>${project.description === '' ? '–' : project.description}</dd>
      <dt>File in the repository</dt>
      <dd>${project.config_file === '' ? '–' : html`<code>${project.config_file}</code>`}</dd>
    </dl>
    <p class="aside">Only the owner of the project can change these.</p>
  </section>`;
}

const deletion = deletionPage({
  path: '/delete',
  route: 'DELETE /projects/:project_id',
  async what({ api, project }) {
    const suites = await api.get('/projects/:project_id/suites');
    const goes = suites.length === 0 ? '' : `its ${suites.length} ${suites.length === 1 ? 'suite' : 'suites'}, `;
    return {
      title: `Delete ${project.name}?`,
      goes: html`<p>
        <strong>${project.name}</strong> goes, with ${goes}all of its variables, its SSH key, every commit, build and
        deploy with their logs, its notifications, and everybody&rsquo;s access to it. What is running is stopped.
        ${
          project.forge_state === 'none'
            ? 'The repository itself stays as it is.'
            : html`Its key, its hook and its statuses are taken away at the forge; otherwise the repository
                <code>${project.forge_repository}</code> stays as it is.`
        }
      </p>`,
    };
  },
  back: settingsPath,
  next: () => '/ui/',
});

export const routes: PageRoute[] = [...general, ...deletion];
