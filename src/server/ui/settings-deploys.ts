import type { DeployStrategy } from '../../shared/records/deploy.ts';
import { withPastedTarget } from './addresses.ts';
import { html, type Html } from './html.ts';
import { pageForm, type PageForm } from './forms.ts';
import { empty, table } from './parts.ts';
import { deletionButton, deletionPage, recordHead, type ProjectVisit } from './project-pages.ts';
import { settingsPage, settingsPath } from './settings.ts';
import type { PageRoute } from './site.ts';
import type { VisitApi } from './visit-api.ts';

const of = '/projects/:project_id/deploy_strategies';

/** The list has only their names. */
export async function strategiesOf(api: VisitApi): Promise<DeployStrategy[]> {
  const items = await api.get(of);
  return Promise.all(
    items.map(({ id }) => api.get(`${of}/:deploy_strategy_id`, { params: { deploy_strategy_id: id } })),
  );
}

async function manualSuites(api: VisitApi): Promise<(readonly [string, string])[]> {
  const suites = await api.get('/projects/:project_id/suites');
  return suites.filter(({ manual }) => manual).map(({ id_str: id, name }) => [id, name] as const);
}

/** Only the owner changes these. Collaborators read them. */
function gates(form: PageForm, { project }: ProjectVisit, strategy?: DeployStrategy): Html {
  const { refs = [], approval = false, approvers = [] } = strategy ?? {};
  if (!project.owned)
    return html`<p class="aside">
      ${refs.length > 0 && `Only commits on ${refs.join(', ')} are deployed. `}${approval && approvalLine(approvers)}
    </p>`;
  return html`${form.lines('refs', 'Refs', {
    value: refs.join('\n'),
    rows: 2,
    isCode: true,
    hint: html`Only commits on these branches and tags are deployed, one on each line, such as <code>main</code> or
      <code>refs/tags/v*</code>. Left blank, all are.`,
    wrong: 'Refs are patterns of branches, or begin with refs/heads/ or refs/tags/. At most 20.',
  })}
  ${form.check('approval', 'Approval', {
    checked: approval,
    hint: 'Each deploy waits until a user approves it. Nobody approves their own.',
  })}
  ${form.lines('approvers', 'Approvers', {
    value: approvers.join('\n'),
    rows: 2,
    hint: 'E-mail addresses of users of the project, one on each line. Left blank, any of them may approve.',
  })}`;
}

export function approvalLine(approvers: readonly string[]): string {
  return approvers.length === 0
    ? 'A user other than the one who requested it has to approve it.'
    : `One of these has to approve it, unless they requested it: ${approvers.join(', ')}.`;
}

function suiteFields(
  form: PageForm,
  visit: ProjectVisit,
  suites: readonly (readonly [string, string])[],
  strategy?: DeployStrategy,
): Html {
  return html`${form.text('name', 'Name', { value: strategy?.name, required: true, maxlength: 255 })}
  ${form.select('options[suite_id]', 'Suite', suites, {
    value: strategy?.options.suite_id_str,
    hint: 'A manual suite. A deploy runs it on the commit, with HEADRACE_DEPLOY_ID and HEADRACE_DEPLOY_STRATEGY.',
  })}
  ${gates(form, visit, strategy)} ${form.hidden('strategy_type', 'suite')}`;
}

function targetOf({ options }: DeployStrategy, suites: readonly (readonly [string, string])[]): Html {
  const [, suite] = suites.find(([id]) => id === options.suite_id_str) ?? [];
  if (options.suite_id_str !== undefined) return html`the suite ${suite ?? options.suite_id_str}`;
  return html`<code>${options.remote_branch}</code> of <code>${options.clone_url}</code>`;
}

function strategyFields(form: PageForm, visit: ProjectVisit, strategy?: DeployStrategy): Html {
  const wrongBranch = 'This is no name that git takes for a branch.';
  return html`${form.text('name', 'Name', { value: strategy?.name, required: true, maxlength: 255 })}
  ${form.text('options[clone_url]', 'Repository address', {
    value: strategy?.options.clone_url,
    required: true,
    isCode: true,
    hint: html`Where commits are pushed to. It must take pushes with the SSH key of the project.`,
    wrong:
      'This is no address of a repository over SSH, such as git@example.org:team/code.git or ssh://git@example.org:2222/team/code.git.',
  })}
  ${form.text('options[local_branch]', 'Local branch', {
    value: strategy?.options.local_branch,
    required: true,
    isCode: true,
    hint: 'Only commits on this branch are deployed.',
    wrong: wrongBranch,
  })}
  ${form.text('options[remote_branch]', 'Remote branch', {
    value: strategy?.options.remote_branch,
    required: true,
    isCode: true,
    hint: 'The branch they are pushed to.',
    wrong: wrongBranch,
  })}
  ${gates(form, visit, strategy)} ${form.hidden('strategy_type', 'git')}`;
}

const list = settingsPage({
  path: '/deploys',
  async show(visit) {
    const strategies = await strategiesOf(visit.api);
    const suites = await manualSuites(visit.api);
    const [form, bySuite] = [pageForm(visit, 'create'), pageForm(visit, 'create_by_suite')];
    return {
      title: 'Deploy strategies',
      main: html`<h1>Deploy strategies</h1>
        <div class="beside">
          <div>
            ${table(
              'Deploy strategies',
              ['Name', 'From', 'To', 'Actions'],
              strategies.map((one) => row(one, suites, visit.path, visit.project.owned)),
              {
                none: empty(
                  'No strategies yet',
                  'A strategy says where a commit goes that is good enough: to which branch of which repository.',
                ),
              },
            )}
          </div>
          <section aria-labelledby="new-title">
            <h2 id="new-title">New strategy</h2>
            ${form.wrap(strategyFields(form, visit), { button: 'Create strategy', isCard: true, label: 'New strategy' })}
            ${
              suites.length > 0 &&
              html`<h2>New strategy that runs a suite</h2>
                ${bySuite.wrap(suiteFields(bySuite, visit, suites), { button: 'Create strategy', isCard: true, label: 'New strategy that runs a suite' })}`
            }
          </section>
        </div>`,
    };
  },
  actions: {
    create: { route: `POST ${of}`, fields: withPastedTarget, done: 'created' },
    create_by_suite: { route: `POST ${of}`, done: 'created' },
  },
});

function row(
  strategy: DeployStrategy,
  suites: readonly (readonly [string, string])[],
  path: string,
  isOwner: boolean,
): Html {
  const { id_str: id, name, options } = strategy;
  return html`<tr>
    <td><a id="strategy-${id}" href="${path}/${id}">${name}</a></td>
    <td>${options.local_branch === undefined ? 'the default branch' : html`<code>${options.local_branch}</code>`}</td>
    <td>${targetOf(strategy, suites)}</td>
    <td class="number">${isOwner && deletionButton(`${path}/${id}/delete`, `strategy-${id}`)}</td>
  </tr>`;
}

const one = settingsPage({
  path: '/deploys/:deploy_strategy_id',
  async show(visit) {
    const strategy = await visit.api.get(`${of}/:deploy_strategy_id`);
    const form = pageForm(visit, 'save');
    return {
      title: strategy.name,
      main: html`${recordHead(visit, { back: `${settingsPath(visit)}/deploys`, all: 'All deploy strategies', title: strategy.name, isOwners: true })}
      ${form.wrap(strategy.strategy_type === 'suite' ? suiteFields(form, visit, await manualSuites(visit.api), strategy) : strategyFields(form, visit, strategy), { button: 'Save', isCard: true, label: 'Strategy' })}`,
    };
  },
  actions: {
    save: {
      route: `PUT ${of}/:deploy_strategy_id`,
      fields: withPastedTarget,
      done: (_, visit) => ({ goTo: `${settingsPath(visit)}/deploys`, notice: 'saved' }),
    },
  },
});

const deletion = deletionPage({
  path: '/deploys/:deploy_strategy_id/delete',
  route: `DELETE ${of}/:deploy_strategy_id`,
  async what(visit) {
    const strategy = await visit.api.get(`${of}/:deploy_strategy_id`);
    const { name } = strategy;
    return {
      title: `Delete ${name}?`,
      goes: html`<p>
        The strategy <strong>${name}</strong>, which leads to ${targetOf(strategy, await manualSuites(visit.api))},
        goes. What was deployed by it stays, and so do those deploys and their logs.
      </p>`,
    };
  },
  back: (visit) => `${settingsPath(visit)}/deploys`,
});

export const routes: PageRoute[] = [...list, ...one, ...deletion];
