import { reasonText } from '../lifecycle/reasons.ts';
import { isAllowedFailure } from '../lifecycle/rollup.ts';
import type { BuildState } from '../lifecycle/states.ts';
import type { BuildRequest } from '../../shared/records/build-request.ts';
import type { BuildDetails, CommitDetails } from '../../shared/records/overview.ts';
import { annotationsPart } from './build-annotations.ts';
import { briefPart } from './build-brief.ts';
import { inputsPart } from './build-inputs.ts';
import { artifactsPart } from './artifacts.ts';
import { buildName } from './build-rows.ts';
import { stepFigures, usageFacts } from './build-usage.ts';
import { logSteps, restartMenu, stepsPart } from './build-steps.ts';
import { summaryPart } from './build-summary.ts';
import { failedTests, testsPart } from './build-tests.ts';
import { askedFor, commitAtForge, type ForgeLinks, forgeLinks, requestName } from './forge-links.ts';
import { pageForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { notice, type Page } from './layout.ts';
import { downloadLink, linesIn, logPart } from './log-viewer.ts';
import { ago, duration, moment } from './moments.ts';
import { copyable, counted, fact, shortSha, subjectOf, waitingLine } from './parts.ts';
import { projectPage, type ProjectVisit } from './project-pages.ts';
import type { PageRoute } from './site.ts';
import { buildBadge, buildMark, isUnderWay, lookOf, stateBadge } from './states.ts';

interface ShownBuild {
  build: BuildDetails;
  commit: CommitDetails;
  request: BuildRequest;
  links: ForgeLinks | undefined;
  address: string;
}

const uploadsPending =
  'Artifacts or the cache of this build wait on its runner, because the server cannot store them now. They follow when it can.';

const record = '/projects/:project_id/builds/:build_id';

/** The first tab has the address of the build itself. */
const tabs = ['log', 'tests', 'artifacts', 'details'] as const;
type Tab = (typeof tabs)[number];
type Service = { service: string };

async function shownBuild(visit: ProjectVisit): Promise<ShownBuild> {
  const { api, project } = visit;
  const build = await api.get(`${record}/details`);
  const { commit_id, build_request_id } = build;
  const commit = await api.get('/projects/:project_id/commits/:commit_id/details', { params: { commit_id } });
  const asked = { params: { build_request_id } };
  const request = await api.get('/projects/:project_id/build_requests/:build_request_id', asked);
  const address = `/projects/${project.id_str}/builds/${build.id_str}`;
  return { build, commit, request, links: await forgeLinks(visit), address };
}

function attemptMarks({ build }: ShownBuild, path: string): Html | false {
  const { attempts } = build;
  if (attempts.length < 2) return false;
  return html`<span class="marks"
    ><span class="aside">Attempts:</span> ${attempts.map((one) => {
      const about = `Attempt ${one.attempt}`;
      return one.id === build.id
        ? html`<span class="here">${buildMark(one, about)}</span>`
        : buildMark(one, about, `${path}/builds/${one.id}`);
    })}</span
  >`;
}

/** The head has only two lines, so most of the window shows the log. */
function head(visit: ProjectVisit, shown: ShownBuild): Html {
  const { build, commit, request, links, address } = shown;
  const { exit_status: status, started_at: started, finished_at: finished } = build;
  const [cancel, again] = [pageForm(visit, 'cancel'), pageForm(visit, 'restart')];
  const path = visit.projectPath;
  const attempt = build.checks_id === null ? `attempt ${build.attempt}` : 'check';
  // The sentence of a failure includes its time and exit status.
  const isTold = build.build_state === 'failed' && build.failure_reason === '';
  return html`<div class="title build-title">
      <h1>${buildName(build)} <span class="aside">${attempt}</span></h1>
      <p id="build" data-live>
        ${buildBadge(build)} ${build.build_state !== 'passed' && html`<span>${build.sentence}</span>`}
        ${build.flaky && html`<span>Flaky: it failed, and passed when it was tried again.</span>`}
      </p>
      <div class="row" id="actions" data-live>
        ${
          visit.mayWork &&
          build.build_state === 'waiting_for_approval' &&
          pageForm(visit, 'approve').wrap(false, { button: 'Approve', kind: 'main' })
        }
        ${
          visit.mayWork &&
          (isUnderWay(build.build_state)
            ? cancel.wrap(false, { button: 'Cancel', kind: 'danger' })
            : build.suite_exists &&
              html`${again.wrap(false, { button: 'Run again', kind: 'main' })} ${restartMenu(visit, build)}`)
        }
        ${downloadLink(address)}
      </div>
    </div>
    <div id="build-facts" data-live>
      <p class="row build-facts">
        <span class="build-commit"
          ><a href="${path}/commits/${build.commit_id_str}"><code>${shortSha(commit.ref)}</code></a>
          ${subjectOf(commit.message).slice(0, 200)}</span
        >
        <span class="aside"
          ><span class="build-asked"
            >${commitAtForge(links, commit.merge_of || commit.ref)} ${askedFor(request, links)}</span
          >
          <a href="${path}/requests/${build.build_request_id_str}">${ago(build.created_at)}</a></span
        >
        ${build.files_of.map(
          (other) =>
            html`<span class="aside"
              >with the files of <a href="${path}/builds/${other.id_str}">${buildName(other)}</a></span
            >`,
        )}
        ${!isTold && started !== null && html`<span class="aside">${finished === null ? 'running for' : 'took'} ${duration(started, finished)}</span>`}
        ${!isTold && status !== null && html`<span class="aside">exit status ${status}</span>`}
        ${attemptMarks(shown, path)}
      </p>
      ${proofLine(build, path)} ${neededLine(build, path)} ${withheldLine(build)}
      ${
        build.build_state === 'waiting_for_approval'
          ? html`<p class="aside">It waits until a user of the project approves it.</p>`
          : waitingLine(build.waiting_reason)
      }
      ${build.uploads_pending && notice('good', uploadsPending)}
      ${build.uploads_lost !== '' && notice('bad', reasonText(build.uploads_lost))}
    </div>`;
}

function proofLine({ reused_from_id_str: from, proved_by: proof, checks_id_str: checked }: BuildDetails, path: string) {
  if (checked !== '')
    return html`<p class="aside">
      It checks <a href="${path}/builds/${checked}">a build that was not run</a>, and counts for nothing else. If it
      fails, the suite is not reused any more.
    </p>`;
  if (!proof) return false;
  return html`<p class="proof">
    Not run: all its inputs equal those of <a href="${path}/builds/${from}">build ${from}</a>, which passed
    ${proof.finished_at !== null && ago(proof.finished_at)} at
    <a href="${path}/commits/${proof.commit_id_str}"><code>${shortSha(proof.commit_ref)}</code></a
    >${proof.branch !== '' && html` on <code>${proof.branch}</code>`}. Artifacts, tests and summary are of that build.
  </p>`;
}

const whyWithheld = {
  fork: 'the commit is a fork’s',
  new_suite: 'only the file of this commit has the suite',
  pull_request: 'it is a pull request',
  ref: 'the commit was not built for these refs',
} as const;

function withheldLine({ withheld_variables: withheld }: BuildDetails): Html | false {
  if (withheld.length === 0) return false;
  return html`<details class="part" id="withheld">
    <summary>${counted(withheld.length, 'variable')} withheld</summary>
    <ul>
      ${withheld.map(
        ({ name, refs, reason }) =>
          html`<li>
            <code>${name}</code>${refs.length > 0 && `, which only ${refs.join(', ')} has`}: ${whyWithheld[reason]}
          </li>`,
      )}
    </ul>
  </details>`;
}

function neededLine({ build_state: state, needs }: BuildDetails, path: string): Html | false {
  const hasPassed = (one: (typeof needs)[number]): boolean =>
    one.build_state === 'passed' || isAllowedFailure(one.build_state as BuildState, one.allow_failure);
  const lacking = needs.filter((one) => !hasPassed(one));
  if (lacking.length === 0 || !['skipped', 'enqueued'].includes(state)) return false;
  return html`<p class="row build-facts">
    <span class="aside">It needs:</span>
    ${lacking.map((one) => html`<span>${buildBadge(one)} <a href="${path}/builds/${one.id_str}">${buildName(one)}</a></span>`)}
  </p>`;
}

async function tabLinks(visit: ProjectVisit, { build, address }: ShownBuild, current: Tab | Service): Promise<Html> {
  const { tests_passed: passed, tests_failed: failed, tests_skipped: skipped } = build;
  const counts: Record<Tab, number> = {
    log: await linesIn(visit, record),
    tests: passed + failed + skipped,
    artifacts: build.artifacts,
    details: 0,
  };
  return html`<nav id="tabs" aria-label="Build" class="tabs sections build-tabs" data-live>
    ${tabs.map(
      (tab) =>
        html`<a href="/ui${address}${below(tab)}" ${tab === current && html`aria-current="page"`}
          >${titles[tab]}${
            tab !== 'details' &&
            html` <span class="count ${counts[tab] === 0 && 'nothing'}" id="count-${tab}"
              >${counts[tab].toLocaleString('en')}</span
            >`
          }</a
        >`,
    )}
    ${build.services.map(
      ({ name, state }) =>
        html`<a
          href="/ui${address}/services/${name}"
          ${typeof current === 'object' && name === current.service && html`aria-current="page"`}
          >${name} <span class="count ${lookOf(state)}">${state}</span></a
        >`,
    )}
  </nav>`;
}

function detailsPart({ project, projectPath: path, mayWork }: ProjectVisit, shown: ShownBuild): Html {
  const { build, commit, request, links } = shown;
  const { started_at: started, finished_at: finished, exit_status: status, failure_reason: reason } = build;
  const { suite_name: suite } = build;
  const runs = started !== null && finished === null;
  const settings = `${path}/settings/suites/${build.suite_id}`;
  return html`<section id="details" aria-label="Details" data-live>
    <dl class="facts card">
      ${fact('Number', html`<code>${build.id_str}</code>`)}
      ${fact('Suite', project.owned && build.suite_exists && build.suite_id !== null ? html`<a href="${settings}">${suite}</a>` : suite)}
      ${build.variant !== '' && fact('Variant', html`<code>${build.variant}</code>`)}
      ${fact(
        'Commit',
        html`<a href="${path}/commits/${build.commit_id_str}"><code>${commit.ref}</code></a>
          ${commitAtForge(links, commit.merge_of || commit.ref)}`,
      )}
      ${fact(
        'Request',
        html`<a href="${path}/requests/${build.build_request_id_str}">${ago(build.created_at)}</a>,
          ${askedFor(request, links)}`,
      )}
      ${build.approved_by !== '' && fact('Approved by', build.approved_by)}
      ${fact('Began', started === null ? 'not yet' : ago(started))}
      ${fact('Ended', finished === null ? 'not yet' : ago(finished))}
      ${fact(runs ? 'Running for' : 'Took', started === null ? '–' : duration(started, finished))}
      ${fact('Exit status', status === null ? '–' : String(status))}
      ${reason !== '' && fact('Reason', reasonText(reason))} ${usageFacts(build)}
    </dl>
    ${stepFigures(build)} ${mayWork && shellPart(build, path)}
  </section>`;
}

function shellPart({ id_str: id, files_kept_until: until }: ShownBuild['build'], path: string): Html | false {
  if (until === undefined) return false;
  return html`<p class="aside">Its files are kept until ${moment(until)}.</p>
    <p><a class="button" href="${path}/builds/${id}/shell#open">Open a shell</a> or, in a terminal:</p>
    ${copyable(`headrace shell ${id}`, 'shell-command')}`;
}

const titles: Record<Tab, string> = { log: 'Log', tests: 'Tests', artifacts: 'Artifacts', details: 'Details' };

function below(tab: Tab): string {
  return tab === 'log' ? '' : `/${tab}`;
}

const parts: Record<Tab, (visit: ProjectVisit, shown: ShownBuild) => Promise<Html>> = {
  log: async (visit, { build, address }) =>
    html`<div class="build-log">
      <div class="build-side" role="group" aria-label="Suites and steps" tabindex="0">
        ${suitesPart(visit, build)} ${stepsPart(build, `/ui${address}`)}
      </div>
      <div class="build-main">
        ${await briefPart(visit, build, `/ui${address}`)} ${await failedTests(visit, build, `/ui${address}/tests`)}
        ${await annotationsPart(visit, `/ui${address}`)} ${await summaryPart(visit, build.has_summary, address)}
        ${await logPart(visit, record, {
          address,
          steps: logSteps(build),
          hasFailed: ['failed', 'errored', 'timed_out'].includes(build.build_state),
        })}
      </div>
    </div>`,
  tests: (visit, { build }) => testsPart(visit, build),
  artifacts: (visit, { build, address }) => artifactsPart(visit, build, address),
  details: async (visit, shown) =>
    html`${detailsPart(visit, shown)} ${visit.isMember && (await inputsPart(visit, shown.build))}`,
};

/** The other suites of the same request: beside the log, or on a narrow screen as a line above it. */
function suitesPart({ projectPath: path }: ProjectVisit, { suites, suite_name: suite, variant }: BuildDetails): Html {
  if (suites.length < 2) return html`<nav id="suites" aria-label="Suites" data-live></nav>`;
  return html`<nav id="suites" aria-label="Suites" data-live>
    <h2>Suites</h2>
    <ul>
      ${suites.map((one) => {
        const isHere = one.suite_name === suite && one.variant === variant;
        return html`<li>
          <a href="${path}/builds/${one.id_str}" ${isHere && html`aria-current="page"`}
            >${buildMark(one, buildName(one))} <span class="suite-name" aria-hidden="true">${buildName(one)}</span></a
          >
        </li>`;
      })}
    </ul>
  </nav>`;
}

const serviceRecord = `${record}/services/:service_name` as const;

const spent = (from: string | null, to: string | null): Html => (from === null ? html`&ndash;` : duration(from, to));

function servicePart({ build }: ShownBuild, name: string): Html {
  const service = build.services.find((one) => one.name === name);
  if (!service) return html``;
  const { state, started_at: started, ready_at: ready, finished_at: finished, exit_status: status } = service;
  return html`<p class="row build-facts" id="service" data-live>
    ${stateBadge(state)}
    <span class="aside"
      >${
        ready !== null
          ? html`ready after ${spent(started, ready)}`
          : finished === null
            ? 'not ready yet'
            : 'never ready'
      }</span
    >
    ${finished !== null && html`<span class="aside">ran for ${spent(started, finished)}</span>`}
    ${status !== null && html`<span class="aside">exit status ${status}</span>`}
  </p>`;
}

async function partOf(visit: ProjectVisit, shown: ShownBuild, tab: Tab | Service): Promise<Html> {
  if (typeof tab === 'string') return parts[tab](visit, shown);
  return html`${servicePart(shown, tab.service)}
  ${await logPart(visit, serviceRecord, { address: `${shown.address}/services/${tab.service}`, title: tab.service })}`;
}

async function show(visit: ProjectVisit, tab: Tab | Service): Promise<Page> {
  const shown = await shownBuild(visit);
  const name = buildName(shown.build);
  const of = typeof tab === 'object' ? tab.service : titles[tab];
  return {
    title: tab === 'log' ? name : `${of} of ${name}`,
    state: shown.build.build_state,
    crumbs: [
      {
        text: requestName(shown.request),
        href: `${visit.projectPath}/requests/${shown.build.build_request_id_str}`,
      },
      { text: name },
    ],
    live: [`project:${visit.project.id_str}`, `build:${shown.build.id_str}`],
    isFilled: tab === 'log' || typeof tab === 'object',
    main: html`${head(visit, shown)} ${await tabLinks(visit, shown, tab)} ${await partOf(visit, shown, tab)}`,
  };
}

const pages = [
  ...tabs.map((tab) => ({ path: `/builds/:build_id${below(tab)}`, tab: () => tab })),
  {
    path: '/builds/:build_id/services/:service_name',
    tab: (visit: ProjectVisit) => ({ service: visit.param('service_name') }),
  },
] as const;

export const routes: PageRoute[] = pages.flatMap(({ path, tab }) =>
  projectPage({
    path,
    tab: 'commits',
    isOpen: true,
    show: (visit) => show(visit, tab(visit)),
    actions: {
      cancel: {
        route: `POST ${record}/cancel`,
        done: 'cancelled',
      },
      approve: {
        route: `POST ${record}/approve`,
        done: 'build_approved',
        refusals: { resource_temporary_unavailable: 'It no longer waits for approval.' },
      },
      restart: {
        route: `POST ${record}/restart`,
        done: ({ id_str: id }, { param }) => ({ goTo: `/ui/projects/${param('project_id')}/builds/${id}` }),
        refusals: { resource_temporary_unavailable: 'Another attempt at this is under way already.' },
      },
    },
  }),
);
