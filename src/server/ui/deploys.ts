import { ApiError } from '../../shared/errors.ts';
import { reasonText } from '../lifecycle/reasons.ts';
import { timeOfId } from '../../shared/lib/ids.ts';
import type { DeployStrategy, FetchedDeploy } from '../../shared/records/deploy.ts';
import type { Commit } from '../../shared/records/commit.ts';
import { identifier, required } from '../../shared/records/fields.ts';
import { html, type Html } from './html.ts';
import { fieldTable } from './controls.ts';
import { hidden, pageForm, recordForm } from './forms.ts';
import { notice } from './layout.ts';
import { logPart } from './log-viewer.ts';
import { ago, duration } from './moments.ts';
import { cursors, empty, fact, pagination, shortSha, subjectOf, table } from './parts.ts';
import { projectPage, type ProjectVisit } from './project-pages.ts';
import { approvalLine, strategiesOf } from './settings-deploys.ts';
import type { PageRoute } from './site.ts';
import { buildBadge, isUnderWay, stateBadge } from './states.ts';

export const deployForm = fieldTable(
  { deploy_strategy_id: required(identifier()), commit_id: identifier() },
  { deploy_strategy_id: { label: 'Strategy' }, commit_id: { label: 'Commit' } },
);

const perPage = 30;
const of = '/projects/:project_id/deploys';

async function commitOf({ api }: ProjectVisit, id: bigint): Promise<Commit> {
  return api.get('/projects/:project_id/commits/:commit_id', { params: { commit_id: id } });
}

function commitLink({ projectPath }: ProjectVisit, { id_str: id, ref, message }: Commit): Html {
  return html`<a href="${projectPath}/commits/${id}"><code>${shortSha(ref)}</code> ${subjectOf(message)}</a>`;
}

function strategyName(strategies: readonly DeployStrategy[], { deploy_strategy_id_str: id }: FetchedDeploy): string {
  return strategies.find((one) => one.id_str === id)?.name ?? 'deleted strategy';
}

const started = ({ id_str: id }: { id_str: string }, { path }: { path: string }) =>
  ({ goTo: `${path}/${id}`, notice: 'started' }) as const;

const list = projectPage({
  path: '/deploys',
  tab: 'deploys',
  async show(visit) {
    const { api } = visit;
    const page = await api.list(of, { query: { limit: perPage, ...cursors(visit) } });
    const strategies = await strategiesOf(api);
    const rows = await Promise.all(
      page.items.map(async ({ id }) => {
        const deploy = await api.get(`${of}/:deploy_id`, { params: { deploy_id: id } });
        return row(visit, deploy, await commitOf(visit, deploy.commit_id), strategyName(strategies, deploy));
      }),
    );
    return {
      title: 'Deploys',
      main: html`<h1>Deploys</h1>
        ${await deployPart(visit, strategies)}
        <div id="deploys" data-live>
          ${table('Deploys', ['Deploy', 'State', 'Commit', 'Asked for', 'Took'], rows, { none: empty('Nothing was deployed yet', 'A deploy pushes a commit to the branch that a strategy names, or runs its suite.') })}
        </div>
        ${pagination(page, { path: visit.path })}`,
    };
  },
  actions: {
    deploy: {
      route: `POST ${of}`,
      done: started,
    },
    roll_back: {
      route: `POST ${of}`,
      done: started,
      refusals: {
        not_found: 'Fewer than two deploys of this strategy have succeeded: there is nothing to go back to.',
      },
    },
  },
});

function row(visit: ProjectVisit, deploy: FetchedDeploy, commit: Commit, strategy: string): Html {
  const { id, id_str: text, state, created_by: by, deploy_started_at: from, deploy_finished_at: to } = deploy;
  return html`<tr id="deploy-${text}">
    <td><a href="${visit.projectPath}/deploys/${text}">${strategy}</a></td>
    <td>${stateBadge(state)}</td>
    <td class="brief">${commitLink(visit, commit)}</td>
    <td>${ago(timeOfId(id))} <span class="aside">by ${by}</span></td>
    <td class="nowrap">${duration(from, to)}</td>
  </tr>`;
}

const commitsOffered = 30;

async function deployPart(visit: ProjectVisit, strategies: readonly DeployStrategy[]): Promise<Html> {
  if (strategies.length === 0) {
    return html`<p class="card">
      To deploy, first say where to: <a href="${visit.projectPath}/settings/deploys">create a strategy</a>.
    </p>`;
  }
  const commits = await visit.api.get('/projects/:project_id/commits', {
    query: { limit: commitsOffered },
  });
  const known = await Promise.all(commits.map(({ id }) => commitOf(visit, id)));
  const form = recordForm(visit, 'deploy', deployForm);
  const fields = html`${form.field('deploy_strategy_id', {
    choices: strategies.map(({ id_str: id, name, options }) => [
      id,
      `${name} (${options.local_branch ?? 'default branch'})`,
    ]),
  })}
  ${form.field('commit_id', {
    choices: [
      ['', 'The newest that passed on the branch of the strategy'],
      ...known.map(
        ({ id_str: id, ref, message, build_state: state }) =>
          [id, `${shortSha(ref)} ${subjectOf(message).slice(0, 80)} (${state.replaceAll('_', ' ')})`] as const,
      ),
    ],
  })}`;
  return html`${form.wrap(fields, { button: 'Deploy', isCard: true, label: 'Deploy' })}
  ${rollbackForm(visit, strategies)}`;
}

function rollbackForm(visit: ProjectVisit, strategies: readonly DeployStrategy[]): Html {
  const form = recordForm(visit, 'roll_back', deployForm);
  const choices = strategies.map(({ id_str: id, name }) => [id, name] as const);
  return html`<details class="group" ${visit.refused?.action === 'roll_back' && html`open`}>
    <summary>Back to what was deployed before</summary>
    ${form.wrap(
      html`${form.field('deploy_strategy_id', { choices })} ${hidden('rollback', 'true')}
        <p class="hint">Deploys the commit of the last deploy that succeeded before the newest successful one.</p>`,
      { button: 'Roll back', kind: 'plain', label: 'Roll back' },
    )}
  </details>`;
}

const one = projectPage({
  path: '/deploys/:deploy_id',
  tab: 'deploys',
  async show(visit) {
    const { api, projectPath } = visit;
    const deploy = await api.get(`${of}/:deploy_id`);
    const commit = await commitOf(visit, deploy.commit_id);
    const strategy = await strategyOf(visit, deploy);
    const { id_str: id, build_id_str: build, state, deploy_started_at: from, deploy_finished_at: to } = deploy;
    // A retry after a lost build has its own log. With the new address, the page's script restarts.
    const address = `/projects/${visit.project.id_str}/${build === '' ? `deploys/${id}` : `builds/${build}`}`;
    return {
      title: `Deploy: ${strategy?.name ?? 'deleted strategy'}`,
      state,
      live: [`project:${visit.project.id_str}`, `logs:${visit.project.id_str}`],
      isFilled: true,
      main: html`<p class="aside"><a href="${projectPath}/deploys">All deploys</a></p>
        <div class="title">
          <h1>Deploy: ${strategy?.name ?? 'deleted strategy'}</h1>
          <div id="deploy-actions" class="row" data-live>
            ${
              mayJudge(deploy, visit.person.email) &&
              html`${pageForm(visit, 'approve').wrap(false, { button: 'Approve', kind: 'main' })}
              ${pageForm(visit, 'reject').wrap(false, { button: 'Reject', kind: 'danger' })}`
            }
            ${isUnderWay(state) && pageForm(visit, 'cancel').wrap(false, { button: 'Cancel', kind: 'danger' })}
          </div>
        </div>
        <div id="deploy-facts" data-live>
          ${isHeld(deploy) && html`<p class="aside">It waits for approval. ${approvalLine(deploy.approvers)}</p>`}
          ${deploy.waiting_reason !== undefined && notice('bad', `It cannot start: ${deploy.waiting_reason}.`)}
          <dl class="facts">
            ${fact('State', stateBadge(state))} ${fact('Commit', commitLink(visit, commit))}
            ${build !== '' && fact('Build', await buildPart(visit, build))}
            ${
              strategy?.strategy_type === 'git' &&
              html`${fact('To', html`<code>${strategy.options.remote_branch}</code> of <code>${strategy.options.clone_url}</code>`)}`
            }
            ${fact('By', deploy.created_by)} ${deploy.approved_by !== '' && fact('Approved by', deploy.approved_by)}
            ${fact('Asked for', ago(timeOfId(deploy.id)))}
            ${fact(from !== null && to === null ? 'Running for' : 'Took', duration(from, to))}
          </dl>
        </div>
        ${await logPart(visit, `${of}/:deploy_id`, { address, title: 'Log' })}`,
    };
  },
  actions: {
    cancel: {
      route: `POST ${of}/:deploy_id/cancel`,
      done: 'cancelled',
    },
    approve: {
      route: `POST ${of}/:deploy_id/approve`,
      done: 'build_approved',
      refusals: { resource_temporary_unavailable: 'It does not wait for approval any more.' },
    },
    reject: {
      route: `POST ${of}/:deploy_id/reject`,
      done: 'rejected',
      refusals: { resource_temporary_unavailable: 'It does not wait for approval any more.' },
    },
  },
});

const isHeld = ({ state }: FetchedDeploy): boolean => state === 'waiting_for_approval';

/** Determines only which buttons are shown. The server checks the right itself. */
function mayJudge(deploy: FetchedDeploy, email: string): boolean {
  const { approvers, created_by: by } = deploy;
  return isHeld(deploy) && by !== email && (approvers.length === 0 || approvers.includes(email));
}

/** Shows why the build waits or did not run, because no other part of the page does. */
async function buildPart({ api, projectPath }: ProjectVisit, id: string): Promise<Html> {
  const build = await api.get('/projects/:project_id/builds/:build_id', { params: { build_id: id } });
  const why = build.failure_reason === '' ? build.waiting_reason : reasonText(build.failure_reason);
  return html`<a href="${projectPath}/builds/${id}">${build.suite_name}</a> ${buildBadge(build)}
    ${why !== '' && html`<span class="aside">${why}</span>`}`;
}

async function strategyOf({ api }: ProjectVisit, deploy: FetchedDeploy): Promise<DeployStrategy | undefined> {
  const params = { deploy_strategy_id: deploy.deploy_strategy_id_str };
  try {
    return await api.get('/projects/:project_id/deploy_strategies/:deploy_strategy_id', { params });
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return undefined;
    throw error;
  }
}

export const routes: PageRoute[] = [...list, ...one];
