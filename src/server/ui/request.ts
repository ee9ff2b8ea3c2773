import type { BuildRequest } from '../../shared/records/build-request.ts';
import type { CommitDetails, RequestDetails, SaidBuild } from '../../shared/records/overview.ts';
import { timeSpanText } from './browser/time-words.ts';
import { attemptKey, buildName, diedOf, groupedBuilds, newestOfSuites } from './build-rows.ts';
import { askedFor, branchAtForge, commitAtForge, forgeLinks } from './forge-links.ts';
import { hidden, pageForm } from './forms.ts';
import { graphPart, inOrderOfNeeds } from './graph.ts';
import { html, type Html } from './html.ts';
import { notice } from './layout.ts';
import { downloadLink, logPart } from './log-viewer.ts';
import { ago, duration } from './moments.ts';
import { counted, empty, section, shortSha, subjectOf, waitingLine } from './parts.ts';
import { reasonText } from '../lifecycle/reasons.ts';
import type { PageAction } from './pages.ts';
import { projectPage, type ProjectVisit } from './project-pages.ts';
import type { PageRoute } from './site.ts';
import { buildBadge, buildMark, isUnderWay, stateBadge } from './states.ts';
import { waterfallPart } from './waterfall.ts';

const record = '/projects/:project_id/build_requests/:build_request_id';

function saying(visit: ProjectVisit, build: SaidBuild, describedBy: string): Html {
  const { id_str, build_state: state, last_line: lastLine, waiting_reason: waits, failure_reason: reason } = build;
  if (build.failure !== null && (build.failure.test !== '' || build.failure.line !== '')) return why(build.failure);
  if (state === 'waiting_for_approval' && visit.mayWork) {
    const approve = pageForm(visit, 'approve_build', { build_id: id_str });
    return html`<div class="build-said">${approve.wrap(false, { button: 'Approve', kind: 'main', describedBy })}</div>`;
  }
  const words = state === 'skipped' && reason !== '' ? reasonText(reason) : waits;
  const waiting = words !== '' && html`<em class="aside">${words}</em>`;
  return html`<span class="build-said">${lastLine === '' ? waiting : html`<code>${lastLine}</code>`}</span>`;
}

function why({ test, class: of, line }: NonNullable<SaidBuild['failure']>): Html {
  const name = test !== '' && html`<strong>${of !== '' && `${of} `}${test}</strong> `;
  return html`<span class="build-said failed">${name}${line !== '' && html`<code>${line}</code>`}</span>`;
}

function buildItem(
  visit: ProjectVisit,
  build: SaidBuild,
  earlier: readonly SaidBuild[],
  needs: readonly string[],
): Html {
  const { id, started_at: started, finished_at: finished } = build;
  const path = visit.projectPath;
  const key = attemptKey(build);
  return html`<li id="${key}" class="build">
    <span class="build-state">${buildBadge(build)}</span>
    <span class="build-name">
      <a id="${key}-name" href="${path}/builds/${id}">${buildName(build)}</a>
      ${needs.length > 0 && html`<span class="aside build-needs">needs: ${needs.join(', ')}</span>`}
      ${build.flaky && html`<span class="aside">flaky</span>`} ${diedOf(build)}
      ${
        earlier.length > 0 &&
        html`<span class="marks"
          >${earlier.map(
            (one) =>
              html`<span class="nowrap"
                >${buildMark(one, `Attempt ${one.attempt}`, `${path}/builds/${one.id}`)} ${diedOf(one)}</span
              >`,
          )}</span
        >`
      }
    </span>
    ${saying(visit, build, `${key}-name`)}
    <span class="build-took aside">${started !== null && duration(started, finished)}</span>
  </li>`;
}

/** Builds are ordered, each after the builds that it needs. */
export function buildList(visit: ProjectVisit, builds: readonly SaidBuild[]): Html {
  const attempts = Map.groupBy(builds, attemptKey);
  const newest = newestOfSuites(builds);
  const ordered = inOrderOfNeeds(newest);
  const names = new Set(newest.map(({ suite_name: suite }) => suite));
  const list = groupedBuilds(ordered, {
    path: visit.projectPath,
    item(build) {
      const earlier = (attempts.get(attemptKey(build)) ?? []).filter(({ id }) => id !== build.id).toReversed();
      const needs = build.needs.filter((name) => names.has(name));
      return buildItem(visit, build, earlier, needs);
    },
  });
  return html`${graphPart(newest, visit.projectPath)} ${list}`;
}

const mostNamed = 8;

async function leftOutList({ api, isMember }: ProjectVisit, builds: readonly SaidBuild[]) {
  if (!isMember) return false;
  const built = new Set(builds.map(({ suite_name: suite }) => suite));
  const explained = await api.get(`${record}/explanation`);
  const leftOut = explained.filter(({ runs, name }) => !runs && !built.has(name));
  if (leftOut.length === 0) return false;
  const names = leftOut.slice(0, mostNamed).map(({ name }) => name);
  const more = leftOut.length > mostNamed ? ` and ${leftOut.length - mostNamed} more` : '';
  return html`<details id="left-out" class="left-out">
    <summary>
      ${counted(leftOut.length, 'suite')} left out <span class="aside">${names.join(', ')}${more}</span>
    </summary>
    <ul class="card rows compact">
      ${leftOut.map(({ name, why: reason }) => html`<li><b>${name}</b> <span class="aside">${reason}</span></li>`)}
    </ul>
  </details>`;
}

function joinedPart({ projectPath }: ProjectVisit, { joined_to_id_str: first }: BuildRequest): Html | false {
  if (first === '') return false;
  return html`<p class="card aside">
    It is joined to <a href="${projectPath}/requests/${first}">request ${first}</a>, which brought the same commit. Only
    suites that the other request does not have run here. The state counts the suites of both.
  </p>`;
}

function mergePart(
  visit: ProjectVisit,
  { merge }: RequestDetails,
  { target_branch: target }: BuildRequest,
): Html | false {
  if (!merge) return false;
  const again = merge.behind && visit.mayWork && pageForm(visit, 'again').wrap(false, { button: 'Build again' });
  return html`<div class="card aside" id="merge">
    <p>
      Commit <code>${shortSha(merge.head)}</code> is merged into <code>${target}</code> at
      <code>${shortSha(merge.base)}</code>.
      ${
        merge.behind &&
        html`<strong>behind</strong>: <code>${target}</code> has moved on since, so a new merge may give another result.`
      }
    </p>
    ${again}
  </div>`;
}

function includesPart({ includes }: BuildRequest): Html | false {
  if (includes.length === 0) return false;
  return html`<p class="aside">
    Its file includes
    ${includes.map(
      ({ repository, ref, path, sha }, at) =>
        html`${at > 0 && ', '}<code>${path}</code> of ${repository} at
          ${ref !== sha && html`<code>${ref}</code>`}${sha !== '' && html` <code>${shortSha(sha)}</code>`}`,
    )}.
  </p>`;
}

function variablesPart({ variables }: BuildRequest): Html | false {
  const given = Object.entries(variables);
  if (given.length === 0) return false;
  return section(
    'request-variables',
    'Variables',
    html`<dl>
      ${given.map(
        ([name, value]) =>
          html`<dt><code>${name}</code></dt>
            <dd><code class="content">${value}</code></dd>`,
      )}
    </dl>`,
    { isCard: true },
  );
}

function suitesPart(
  { build_state: state, joined_to_id: first }: BuildRequest,
  commit: CommitDetails | undefined,
  builds: readonly SaidBuild[],
  visit: ProjectVisit,
): Html {
  if (builds.length > 0) return buildList(visit, builds);
  if (commit && first !== null) return html`<p class="aside">The other request runs all suites.</p>`;
  if (commit) return empty('No suite was run', 'None of the suites of this project applies to the commit.');
  if (state === 'waiting_for_approval') return html`<p class="aside">Nothing of it was fetched yet.</p>`;
  return isUnderWay(state)
    ? html`<p class="aside">The suites follow when the commit is fetched.</p>`
    : empty(
        'Nothing was run',
        state === 'cancelled'
          ? 'It was cancelled before its commit was fetched.'
          : visit.isMember
            ? 'The log below says why.'
            : 'Its commit was not fetched.',
      );
}

function buttons(
  visit: ProjectVisit,
  { build_state: state, joined_to_id: first }: BuildRequest,
  builds: readonly SaidBuild[],
): Html | false {
  if (!visit.mayWork) return false;
  const [cancel, rerun, failed] = [
    pageForm(visit, 'cancel'),
    pageForm(visit, 'rerun'),
    pageForm(visit, 'rerun_failed'),
  ];
  if (state === 'waiting_for_approval') {
    const approve = pageForm(visit, 'approve').wrap(false, { button: 'Approve', kind: 'main' });
    return html`${approve} ${cancel.wrap(false, { button: 'Cancel', kind: 'danger' })}`;
  }
  if (isUnderWay(state)) return cancel.wrap(false, { button: 'Cancel', kind: 'danger' });
  const newest = newestOfSuites(builds);
  const hasFailed = newest.some((build) => build.build_state !== 'passed') || (first !== null && state !== 'passed');
  const mayGoOn = newest.some((build) => build.build_state === 'waiting_for_approval');
  return html`${mayGoOn && cancel.wrap(false, { button: 'Cancel', kind: 'danger' })}
  ${hasFailed && failed.wrap(hidden('failed_only', 'true'), { button: 'Run failed again', kind: 'main' })}
  ${rerun.wrap(false, { button: 'Run again', kind: hasFailed ? 'plain' : 'main' })}`;
}

function timesLine({ build_state: state }: BuildRequest, times: RequestDetails): Html | false {
  if (state === 'waiting_for_approval') return false;
  const { asked_at: from, finished_at: to, duration_ms: took, waited_ms: waited, started_at: started } = times;
  if (started === null && to !== null) return false;
  const share =
    waited < 1000 || took === 0 ? '' : `, ${to === null ? 'waited' : 'of which it waited'} ${timeSpanText(waited)}`;
  return html`<p class="aside">
    ${to === null ? html`Under way for ${duration(from, null)}` : html`Took ${duration(from, to)} in all`}${share}
  </p>`;
}

async function show(visit: ProjectVisit) {
  const { api, project, projectPath, isMember } = visit;
  const request = await api.get(record);
  const builds = await api.all(`${record}/builds`);
  const times = await api.get(`${record}/details`);
  const { commit_id } = request;
  const commit =
    commit_id === null
      ? undefined
      : await api.get('/projects/:project_id/commits/:commit_id/details', { params: { commit_id } });
  const address = `/projects/${project.id_str}/build_requests/${request.id_str}`;
  const links = await forgeLinks(visit);
  // If no commit was fetched, the log shows the reason. Otherwise the log is folded. It may name addresses.
  const fetchLog =
    isMember &&
    (commit
      ? html`<details id="fetch">
          <summary class="button">Fetch log</summary>
          <p>${downloadLink(address)}</p>
          ${await logPart(visit, record, { address })}
        </details>`
      : await logPart(visit, record, { address, title: 'Fetch log' }));
  const isBranch = commit?.branches.includes(request.commit_ref);
  const what = commit ? subjectOf(commit.message) : request.commit_ref;
  return {
    title: what,
    state: request.build_state,
    live: [`project:${project.id_str}`, `logs:${project.id_str}`] as const,
    isFilled: !commit && isMember,
    main: html`<div class="title">
        <h1 id="what" data-live>${what}</h1>
        <div class="row" id="actions" data-live>${buttons(visit, request, builds)}</div>
      </div>
      <div id="request" data-live>
        <p>
          ${stateBadge(request.build_state)} ${branchAtForge(isBranch ? links : undefined, request.commit_ref)}
          ${
            commit &&
            html`<a href="${projectPath}/commits/${commit.id}"><code>${shortSha(commit.ref)}</code></a>
              ${commitAtForge(links, commit.merge_of || commit.ref)}`
          }
          <span class="aside">${askedFor(request, links)} ${ago(request.created_at)}</span>
        </p>
        ${timesLine(request, times)}
        ${request.failure_reason !== '' && notice('bad', reasonText(request.failure_reason))}
        ${
          commit &&
          html`<p class="aside">
            ${request.config_file !== '' && html`Built by <code>${request.config_file}</code> of this commit.`} Its
            files are compared with
            ${request.compared_with || 'nothing: no rule asks which files changed'}${
              request.base !== '' && html` (<code>${shortSha(request.base)}</code>)`
            }.
          </p>`
        }
        ${includesPart(request)}
        ${
          request.from_fork &&
          html`<p class="card aside">
            It comes from a fork, so it is built without secrets: no variable of a suite is given to it, and it cannot
            be deployed.
          </p>`
        }
        ${mergePart(visit, times, request)} ${joinedPart(visit, request)} ${variablesPart(request)}
        ${
          request.build_state === 'waiting_for_approval' &&
          notice(
            'bad',
            `It waits until a user of the project approves it.${visit.mayWork ? ' Review its changes first.' : ''}`,
          )
        }
        ${request.build_state !== 'waiting_for_approval' && waitingLine(request.waiting_reason)}
        <h2>Suites</h2>
        ${suitesPart(request, commit, builds, visit)} ${commit && (await leftOutList(visit, builds))}
        ${waterfallPart(times, builds, projectPath)}
      </div>
      ${fetchLog}`,
  };
}

/** The page with `buildList` needs this action. */
export const approveBuild: PageAction = {
  route: 'POST /projects/:project_id/builds/:build_id/approve',
  done: 'build_approved',
  refusals: { resource_temporary_unavailable: 'It no longer waits for approval.' },
};

const again = { resource_temporary_unavailable: 'Something of it is not over yet, or was begun again already.' };

export const routes: PageRoute[] = projectPage({
  path: '/requests/:build_request_id',
  tab: 'commits',
  isOpen: true,
  show,
  actions: {
    approve: {
      route: `POST ${record}/approve`,
      done: 'approved',
    },
    approve_build: approveBuild,
    cancel: { route: `POST ${record}/cancel`, done: 'cancelled' },
    rerun: {
      route: `POST ${record}/rerun`,
      done: 'started',
      refusals: again,
    },
    again: {
      route: `POST ${record}/again`,
      done: ({ id_str: id }, { param }) => ({
        goTo: `/ui/projects/${param('project_id')}/requests/${id}`,
        notice: 'started',
      }),
      refusals: { invalid_format: 'The project no longer builds merges of pull requests.' },
    },
    rerun_failed: {
      route: `POST ${record}/rerun`,
      done: 'started',
      refusals: again,
    },
  },
});
