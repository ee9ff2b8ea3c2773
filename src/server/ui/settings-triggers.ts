import { projectFields } from '../../shared/records/project.ts';
import { fieldTable } from './controls.ts';
import { recordForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { copyable, section } from './parts.ts';
import type { ProjectVisit } from './project-pages.ts';
import { settingsPage } from './settings.ts';
import type { PageRoute } from './site.ts';
import { createHook, hooksPart } from './trigger-hooks.ts';
import { createSchedule, pollingPart, schedulesPart } from './trigger-schedules.ts';
import { createStatusTarget, statusTargetsPart } from './trigger-statuses.ts';

const policiesForm = fieldTable(projectFields, {
  fork_builds: {
    label: 'Pull requests from forks',
    choices: [
      ['without_secrets', 'Built without secrets'],
      ['approval', 'Built without secrets once somebody approves'],
      ['never', 'Never built'],
    ],
    hint: 'Who can open a pull request need not be somebody you trust. What comes from a fork never gets a secret.',
  },
  cancel_superseded: {
    label: 'Older builds of the same branch or pull request',
    choices: [
      ['none', 'Stay'],
      ['waiting', 'Are cancelled while they wait'],
      ['running', 'Are cancelled, also while they run'],
    ],
    hint: 'Of those that were triggered. What somebody asked for by hand stays.',
  },
  public_badge: {
    label: 'Public badge',
    hint: 'Anybody who knows its address may see whether the project passes, and nothing else.',
  },
  report_left_out: {
    label: 'Report suites that rules leave out',
    hint: 'Forges are told that they passed, so that a check which is required does not wait for ever.',
  },
  build_twice: {
    label: 'Build pushes and pull requests separately',
    hint: 'Otherwise a commit that both bring is built once: the second one runs only what the first one does not.',
  },
});

function policiesPart(visit: ProjectVisit): Html {
  const { project } = visit;
  const form = recordForm(visit, 'save_policies', policiesForm, project);
  return section(
    'policies',
    'Policies',
    html`${project.owned ? form.wrap(form.fields(), { button: 'Save', isCard: true, label: 'Policies' }) : form.facts()}
    ${project.public_badge && badge(visit)}`,
  );
}

function badge({ project, origin }: ProjectVisit): Html {
  const path = `/projects/${project.id_str}/badge.svg`;
  const markdown = `[![build](${origin}${path})](${origin}/ui/projects/${project.id_str})`;
  return html`<div class="card">
    <h3>Badge</h3>
    <p><img src="${path}" alt="The badge as it is now" height="20" /></p>
    <p class="aside">For one branch, write <code>badge.svg?branch=NAME</code>. As Markdown, for a README:</p>
    ${copyable(markdown, 'badge-markdown')}
  </div>`;
}

const triggers = settingsPage({
  path: '/triggers',
  async show(visit) {
    const { owned } = visit.project;
    return {
      title: 'Triggers',
      main: html`<h1>Triggers</h1>
        ${owned && (await hooksPart(visit))} ${await pollingPart(visit)} ${await schedulesPart(visit)}
        ${policiesPart(visit)} ${owned && (await statusTargetsPart(visit))}`,
    };
  },
  actions: {
    create_hook: createHook,
    create_schedule: createSchedule,
    create_status_target: createStatusTarget,
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
