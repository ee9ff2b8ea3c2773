import { sql } from 'kysely';
import type { Queries } from '../db/open.ts';
import { lastCheck } from '../lifecycle/connection-checks.ts';
import { countFlaky } from '../lifecycle/flaky-tests.ts';
import { html, type Html } from './html.ts';
import { durationInWords } from './browser/time-words.ts';
import { ago } from './moments.ts';
import { counted } from './parts.ts';
import { isUnderWay, lookOf, stateBadge, stateWord } from './states.ts';

/** How a project is doing, in one line. Everything is read by indexes, and no more of it than is shown. */

const shownBuilds = 30;
/** More that run at the same time are not counted. */
const mostRunning = 100;

/** A build request, in the words of people. */
interface ShownBuild {
  id: bigint;
  build_state: string;
  /** In milliseconds; null until a suite has begun. */
  took: number | null;
}

export interface Overview {
  /** Blank while the name of the default branch is not known. */
  branch: string;
  state: string;
  passedSince: bigint | null;
  failedSince: bigint | null;
  /** The last ones of the default branch, or of the project where that is not known; oldest first. */
  builds: ShownBuild[];
  running: number;
  flaky: number;
}

export async function overviewOf(db: Queries, id: bigint): Promise<Overview> {
  const project = await db
    .selectFrom('projects')
    .select(['default_branch', 'build_state', 'passed_since', 'failed_since'])
    .where('id', '=', id)
    .executeTakeFirstOrThrow();
  const { default_branch: branch } = project;
  return {
    branch,
    state: project.build_state,
    passedSince: project.passed_since,
    failedSince: project.failed_since,
    builds: await lastBuilds(db, id, branch),
    running: (await requestsUnderWay(db, id)).length,
    flaky: await countFlaky(db, id),
  };
}

async function lastBuilds(db: Queries, projectId: bigint, branch: string): Promise<ShownBuild[]> {
  const requests = db.selectFrom('build_requests').select(['id', 'build_state']).where('project_id', '=', projectId);
  // The second condition is that of the index.
  const wanted = branch === '' ? requests : requests.where('branch', '=', branch).where('pull_request', 'is', null);
  const newest = await wanted.orderBy('id', 'desc').limit(shownBuilds).execute();
  if (newest.length === 0) return [];
  const times = await db
    .selectFrom('builds')
    .select('build_request_id as id')
    .select((of) => [of.fn.min('started_at').as('start'), of.fn.max('finished_at').as('end')])
    .where(
      'build_request_id',
      'in',
      newest.map(({ id }) => id),
    )
    .groupBy('build_request_id')
    .execute();
  const byId = new Map(times.map((row) => [row.id, row]));
  return newest.toReversed().map((request) => {
    const { start = null, end = null } = byId.get(request.id) ?? {};
    const until = isUnderWay(request.build_state) ? Date.now() : Number(end ?? start);
    return { ...request, took: start === null ? null : Math.max(0, until - Number(start)) };
  });
}

/** Requests that are fetched or built, or wait for that. */
export async function requestsUnderWay(db: Queries, projectId: bigint) {
  const requests = await db
    .selectFrom('build_requests')
    .select(['id', 'commit_ref', 'build_state', 'created_at', 'pull_request'])
    .where('project_id', '=', projectId)
    // Written as in the index, so that the index is used.
    .where(sql<boolean>`build_state in ('enqueued', 'fetching', 'building')`)
    .limit(mostRunning)
    .execute();
  // Sorted here: to have them in order, PostgreSQL would read all requests of the project (db/postgres.ts).
  return requests.toSorted((a, b) => (a.id > b.id ? -1 : 1));
}

/** The branch that people mostly build, for the form that asks for a build. */
export async function usualBranch(db: Queries, projectId: bigint, { branch }: Overview): Promise<string> {
  return branch === '' ? ((await lastCheck(db, projectId))?.default_branch ?? '') : branch;
}

/** Nothing where nothing was built. */
export function overviewLine(overview: Overview, path: string): Html | false {
  const { branch, state, builds, running, flaky } = overview;
  if (builds.length === 0 && running === 0) return false;
  const many = running === mostRunning ? `${running} or more builds` : counted(running, 'build');
  return html`<div class="card overview">
    <div class="overview-state">
      ${stateBadge(state)} ${branch !== '' && html`<code>${branch}</code>`} ${since(overview)}
    </div>
    ${chart(builds, branch)}
    <span>
      ${
        running === 0
          ? html`<span class="aside">Nothing runs now</span>`
          : html`<a href="${path}?running=yes">${many} ${running === 1 ? 'runs' : 'run'} now</a>`
      }
    </span>
    <a href="${path}/tests">${flaky === 0 ? 'No flaky tests' : counted(flaky, 'flaky test')}</a>
  </div>`;
}

function since({ passedSince: passed, failedSince: failed }: Overview): Html | false {
  if (failed !== null) return failingSince(failed);
  return passed !== null && html`<span class="aside">passing since ${ago(passed)}</span>`;
}

export function failingSince(at: bigint): Html {
  return html`<span class="failing">failing since ${ago(at)}</span>`;
}

const [barWidth, gap, height, leastHeight] = [6, 2, 32, 3];

/** A bar for each build, as high as it took long. */
function chart(builds: readonly ShownBuild[], branch: string): Html | false {
  if (builds.length === 0) return false;
  const longest = Math.max(1, ...builds.map(({ took }) => took ?? 0));
  const words = builds.map(({ build_state: state, took }) =>
    took === null ? stateWord(state) : `${stateWord(state)}, ${durationInWords(took)}`,
  );
  const bars = builds.map(({ build_state: state, took }, at) => {
    const tall = Math.max(leastHeight, Math.round(((took ?? 0) / longest) * height));
    return html`<rect
      class="${lookOf(state)}"
      x="${at * (barWidth + gap)}"
      y="${height - tall}"
      width="${barWidth}"
      height="${tall}"
      rx="1"
      ><title>${words[at]}</title></rect
    >`;
  });
  const width = builds.length * (barWidth + gap) - gap;
  const of = branch === '' ? '' : ` of ${branch}`;
  const over = builds.filter(({ build_state: state }) => !isUnderWay(state));
  const passed = over.filter(({ build_state: state }) => state === 'passed').length;
  const times = over.map(({ took }) => took).filter((took) => took !== null);
  const median = times.toSorted((a, b) => a - b)[Math.floor(times.length / 2)];
  return html`<span class="overview-chart">
    <svg
      viewBox="0 0 ${width} ${height}"
      width="${width}"
      height="${height}"
      role="img"
      focusable="false"
      aria-label="Last ${counted(builds.length, 'build')}${of}, oldest first: ${words.join('; ')}"
    >
      ${bars}
    </svg>
    <span class="aside"
      >${passed} of ${over.length} passed${median !== undefined && `, usually in ${durationInWords(median)}`}</span
    >
  </span>`;
}
