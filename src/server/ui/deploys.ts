import { ApiError } from '../../shared/errors.ts';
import { reasonText } from '../lifecycle/reasons.ts';
import { timeOfId } from '../../shared/lib/ids.ts';
import type { DeployLine, DeployStrategy, FetchedDeploy } from '../../shared/records/deploy.ts';
import { askedCommit, commitLink, commitOf, confirmDeploy, strategyCard, withoutConfirmation } from './deploy-cards.ts';
import { html, type Html } from './html.ts';
import { pageForm } from './forms.ts';
import { notice } from './layout.ts';
import { logPart } from './log-viewer.ts';
import { ago, duration } from './moments.ts';
import { cursors, empty, fact, pagination, table } from './parts.ts';
import { projectPage, type ProjectVisit } from './project-pages.ts';
import { approvalLine } from './settings-deploys.ts';
import type { PageRoute } from './site.ts';
import { buildBadge, isUnderWay, stateBadge } from './states.ts';

const perPage = 30;
const of = '/projects/:project_id/deploys';

const started = ({ id_str: id }: { id_str: string }, { path }: { path: string }) =>
  ({ goTo: `${path}/${id}`, notice: 'started' }) as const;

const nothingYet = empty(
  'Nothing was deployed yet',
  'A deploy pushes a commit to the branch that a strategy names, or runs its suite.',
);

const list = projectPage({
  path: '/deploys',
  tab: 'deploys',
  async show(visit) {
    const { api } = visit;
    const page = await api.list(`${of}/details`, { query: { limit: perPage, ...cursors(visit) } });
    const overview = await api.get(`${of}/overview`);
    const asked = await askedCommit(visit);
    return {
      title: 'Deploys',
      main: html`<h1>Deploys</h1>
        ${
          overview.strategies.length === 0
            ? html`<p class="card">
                To deploy, first say where to: <a href="${visit.projectPath}/settings/deploys">create a strategy</a>.
              </p>`
            : html`<div class="deploy-cards">
                ${overview.strategies.map((strategy) => strategyCard(visit, strategy, { overview, asked }))}
              </div>`
        }
        <h2>All deploys</h2>
        <div id="deploys" data-live>
          ${table(
            'Deploys',
            ['Deploy', 'State', 'Commit', 'Asked for', 'Took'],
            page.items.map((deploy) => row(visit, deploy)),
            { none: nothingYet },
          )}
        </div>
        ${pagination(page, { path: visit.path })}`,
    };
  },
  actions: {
    deploy: {
      route: `POST ${of}`,
      fields: withoutConfirmation,
      before: confirmDeploy,
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

function row(visit: ProjectVisit, deploy: DeployLine): Html {
  const { id_str: id, state, created_by: by, created_at: at, strategy_name: strategy, commit } = deploy;
  const { deploy_started_at: from, deploy_finished_at: to } = deploy;
  return html`<tr id="deploy-${id}">
    <td><a href="${visit.projectPath}/deploys/${id}">${strategy || 'deleted strategy'}</a></td>
    <td>${stateBadge(state)}</td>
    <td class="brief">${commit !== null && commitLink(visit, commit)}</td>
    <td>${ago(at)} <span class="aside">by ${by}</span></td>
    <td class="nowrap">${duration(from, to)}</td>
  </tr>`;
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
              mayJudge(deploy, visit.person?.email ?? '') &&
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
      refusals: { resource_temporary_unavailable: 'It no longer waits for approval.' },
    },
    reject: {
      route: `POST ${of}/:deploy_id/reject`,
      done: 'rejected',
      refusals: { resource_temporary_unavailable: 'It no longer waits for approval.' },
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
