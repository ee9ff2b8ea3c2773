import { longest } from '../../shared/domain/bounds.ts';
import type { BuiltCommit, Overview, RequestLine } from '../../shared/records/overview.ts';
import type { Build } from '../../shared/records/build.ts';
import { recordForm } from './forms.ts';
import { buildName, newestOfSuites } from './build-rows.ts';
import { html, type Html } from './html.ts';
import { ago } from './moments.ts';
import { logSearchForm } from './log-search.ts';
import { empty, filterForm, pagination, shortSha, subjectOf } from './parts.ts';
import { overviewLine } from './project-overview.ts';
import { projectPage, type ProjectVisit } from './project-pages.ts';
import { statisticsPart } from './project-statistics.ts';
import type { PageRoute } from './site.ts';
import { askedFrom, runChoices, runForm } from './suite-choice.ts';
import { buildMark, buildWord, isUnderWay, lookOfBuild, stateBadge } from './states.ts';

const commitsOnPage = 25;
const mostMarks = 30;

function marks(builds: readonly Build[], projectPath: string): Html {
  const newest = newestOfSuites(builds);
  // Suites that did not pass come first, because users look for them.
  const ordered = newest.length <= mostMarks ? newest : newest.toSorted((a, b) => weight(a) - weight(b));
  const shown = ordered.slice(0, mostMarks);
  const others = Map.groupBy(ordered.slice(mostMarks), buildWord);
  const words = Array.from(others, ([word, some]) => `${some.length} ${word}`).join(', ');
  return html`<span class="marks"
    >${shown.map((build) => buildMark(build, buildName(build), `${projectPath}/builds/${build.id}`))}${
      words !== '' && html`<span class="aside">and ${words}</span>`
    }</span
  >`;
}

function weight(build: Build): number {
  return { bad: 0, warn: 1, busy: 2, wait: 3, held: 3, none: 4, good: 5 }[lookOfBuild(build)];
}

function commitItem(commit: BuiltCommit, projectPath: string): Html {
  const { id, ref, build_state: state, message, branch, newest_request: request } = commit;
  return html`<li id="commit-${id}" class="commit">
    <span class="commit-state">${stateBadge(state)}</span>
    <div class="commit-title">
      <a href="${projectPath}/commits/${id}">${subjectOf(message)}</a>
      <p class="aside">
        <code>${shortSha(ref)}</code> ${branch !== '' && html`on <code>${branch}</code>`} by ${commit.scm_author_name}
        ${request !== null && request.pull_request !== null && `in pull request ${request.pull_request}`}
        ${request?.from_fork && 'from a fork'}
      </p>
    </div>
    <span class="commit-marks">${marks(commit.builds, projectPath)}</span>
    <span class="commit-when aside"
      >${request !== null && html`<a href="${projectPath}/requests/${request.id_str}">${ago(request.created_at)}</a>`}</span
    >
  </li>`;
}

function requestItems(requests: readonly RequestLine[], path: string): Html | false {
  if (requests.length === 0) return false;
  return html`<ul class="card rows compact">
    ${requests.map(
      ({ id, commit_ref: ref, build_state: state, created_at: at, pull_request: pull }) =>
        html`<li id="request-${id}">
          ${stateBadge(state)} <a href="${path}/requests/${id}">Build request for <code>${ref}</code></a>
          <span class="aside">${pull !== null && `pull request ${pull},`} ${ago(at)}</span>
        </li>`,
    )}
  </ul>`;
}

async function commitList(
  visit: ProjectVisit,
  { overview, branch }: { overview: Overview; branch: string },
): Promise<Html> {
  const { api, projectPath, queryText } = visit;
  const [before, after] = [cursor(queryText('before')), cursor(queryText('after'))];
  const query = { branch, before, after, limit: commitsOnPage };
  const commits = await api.list('/projects/:project_id/history', { query });
  const requests = branch === '' && before === undefined ? overview.without_commit : [];
  const newest = commits.items[0]?.newest_request?.id ?? 0n;
  const nothing =
    branch === ''
      ? empty(
          'Nothing was built yet',
          visit.mayWork
            ? html`Ask for a branch, tag or commit above, or go through the <a href="${projectPath}/setup">setup</a> of
                the project first.`
            : 'The commits appear here when a user of the project requests a build.',
        )
      : empty('No commits', `None of the commits that were built is on the branch ${branch}.`);
  return html`<div id="under-way" data-live>
      ${requestItems(
        requests.filter(({ id, build_state: state }) => isUnderWay(state) || id > newest),
        projectPath,
      )}
    </div>
    <div id="commits" data-live>
      ${
        commits.items.length === 0
          ? nothing
          : html`<ul class="commits">
              ${commits.items.map((commit) => commitItem(commit, projectPath))}
            </ul>`
      }
      ${pagination(commits, { path: projectPath, query: { branch } })}
    </div>`;
}

/** Undefined for a wrong value. Then the first page is shown. */
function cursor(text: string): string | undefined {
  return /^[0-9]{1,18}$/.test(text) ? text : undefined;
}

function runningList({ under_way: requests }: Overview, path: string): Html {
  return html`<div id="under-way" data-live>
      ${requestItems(requests, path) || empty('Nothing is running', 'The last build requests have ended.')}
    </div>
    <p><a href="${path}">All commits</a></p>`;
}

async function show(visit: ProjectVisit) {
  const { api, project, projectPath, queryText, isMember, mayWork } = visit;
  const branch = queryText('branch').trim().slice(0, longest.ref);
  const isOfRunning = queryText('running') === 'yes';
  const overview = await api.get('/projects/:project_id/overview');
  const isFirstPage = branch === '' && !isOfRunning && queryText('before') === '' && queryText('after') === '';
  const statistics = isFirstPage ? await api.get('/projects/:project_id/statistics') : undefined;
  const run = recordForm(visit, 'run', runForm);
  const suites = mayWork ? await api.get('/projects/:project_id/suites') : undefined;
  const title = isOfRunning ? 'Running now' : 'Commits';
  return {
    title,
    state: project.build_state,
    main: html`<section id="overview" aria-label="How it is doing" data-live>
        ${overviewLine(overview, projectPath)} ${statistics && statisticsPart(statistics)}
      </section>
      <div class="title">
        <h1>${title}</h1>
        <div class="row">
          ${filterForm(projectPath, { name: 'branch', label: 'Branch', value: branch, most: longest.ref, button: 'Show' })}
          ${isMember && logSearchForm(projectPath)}
          ${mayWork && html`<a class="button" href="${projectPath}/run">Run</a>`}
        </div>
      </div>
      ${
        // A project with parameters asks for them on a page of its own.
        suites &&
        project.parameters.length === 0 &&
        run.wrap(
          html`${run.field('commit_ref', { value: overview.default_branch || overview.last_check?.default_branch })}
          ${runChoices(run, suites, visit)}`,
          { button: 'Run build', isInline: true, label: 'Run build' },
        )
      }
      ${
        suites?.length === 0 &&
        html`<p class="card aside">
          The project has no suites: nothing is run on a commit.
          <a href="${projectPath}/setup">Set up the first one</a>.
        </p>`
      }
      ${isOfRunning ? runningList(overview, projectPath) : await commitList(visit, { overview, branch })}`,
  };
}

export const routes: PageRoute[] = projectPage({
  path: '',
  tab: 'commits',
  isOpen: true,
  show,
  actions: {
    run: {
      route: 'POST /projects/:project_id/build_requests',
      fields: askedFrom,
      done: ({ id_str: id }, { path }) => ({ goTo: `${path}/requests/${id}` }),
    },
  },
});
