import { pageForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { copyable, fact } from './parts.ts';
import type { ProjectVisit } from './project-pages.ts';
import { settingsPage } from './settings.ts';
import type { PageRoute } from './site.ts';
import { createHook, hooksPart } from './trigger-hooks.ts';
import { createSchedule, pollingPart, schedulesPart } from './trigger-schedules.ts';
import { createStatusTarget, statusTargetsPart } from './trigger-statuses.ts';

const forkPolicies: readonly (readonly [string, string])[] = [
  ['without_secrets', 'Built without secrets'],
  ['approval', 'Built without secrets once somebody approves'],
  ['never', 'Never built'],
];

const supersededPolicies: readonly (readonly [string, string])[] = [
  ['none', 'Stay'],
  ['waiting', 'Are cancelled while they wait'],
  ['running', 'Are cancelled, also while they run'],
];

const policyLabel = (policies: readonly (readonly [string, string])[], name: string): string =>
  policies.find(([one]) => one === name)?.[1] ?? name;

function policiesPart(visit: ProjectVisit): Html {
  const { project } = visit;
  const form = pageForm(visit, 'save_policies');
  const fields = html`${form.select('fork_builds', 'Pull requests from forks', forkPolicies, {
    value: project.fork_builds,
    hint: 'Who can open a pull request need not be somebody you trust. What comes from a fork never gets a secret.',
  })}
  ${form.select('cancel_superseded', 'Older builds of the same branch or pull request', supersededPolicies, {
    value: project.cancel_superseded,
    hint: 'Of those that were triggered. What somebody asked for by hand stays.',
  })}
  ${form.check('public_badge', 'Public badge', {
    checked: project.public_badge,
    hint: 'Anybody who knows its address may see whether the project passes, and nothing else.',
  })}
  ${form.check('report_left_out', 'Report suites that rules leave out', {
    checked: project.report_left_out,
    hint: 'Forges are told that they passed, so that a check which is required does not wait for ever.',
  })}
  ${form.check('build_twice', 'Build pushes and pull requests separately', {
    checked: project.build_twice,
    hint: 'Otherwise a commit that both bring is built once: the second one runs only what the first one does not.',
  })}`;
  const facts = html`<dl class="facts card">
    ${fact('Pull requests from forks', policyLabel(forkPolicies, project.fork_builds))}
    ${fact('Older builds of the same branch or pull request', policyLabel(supersededPolicies, project.cancel_superseded))}
    ${fact('Public badge', project.public_badge ? 'Yes' : 'No')}
    ${fact('Report suites that rules leave out', project.report_left_out ? 'Yes' : 'No')}
    ${fact('Build pushes and pull requests separately', project.build_twice ? 'Yes' : 'No')}
  </dl>`;
  return html`<section aria-labelledby="policies-title">
    <h2 id="policies-title">Policies</h2>
    ${project.owned ? form.wrap(fields, { button: 'Save', isCard: true, label: 'Policies' }) : facts}
    ${project.public_badge && badge(visit)}
  </section>`;
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
