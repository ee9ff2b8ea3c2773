import { sql } from 'kysely';
import { onPage } from '../api/pages.ts';
import type { Queries } from '../db/open.ts';
import { pageFields, pageOf, type Page as ListPage } from '../http/paging.ts';
import { readFields } from '../http/fields.ts';
import { pageForm } from './forms.ts';
import { buildName, buildsOfCommits, countedOfCommit, type NamedBuild } from './build-rows.ts';
import { html, type Html } from './html.ts';
import { ago } from './moments.ts';
import { empty, pagination, shortSha, startOfMessage, subjectOf } from './parts.ts';
import { overviewLine, overviewOf, requestsUnderWay, usualBranch } from './project-overview.ts';
import { projectPage, type ProjectVisit } from './project-pages.ts';
import type { Place } from './site.ts';
import { suiteChoice } from './suite-choice.ts';
import { buildMark, buildWord, isUnderWay, lookOfBuild, stateBadge } from './states.ts';

const commitsOnPage = 25;
/** More suites would fill the list of commits. */
const mostMarks = 30;

interface CommitLine {
  id: bigint;
  id_str: string;
  ref: string;
  build_state: string;
  message: string;
  scm_author_name: string;
  branch: string;
  request_id: bigint | null;
  requested_at: bigint | null;
  /** The pull request of that request. */
  pull_request: bigint | null;
  from_fork: number | null;
}

/** A commit is on a branch if it was built for the branch, or if a fetch found it there. */
function isOnBranch(branch: string) {
  const inList = `%${JSON.stringify(branch).replaceAll(/[!%_]/g, '!$&')}%`;
  return sql<boolean>`(c.branch = ${branch} or c.branches like ${inList} escape '!')`;
}

async function commitsOf(db: Queries, projectId: bigint, branch: string, page: ListPage) {
  const commits = db
    .selectFrom('commits as c')
    .select([
      'c.id',
      'c.ref',
      'c.build_state',
      startOfMessage('c.message').as('message'),
      'c.scm_author_name',
      'c.branch',
    ])
    .select((of) =>
      of
        .selectFrom('build_requests as n')
        .select((n) => n.fn.max('n.id').as('id'))
        .whereRef('n.commit_id', '=', 'c.id')
        .as('request_id'),
    )
    .where('c.project_id', '=', projectId);
  const wanted = branch === '' ? commits : commits.where(isOnBranch(branch));
  const rows = await onPage(wanted, 'c.id', page).execute();
  const requests = await requestsOf(db, rows);
  return pageOf(
    page,
    rows.map((row) => ({ ...row, ...(requests.get(row.request_id) ?? noRequest), id_str: String(row.id) })),
  );
}

const noRequest = { requested_at: null, pull_request: null, from_fork: null };

/**
 * Read by identifier: with a join on the newest request of each commit, PostgreSQL would compare every request with
 * every commit.
 */
async function requestsOf(db: Queries, commits: readonly { request_id: bigint | null }[]) {
  const ids = commits.map(({ request_id: id }) => id).filter((id) => id !== null);
  if (ids.length === 0) return new Map<bigint | null, never>();
  const rows = await db
    .selectFrom('build_requests')
    .select(['id', 'created_at as requested_at', 'pull_request', 'from_fork'])
    .where('id', 'in', ids)
    .execute();
  return new Map(rows.map(({ id, ...row }): [bigint | null, typeof row] => [id, row]));
}

/** Requests without a commit: those that wait for one, and those whose fetch failed. */
export async function withoutCommit(db: Queries, projectId: bigint) {
  return db
    .selectFrom('build_requests')
    .select(['id', 'commit_ref', 'build_state', 'created_at', 'pull_request'])
    .where('project_id', '=', projectId)
    .where('commit_id', 'is', null)
    .orderBy('id', 'desc')
    .limit(5)
    .execute();
}

function marks(builds: readonly NamedBuild[], projectPath: string): Html {
  const newest = countedOfCommit(builds);
  // Users look for suites that did not pass.
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

function weight(build: NamedBuild): number {
  return { bad: 0, warn: 1, busy: 2, wait: 3, held: 3, none: 4, good: 5 }[lookOfBuild(build)];
}

function commitItem(commit: CommitLine, builds: readonly NamedBuild[], { projectPath }: ProjectVisit): Html {
  const { id, ref, build_state: state, message, branch, request_id: request, requested_at: at } = commit;
  return html`<li id="commit-${id}" class="commit">
    <span class="commit-state">${stateBadge(state)}</span>
    <div class="commit-title">
      <a href="${projectPath}/commits/${id}">${subjectOf(message)}</a>
      <p class="aside">
        <code>${shortSha(ref)}</code> ${branch !== '' && html`on <code>${branch}</code>`} by ${commit.scm_author_name}
        ${commit.pull_request !== null && `in pull request ${commit.pull_request}`}
        ${commit.from_fork === 1 && 'from a fork'}
      </p>
    </div>
    <span class="commit-marks">${marks(builds, projectPath)}</span>
    <span class="commit-when aside"
      >${at !== null && request !== null && html`<a href="${projectPath}/requests/${request}">${ago(at)}</a>`}</span
    >
  </li>`;
}

function requestItems(requests: Awaited<ReturnType<typeof withoutCommit>>, path: string): Html | false {
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

function branchFilter(branch: string, path: string): Html {
  return html`<form method="get" action="${path}" role="search" class="filter">
    <label for="branch">Branch</label>
    <input id="branch" name="branch" type="search" value="${branch}" autocomplete="off" />
    <button class="quiet">Show</button>
  </form>`;
}

async function commitList(visit: ProjectVisit, branch: string): Promise<Html> {
  const { db, project, projectPath, query } = visit;
  const { values: cursor } = readFields(pageFields, query, 'create');
  const list = { before: undefined, after: undefined, ...cursor, limit: commitsOnPage };
  const commits = await commitsOf(db.read, project.id, branch, list);
  const builds = await buildsOfCommits(
    db.read,
    commits.items.map(({ id }) => id),
  );
  const requests = branch === '' && list.before === undefined ? await withoutCommit(db.read, project.id) : [];
  const newest = commits.items[0]?.request_id ?? 0n;
  const nothing =
    branch === ''
      ? empty(
          'Nothing was built yet',
          html`Ask for a branch, tag or commit above, or go through the <a href="${projectPath}/setup">setup</a> of the
            project first.`,
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
              ${commits.items.map((commit) => commitItem(commit, builds.get(commit.id) ?? [], visit))}
            </ul>`
      }
      ${pagination(commits, { path: projectPath, query: { branch } })}
    </div>`;
}

/** What the overview counts as running. */
async function runningList({ db, project, projectPath }: ProjectVisit): Promise<Html> {
  const requests = await requestsUnderWay(db.read, project.id);
  return html`<div id="under-way" data-live>
      ${requestItems(requests, projectPath) || empty('Nothing runs now', 'What was running is over.')}
    </div>
    <p><a href="${projectPath}">All commits</a></p>`;
}

async function show(visit: ProjectVisit) {
  const { db, project, projectPath, queryText } = visit;
  const branch = queryText('branch').trim();
  const isOfRunning = queryText('running') === 'yes';
  const overview = await overviewOf(db.read, project.id);
  const run = pageForm(visit, 'run');
  const suites = await visit.api.get('/projects/:project_id/suites');
  const title = isOfRunning ? 'Running now' : 'Commits';
  return {
    title,
    state: project.build_state,
    main: html`<section id="overview" aria-label="How it is doing" data-live>
        ${overviewLine(overview, projectPath)}
      </section>
      <div class="title">
        <h1>${title}</h1>
        <div class="actions">${branchFilter(branch, projectPath)}</div>
      </div>
      ${run.wrap(
        html`${run.text('commit_ref', 'Branch, tag or commit', {
          value: await usualBranch(db.read, project.id, overview),
          required: true,
          isCode: true,
          wrong: 'This cannot be the name of a branch, a tag or a commit.',
        })}
        ${suiteChoice(run, suites, visit)}`,
        { button: 'Run build', isInline: true, label: 'Run build' },
      )}
      ${
        suites.length === 0 &&
        html`<p class="card aside">
          The project has no suites: nothing is run on a commit.
          <a href="${projectPath}/setup">Set up the first one</a>.
        </p>`
      }
      ${isOfRunning ? await runningList(visit) : await commitList(visit, branch)}`,
  };
}

export const places: Place[] = projectPage({
  path: '',
  tab: 'commits',
  show,
  actions: {
    run: {
      route: 'POST /projects/:project_id/build_requests',
      done: ({ id_str: id }, { path }) => ({ goTo: `${path}/requests/${id}` }),
    },
  },
});
