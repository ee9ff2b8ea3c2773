import type { CommitDetails } from '../../shared/records/overview.ts';
import { confirmationField, confirmDeploy, deployForm, withoutConfirmation } from './deploy-cards.ts';
import { askedFor, branchAtForge, commitAtForge, forgeLinks, type ForgeLinks } from './forge-links.ts';
import { hidden, recordForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { ago } from './moments.ts';
import { counted, empty, fact, subjectOf } from './parts.ts';
import { projectPage, type ProjectVisit } from './project-pages.ts';
import { approveBuild, buildList } from './request.ts';
import type { PageRoute } from './site.ts';
import { askedFrom, runChoices, runForm } from './suite-choice.ts';
import { stateBadge } from './states.ts';

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
    <dd>${name}${email !== '' && html` <span class="aside">${email}</span>`}, ${ago(date)}</dd>
  </div>`;
}

function about(commit: CommitDetails, links: ForgeLinks | undefined): Html {
  // The addresses are blank for the public.
  const isSame =
    commit.scm_author_email === commit.scm_committer_email &&
    (commit.scm_author_email !== '' || commit.scm_author_name === commit.scm_committer_name);
  return html`<dl class="facts">
    ${person('Author', commit.scm_author_name, commit.scm_author_email, commit.scm_authored_date)}
    ${!isSame && person('Committer', commit.scm_committer_name, commit.scm_committer_email, commit.scm_committed_date)}
    ${fact('SHA', html`<code>${commit.ref}</code> ${!commit.merge_of && commitAtForge(links, commit.ref)}`)}
    ${commit.merge_of !== '' && fact('Merge of', html`<code>${commit.merge_of}</code> ${commitAtForge(links, commit.merge_of)}`)}
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

/** The builds of all requests together, in the rows of a request's page. */
async function buildsPart(visit: ProjectVisit, { build_requests: brought }: CommitDetails, links?: ForgeLinks) {
  const asked = brought.map(({ id_str: id }) => ({ params: { build_request_id: id } }));
  const of = '/projects/:project_id/build_requests/:build_request_id';
  const requests = await Promise.all(asked.map((one) => visit.api.get(of, one)));
  const builds = (await Promise.all(asked.map((one) => visit.api.all(`${of}/builds`, one)))).flat();
  return html`${builds.length === 0 ? empty('No builds', 'No suite was run on this commit.') : buildList(visit, builds)}
    <h2>Requests</h2>
    <ul class="card rows compact">
      ${requests.map(
        (request) =>
          html`<li class="row">
            ${stateBadge(request.build_state)}
            <a href="${visit.projectPath}/requests/${request.id_str}">${request.commit_ref}</a>
            <span class="aside">${askedFor(request, links)} ${ago(request.created_at)}</span>
          </li>`,
      )}
    </ul>`;
}

async function deployPart(visit: ProjectVisit, commit: CommitDetails): Promise<Html | false> {
  if (!visit.mayWork || commit.merge_of !== '') return false;
  const strategies = await visit.api.get('/projects/:project_id/deploy_strategies');
  if (strategies.length === 0) return false;
  const deploy = recordForm(visit, 'deploy', deployForm);
  const choices = strategies.map(({ id_str: id, name }) => [id, name] as const);
  const fields = html`${hidden('commit_id', commit.id)} ${deploy.field('deploy_strategy_id', { choices })}
  ${confirmationField(deploy, commit)}`;
  return deploy.wrap(fields, { button: 'Deploy', kind: 'plain', isInline: true, label: 'Deploy' });
}

async function show(visit: ProjectVisit) {
  const { api, project, mayWork } = visit;
  const commit = await api.get('/projects/:project_id/commits/:commit_id/details');
  const suites = mayWork ? await api.get('/projects/:project_id/suites') : [];
  const links = await forgeLinks(visit);
  const run = recordForm(visit, 'run', runForm);
  const rest = commit.message.trimStart().split('\n').slice(1).join('\n').trim();
  return {
    title: subjectOf(commit.message),
    state: commit.build_state,
    live: [`project:${project.id_str}`, `logs:${project.id_str}`] as const,
    main: html`<div class="title">
        <h1>${subjectOf(commit.message)}</h1>
        <div class="row">
          ${
            mayWork &&
            commit.merge_of === '' &&
            (project.parameters.length === 0
              ? run.wrap(html`${hidden('commit_ref', commit.ref)} ${runChoices(run, suites, visit)}`, {
                  button: 'Run build',
                })
              : html`<a class="button" href="${visit.projectPath}/run?commit_ref=${commit.ref}">Run</a>`)
          }
        </div>
      </div>
      <p id="commit-state" data-live>${stateBadge(commit.build_state)}</p>
      ${rest !== '' && html`<pre>${rest}</pre>`} ${about(commit, links)} ${await deployPart(visit, commit)}
      ${filesPart(commit)}
      <h2>Builds</h2>
      <div id="builds" data-live>${await buildsPart(visit, commit, links)}</div>`,
  };
}

export const routes: PageRoute[] = projectPage({
  path: '/commits/:commit_id',
  tab: 'commits',
  isOpen: true,
  show,
  actions: {
    approve_build: approveBuild,
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
