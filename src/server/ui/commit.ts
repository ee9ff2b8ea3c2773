import type { Build } from '../../shared/records/build.ts';
import type { CommitDetails } from '../../shared/records/overview.ts';
import { buildName, groupedBuilds } from './build-rows.ts';
import { branchAtForge, commitAtForge, forgeLinks, type ForgeLinks } from './forge-links.ts';
import { confirmationField, confirmDeploy, deployForm, withoutConfirmation } from './deploy-cards.ts';
import { hidden, recordForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { ago, duration } from './moments.ts';
import { counted, empty, fact, subjectOf } from './parts.ts';
import { projectPage, type ProjectVisit } from './project-pages.ts';
import type { PageRoute } from './site.ts';
import { askedFrom, runChoices, runForm } from './suite-choice.ts';
import { buildBadge, stateBadge } from './states.ts';
import { reasonText } from '../lifecycle/reasons.ts';

const mostFiles = 300;

function names(title: string, list: readonly string[], links?: ForgeLinks): Html | false {
  if (list.length === 0) return false;
  return html`<div>
    <dt>${title}</dt>
    <dd>${list.slice(0, 50).map((name) => html`<span class="chip">${branchAtForge(links, name)}</span> `)}</dd>
  </div>`;
}

function person(title: string, name: string, email: string, date: string): Html {
  return html`<div>
    <dt>${title}</dt>
    <dd>${name} <span class="aside">${email}</span>, ${ago(date)}</dd>
  </div>`;
}

function about(commit: CommitDetails, links: ForgeLinks | undefined): Html {
  const isSame = commit.scm_author_email === commit.scm_committer_email;
  return html`<dl class="facts">
    ${person('Author', commit.scm_author_name, commit.scm_author_email, commit.scm_authored_date)}
    ${!isSame && person('Committer', commit.scm_committer_name, commit.scm_committer_email, commit.scm_committed_date)}
    ${fact('SHA', html`<code>${commit.ref}</code> ${commitAtForge(links, commit.ref)}`)}
    ${names('Branches', commit.branches, links)} ${names('Tags', commit.tags)}
  </dl>`;
}

function filesPart({ files: list }: CommitDetails): Html | false {
  if (list.length === 0) return false;
  return html`<details class="card files-changed">
    <summary>${counted(list.length, 'file')} changed</summary>
    <ul class="files">
      ${list.slice(0, mostFiles).map((file) => html`<li><code>${file}</code></li>`)}
    </ul>
    ${list.length > mostFiles && html`<p class="aside">and ${list.length - mostFiles} more</p>`}
  </details>`;
}

function buildItem(build: Build, path: string): Html {
  const { id, started_at: started, finished_at: finished, failure_reason: reason } = build;
  return html`<li id="build-${id}" class="build">
    <span class="build-state">${buildBadge(build)}</span>
    <span class="build-name">
      <a href="${path}/builds/${id}">${buildName(build)}</a>
      ${build.attempt > 1 && html`<span class="aside">attempt ${build.attempt}</span>`}
      ${build.flaky && html`<span class="aside">flaky</span>`}
    </span>
    <span class="build-said">${reason !== '' && reasonText(reason)}</span>
    <span class="build-took aside">${started !== null && duration(started, finished)}</span>
  </li>`;
}

async function deployPart(visit: ProjectVisit, commit: CommitDetails): Promise<Html> {
  const strategies = await visit.api.get('/projects/:project_id/deploy_strategies');
  if (strategies.length === 0) return html``;
  const deploy = recordForm(visit, 'deploy', deployForm);
  const choices = strategies.map(({ id_str: id, name }) => [id, name] as const);
  const fields = html`${hidden('commit_id', commit.id)} ${deploy.field('deploy_strategy_id', { choices })}
  ${confirmationField(deploy, commit)}`;
  return deploy.wrap(fields, { button: 'Deploy', kind: 'plain', isInline: true, label: 'Deploy' });
}

async function show(visit: ProjectVisit) {
  const { api, project, projectPath } = visit;
  const commit = await api.get('/projects/:project_id/commits/:commit_id/details');
  const suites = await api.get('/projects/:project_id/suites');
  const builds = await api.all('/projects/:project_id/commits/:commit_id/builds');
  const run = recordForm(visit, 'run', runForm);
  const rest = commit.message.trimStart().split('\n').slice(1).join('\n').trim();
  return {
    title: subjectOf(commit.message),
    state: commit.build_state,
    live: [`project:${project.id_str}`] as const,
    main: html`<div class="title">
        <h1>${subjectOf(commit.message)}</h1>
        <div class="row">
          ${run.wrap(html`${hidden('commit_ref', commit.ref)} ${runChoices(run, suites, visit)}`, {
            button: 'Run build',
          })}
        </div>
      </div>
      <p id="commit-state" data-live>${stateBadge(commit.build_state)}</p>
      ${rest !== '' && html`<pre>${rest}</pre>`} ${about(commit, await forgeLinks(visit))}
      ${await deployPart(visit, commit)} ${filesPart(commit)}
      <h2>Builds</h2>
      <div id="builds" data-live>
        ${
          builds.length === 0
            ? empty('No builds', 'No suite was run on this commit.')
            : groupedBuilds(builds, { item: (build) => buildItem(build, projectPath) })
        }
      </div>`,
  };
}

export const routes: PageRoute[] = projectPage({
  path: '/commits/:commit_id',
  tab: 'commits',
  show,
  actions: {
    run: {
      route: 'POST /projects/:project_id/build_requests',
      fields: askedFrom,
      done: ({ id_str: id }, { param }) => ({ goTo: `/ui/projects/${param('project_id')}/requests/${id}` }),
    },
    deploy: {
      route: 'POST /projects/:project_id/deploys',
      fields: withoutConfirmation,
      before: confirmDeploy,
      done: ({ id_str: id }, { param }) => ({ goTo: `/ui/projects/${param('project_id')}/deploys/${id}` }),
    },
  },
});
