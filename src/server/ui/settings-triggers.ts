import { projectFields } from '../../shared/records/project.ts';
import { fieldTable } from './controls.ts';
import { recordForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { section } from './parts.ts';
import type { ProjectVisit } from './project-pages.ts';
import { settingsPage } from './settings.ts';
import type { PageRoute } from './site.ts';
import { createHook, hooksPart } from './trigger-hooks.ts';
import { pollingPart } from './trigger-polling.ts';

const policiesForm = fieldTable(projectFields, {
  fork_builds: {
    label: 'Pull requests from forks',
    choices: [
      ['without_secrets', 'Built without secrets'],
      ['approval', 'Built without secrets after a user approves'],
      ['never', 'Never built'],
    ],
    hint: 'Anyone can open a pull request. Builds of forks never get a secret.',
  },
  cancel_superseded: {
    label: 'Older builds of the same branch or pull request',
    choices: [
      ['none', 'Stay'],
      ['waiting', 'Are cancelled while they wait'],
      ['running', 'Are cancelled, also while they run'],
    ],
    hint: 'Only triggered build requests. Manual ones stay.',
  },
  build_twice: {
    label: 'Build pushes and pull requests separately',
    hint: 'Otherwise a commit of both is built once: the second request runs only the suites that the first one does not.',
  },
  pull_request_notes: {
    label: 'Notes at pull requests',
    choices: [
      ['off', 'None'],
      ['on', 'What builds report at lines of files'],
    ],
    hint: 'One comment at the connected forge, kept up to date. At GitHub, a check run if the token belongs to an app.',
  },
  comment_commands: {
    label: 'Commands in comments',
    hint: 'Users who may push at the connected forge can write /retest, /approve, /cancel and /deploy on pull requests.',
  },
  pull_request_builds: {
    label: 'Pull requests are built as',
    choices: [
      ['head', 'Their head'],
      ['merge', 'Their head, merged into the target branch'],
    ],
    hint: 'The merge is made by a runner when the commit is fetched. Statuses go to the head.',
  },
  most_priority: {
    label: 'Highest priority of a request',
    hint: 'From 0 to 100. A request by hand may ask for as much, to begin before the other builds of the account.',
  },
});

function policiesPart(visit: ProjectVisit): Html {
  const { project } = visit;
  const form = recordForm(visit, 'save_policies', policiesForm, project);
  return section(
    'policies',
    'Policies',
    project.owned ? form.wrap(form.fields(), { button: 'Save', isCard: true, label: 'Policies' }) : form.facts(),
  );
}

const triggers = settingsPage({
  path: '/triggers',
  async show(visit) {
    const { owned } = visit.project;
    return {
      title: 'Triggers',
      main: html`<h1>Triggers</h1>
        ${owned && (await hooksPart(visit))} ${await pollingPart(visit)} ${policiesPart(visit)}`,
    };
  },
  actions: {
    create_hook: createHook,
    save_polling: {
      route: 'PUT /projects/:project_id',
      done: (_, visit) => ({ goTo: `${visit.path}#polling-title`, notice: 'saved' }),
    },
    save_policies: {
      route: 'PUT /projects/:project_id',
      done: (_, visit) => ({ goTo: `${visit.path}#policies-title`, notice: 'saved' }),
    },
  },
});

export const routes: PageRoute[] = triggers;
