import { strategyFields, type DeployStrategy } from '../../shared/records/deploy.ts';
import { withPastedTarget } from './addresses.ts';
import { fieldTable, type Choices, type FieldTexts, type NamesIn, wordsOf } from './controls.ts';
import { hidden, recordForm, type PageForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { beside, empty, section, table } from './parts.ts';
import { isOwned, type ProjectVisit } from './project-pages.ts';
import { deletionButton, resource } from './resource-pages.ts';
import { settingsPage, settingsPath } from './settings.ts';
import type { PageRoute } from './site.ts';
import type { VisitApi } from './visit-api.ts';

const of = '/projects/:project_id/deploy_strategies';

/** Reads each strategy, because the list has only their names. */
async function strategiesOf(api: VisitApi): Promise<DeployStrategy[]> {
  const items = await api.get(of);
  return Promise.all(
    items.map(({ id }) => api.get(`${of}/:deploy_strategy_id`, { params: { deploy_strategy_id: id } })),
  );
}

async function manualSuites(api: VisitApi): Promise<Choices> {
  const suites = await api.get('/projects/:project_id/suites');
  return suites.filter(({ manual }) => manual).map(({ id_str: id, name }) => [id, name] as const);
}

export const refsTexts: FieldTexts = {
  label: 'Refs',
  rows: 2,
  isCode: true,
  wrong: 'Refs are patterns of branches, or start with refs/heads/ or refs/tags/.',
};

const wrongBranch = 'This is no name that git takes for a branch.';

const strategyForm = fieldTable(strategyFields, {
  name: { label: 'Name' },
  'options[clone_url]': {
    label: 'Repository address',
    required: true,
    isCode: true,
    hint: 'Where commits are pushed to. It must take pushes with the SSH key of the project.',
    wrong:
      'This is no address of a repository over SSH, such as git@example.org:team/code.git or ssh://git@example.org:2222/team/code.git.',
  },
  'options[local_branch]': {
    label: 'Local branch',
    required: true,
    isCode: true,
    hint: 'Only commits on this branch are deployed.',
    wrong: wrongBranch,
  },
  'options[remote_branch]': {
    label: 'Remote branch',
    required: true,
    isCode: true,
    hint: 'The branch they are pushed to.',
    wrong: wrongBranch,
  },
  'options[suite_id]': {
    label: 'Suite',
    hint: 'A manual suite. A deploy runs it on the commit, with HEADRACE_DEPLOY_ID and HEADRACE_DEPLOY_STRATEGY.',
  },
  refs: {
    ...refsTexts,
    hint: html`Only commits on these branches and tags are deployed, one on each line, such as <code>main</code> or
      <code>refs/tags/v*</code>. Left blank, all are.`,
  },
  approval: { label: 'Approval', hint: 'Each deploy waits until another user approves it.' },
  approvers: {
    label: 'Approvers',
    rows: 2,
    hint: 'E-mail addresses of users of the project, one on each line. Left blank, any of them may approve.',
  },
});
type StrategyForm = PageForm<NamesIn<typeof strategyForm>>;

async function strategyParts(form: StrategyForm, visit: ProjectVisit, strategy?: DeployStrategy): Promise<Html> {
  const isSuite = strategy?.strategy_type === 'suite';
  return isSuite ? suiteParts(form, visit, await manualSuites(visit.api), strategy) : gitParts(form, visit, strategy);
}

function gitParts(form: StrategyForm, visit: ProjectVisit, strategy?: DeployStrategy): Html {
  return html`${form.fields('name', 'options[clone_url]', 'options[local_branch]', 'options[remote_branch]')}
  ${gates(form, visit, strategy)} ${hidden('strategy_type', 'git')}`;
}

function suiteParts(form: StrategyForm, visit: ProjectVisit, choices: Choices, strategy?: DeployStrategy): Html {
  return html`${form.field('name')} ${form.field('options[suite_id]', { choices })} ${gates(form, visit, strategy)}
  ${hidden('strategy_type', 'suite')}`;
}

/** Fields that only the owner changes. Collaborators see their values. */
function gates(form: StrategyForm, { project }: ProjectVisit, strategy?: DeployStrategy): Html {
  if (project.owned) return form.fields('refs', 'approval', 'approvers');
  const { refs = [], approval = false, approvers = [] } = strategy ?? {};
  return html`<p class="aside">
    ${refs.length > 0 && `Only commits on ${refs.join(', ')} are deployed. `}${approval && approvalLine(approvers)}
  </p>`;
}

export function approvalLine(approvers: readonly string[]): string {
  return approvers.length === 0
    ? 'A user other than the one who requested it has to approve it.'
    : `One of these has to approve it, unless they requested it: ${approvers.join(', ')}.`;
}

function targetOf({ options }: DeployStrategy, suites: Choices): Html {
  if (options.suite_id_str !== undefined) return html`the suite ${wordsOf(suites, options.suite_id_str)}`;
  return html`<code>${options.remote_branch}</code> of <code>${options.clone_url}</code>`;
}

const list = settingsPage({
  path: '/deploys',
  async show(visit) {
    const strategies = await strategiesOf(visit.api);
    const suites = await manualSuites(visit.api);
    const bySuite = recordForm(visit, 'create_by_suite', strategyForm);
    const label = 'New strategy that runs a suite';
    const rows = strategies.map((one) => row(one, suites, visit));
    const none = empty(
      'No strategies yet',
      'A strategy sets the target of a deploy: a branch of a repository, or a suite.',
    );
    return {
      title: 'Deploy strategies',
      main: html`<h1>Deploy strategies</h1>
        ${beside(
          table('Deploy strategies', ['Name', 'From', 'To', 'Actions'], rows, { none }),
          section(
            'new',
            'New strategy',
            html`${await newForm(visit)}
            ${
              suites.length > 0 &&
              html`<h2>${label}</h2>
                ${bySuite.wrap(suiteParts(bySuite, visit, suites), { button: 'Create strategy', isCard: true, label })}`
            }`,
          ),
        )}`,
    };
  },
  actions: {
    create: { route: `POST ${of}`, fields: withPastedTarget, done: 'created' },
    create_by_suite: { route: `POST ${of}`, done: 'created' },
  },
});

function row(strategy: DeployStrategy, suites: Choices, { path, project }: ProjectVisit): Html {
  const { id_str: id, name, options } = strategy;
  return html`<tr>
    <td><a id="strategy-${id}" href="${path}/${id}">${name}</a></td>
    <td>${options.local_branch === undefined ? 'the default branch' : html`<code>${options.local_branch}</code>`}</td>
    <td>${targetOf(strategy, suites)}</td>
    <td class="number">${project.owned && deletionButton(`${path}/${id}/delete`, `strategy-${id}`)}</td>
  </tr>`;
}

const { newForm, routes: ofOne } = resource({
  noun: 'strategy',
  frame: settingsPage,
  path: '/deploys/:deploy_strategy_id',
  read: (visit: ProjectVisit) => visit.api.get(`${of}/:deploy_strategy_id`),
  name: ({ name }) => name,
  all: 'All deploy strategies',
  back: (visit) => `${settingsPath(visit)}/deploys`,
  form: strategyForm,
  fields: strategyParts,
  save: {
    route: `PUT ${of}/:deploy_strategy_id`,
    fields: withPastedTarget,
    done: (_, visit) => ({ goTo: `${settingsPath(visit)}/deploys`, notice: 'saved' }),
  },
  delete: `DELETE ${of}/:deploy_strategy_id`,
  mayDelete: isOwned,
  goes: async (strategy, { api }) =>
    html`<p>
      The strategy <strong>${strategy.name}</strong>, which leads to ${targetOf(strategy, await manualSuites(api))}, is
      deleted. Its deploys and their logs stay.
    </p>`,
});

export const routes: PageRoute[] = [...list, ...ofOne];
