import { type Caller, hasScope } from '../auth/callers.ts';
import { onPage } from '../api/pages.ts';
import { projectRoute } from '../api/route.ts';
import type { Blobs } from '../db/blobs.ts';
import type { Queries } from '../db/open.ts';
import type { BuildRow } from '../db/schema.ts';
import { pageOf } from '../http/paging.ts';
import { timestamp } from '../../shared/lib/timestamps.ts';
import { firstFailures } from '../results/first-failures.ts';
import { flakyTests } from '../results/flaky-tests.ts';
import { provedBy } from '../lifecycle/kept-builds.ts';
import { timestampOrNull } from '../../shared/lib/timestamps.ts';
import { settingsOf } from '../lifecycle/file-suites.ts';
import { withFirst } from '../lifecycle/needs.ts';
import { newestAttempts } from '../lifecycle/rollup.ts';
import { buildMachine, isFinal, type BuildState } from '../lifecycle/states.ts';
import { sentence } from '../lifecycle/status-reports.ts';
import {
  buildDetailsRecord,
  commitDetailsRecord,
  flakyTestDetailsRecord,
  requestDetailsRecord,
  saidBuildRecord,
  type SaidBuild,
} from '../../shared/records/overview.ts';
import { listOf } from '../../shared/records/schema.ts';
import { failureLine, lastLine } from '../streams/last-lines.ts';
import { findLog } from '../streams/logs.ts';
import type { StoredStep } from '../views/build-steps.ts';
import { commitView } from '../views/commit.ts';
import { logged as ofRequests } from './build-requests.ts';
import { hasSummary } from '../outputs/summaries.ts';
import { lenders } from '../lifecycle/lent-files.ts';
import { findBuild, showing, withheldView } from './builds.ts';
import { loadCommit } from './commits.ts';
import { withIdString } from './common.ts';
import { keptUntil } from './kept-files.ts';
import { timesOf } from './request-times.ts';
import { flakyView } from './tests.ts';

async function attemptsLike(db: Queries, { commit_id, suite_name, variant }: BuildRow): Promise<BuildRow[]> {
  const builds = db.selectFrom('builds').selectAll().where('commit_id', '=', commit_id);
  const attempts = await builds.where('suite_name', '=', suite_name).where('variant', '=', variant).execute();
  return attempts.filter(({ checks_id: checked }) => checked === null).toSorted((a, b) => a.attempt - b.attempt);
}

/** Empty before the build starts, because until then the build with the files may still change. */
async function filesOf(db: Queries, build: BuildRow) {
  const givers = [...(build.files_of === null ? [] : [build.files_of]), ...lenders(build)];
  if (givers.length === 0 || build.started_at === null) return [];
  const builds = db.selectFrom('builds').select(['id', 'suite_name', 'variant']).where('id', 'in', givers);
  return (await builds.orderBy('id').execute()).map(({ id, ...named }) => ({ ...withIdString('id', id), ...named }));
}

/** The newest builds of its request, and of the request that this one joined. */
async function siblingsOf(db: Queries, build: BuildRow) {
  const requests = db.selectFrom('build_requests').select('joined_to_id').where('id', '=', build.build_request_id);
  const { joined_to_id: first } = await requests.executeTakeFirstOrThrow();
  const builds = db
    .selectFrom('builds')
    .select(['id', 'suite_id', 'suite_name', 'variant', 'build_state', 'allow_failure', 'attempt'])
    .select(['commit_id', 'deploy_id']);
  const ofRequest = (id: bigint) => builds.where('build_request_id', '=', id).orderBy('id').execute();
  const own = await ofRequest(build.build_request_id);
  const newest = newestAttempts(withFirst(own, first === null ? [] : await ofRequest(first)));
  return newest.map(({ id, suite_name, variant, build_state, allow_failure: mayFail }) => ({
    ...withIdString('id', id),
    suite_name,
    variant,
    build_state,
    allow_failure: mayFail === 1,
  }));
}

/** Times of steps count from the start of the build, and times of lines from the start of its log. */
async function stepParts(db: Queries, caller: Caller, build: BuildRow) {
  const { id, steps, step_commands: texts, started_at: started } = build;
  const stored = steps === '' ? [] : (JSON.parse(steps) as StoredStep[]);
  // A token sees only data that its scopes also show elsewhere.
  const commands = hasScope(caller, 'suites') ? (JSON.parse(texts) as string[]) : [];
  const log = stored.length > 0 ? await findLog(db, id) : undefined;
  const lead = started === null || !log?.began_at ? undefined : Number(started - log.began_at);
  return stored.map(({ from, to }, at) => ({
    command: commands[at] ?? '',
    began: lead === undefined || from === undefined ? null : Math.max(0, lead + from),
    took: from === undefined || to === undefined ? null : to - from,
  }));
}

/** Where and when the build passed whose result this one has. */
async function proofOf(db: Queries, { reused_from_id: id }: BuildRow) {
  if (id === null) return null;
  const builds = db.selectFrom('builds').innerJoin('commits', 'commits.id', 'builds.commit_id');
  const {
    finished_at: at,
    branch,
    ...build
  } = await builds
    .innerJoin('build_requests', 'build_requests.id', 'builds.build_request_id')
    .select(['builds.commit_id', 'builds.finished_at', 'commits.ref', 'build_requests.branch'])
    .where('builds.id', '=', id)
    .executeTakeFirstOrThrow();
  return {
    ...withIdString('commit_id', build.commit_id),
    commit_ref: build.ref,
    branch,
    finished_at: timestampOrNull(at),
  };
}

async function artifactsOf(db: Queries, buildId: bigint) {
  const all = db.selectFrom('artifacts').where('build_id', '=', buildId);
  const sum = all.select((of) => [of.fn.countAll().as('files'), of.fn.sum('size').as('bytes')]);
  const { files, bytes } = await sum.executeTakeFirstOrThrow();
  return { artifacts: Number(files), artifact_bytes: Number(bytes) };
}

const mostRequests = 10;

async function requestsOf(db: Queries, commitId: bigint) {
  const requests = db.selectFrom('build_requests').select('id').where('commit_id', '=', commitId);
  const newest = await requests.orderBy('id', 'desc').limit(mostRequests).execute();
  return newest.map(({ id }) => withIdString('id', id));
}

/** Only so many builds show their last line, because each needs a read of a log. */
const mostLastLines = 64;

/** The first failed test of a build, or else the line of its log that reports the failure. */
async function failuresOf(call: { db: Queries; blobs: Blobs }, builds: readonly BuildRow[]) {
  const failed = builds.filter(({ build_state: state }) => failedStates.has(state));
  const tests = await firstFailures(
    call.db,
    failed.filter(({ tests_failed: count }) => count > 0).map(({ id }) => id),
  );
  const found = new Map<bigint, SaidBuild['failure']>();
  for (const build of failed) {
    const test = tests.get(build.id);
    const [line = ''] = (test?.message ?? '').trimStart().split('\n', 1);
    found.set(
      build.id,
      test
        ? { test: test.name, class: test.class, line: line.slice(0, longestMessage) }
        : { test: '', class: '', line: await failureLine(call, build) },
    );
  }
  return found;
}

const failedStates: ReadonlySet<string> = new Set(['failed', 'timed_out', 'errored']);
const longestMessage = 240;

export const routes = [
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/commits/:commit_id/details',
    access: 'public',
    scope: 'commits',
    summary: 'Fetch a commit with the branches and tags that it was found on, and the files that it changed',
    answer: commitDetailsRecord,
    load: loadCommit,
    handle: async ({ db, commit }) => ({
      ...commitView(commit),
      branches: JSON.parse(commit.branches) as string[],
      tags: JSON.parse(commit.tags) as string[],
      files: JSON.parse(commit.files) as string[],
      build_requests: await requestsOf(db, commit.id),
      merge_of: commit.merge_of,
    }),
  }),
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/builds/:build_id/details',
    access: 'public',
    scope: 'commits',
    summary:
      'Fetch a build with whether its suite still exists, its build request, the build whose files it started with, how it ' +
      'ended in a sentence, its steps, the builds of its request, those that it needs, all attempts at the same suite and ' +
      'variant of the commit, the first one first, how many artifacts it has, and whether it wrote a summary',
    answer: buildDetailsRecord,
    async handle(call) {
      const { db, project, params } = call;
      const build = await findBuild(db, project.id, params.build_id);
      const state = build.build_state as BuildState;
      const attempts = await attemptsLike(db, build);
      const view = await showing(call, attempts);
      const needs = JSON.parse(build.needs) as string[];
      const suites = await siblingsOf(db, build);
      return {
        ...view(build),
        ...(await keptUntil(call, build)),
        ...withheldView(build),
        suite_exists: (await settingsOf(db, build)) !== undefined,
        ...withIdString('build_request_id', build.build_request_id),
        files_of: await filesOf(db, build),
        sentence: isFinal(buildMachine, state) ? await sentence(db, build, state) : '',
        needs: suites.filter(({ suite_name: name }) => needs.includes(name)),
        suites,
        step_parts: await stepParts(db, call.caller, build),
        attempts: attempts.map(view),
        ...(await artifactsOf(db, provedBy(build))),
        has_summary: await hasSummary(db, provedBy(build)),
        proved_by: await proofOf(db, build),
      };
    },
  }),
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/build_requests/:build_request_id/details',
    access: 'public',
    scope: 'build_requests',
    summary:
      'When a build request was fetched, began to run and ended, how long it took in all and how long it waited; of one ' +
      'that was run again, since then; of the merge of a pull request, what was merged',
    answer: requestDetailsRecord,
    handle: async (call) => timesOf(call.db, await ofRequests.findLog(call)),
  }),
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/build_requests/:build_request_id/builds',
    access: 'public',
    scope: 'build_requests',
    summary:
      'List the builds of a build request, every attempt of every suite and variant, with the names of the suites that ' +
      'each needs, and the last log line of each newest attempt, and of a failed one also its first failed test, or the ' +
      'line that reports the failure; of more than 64 newest attempts, only those of the first ones',
    paged: true,
    answer: listOf(saidBuildRecord),
    async handle(call) {
      const { db, page } = call;
      const builds = db
        .selectFrom('builds')
        .selectAll()
        .where('build_request_id', '=', await ofRequests.findLog(call))
        .where('checks_id', 'is', null);
      const rows = await onPage(builds, 'id', page).execute();
      const view = await showing(call, rows);
      const newest = newestAttempts(rows).slice(0, mostLastLines);
      const lines = new Map<bigint, string>();
      for (const build of newest) lines.set(build.id, await lastLine(call, build));
      const failures = await failuresOf(call, newest);
      return pageOf(
        page,
        rows.map((row) => ({
          ...view(row),
          needs: JSON.parse(row.needs) as string[],
          last_line: lines.get(row.id) ?? '',
          failure: failures.get(row.id) ?? null,
        })),
      );
    },
  }),
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/tests/flaky/details',
    access: 'public',
    scope: 'commits',
    summary: 'List flaky tests: on how many commits, since which commit, and the build in which each last failed',
    answer: listOf(flakyTestDetailsRecord),
    async handle({ db, project }) {
      const tests = await flakyTests(db, project.id);
      const began = tests.map(({ beganOn }) => beganOn);
      const commits = db.selectFrom('commits').select(['id', 'ref']);
      const rows = began.length === 0 ? [] : await commits.where('id', 'in', began).execute();
      const refs = new Map(rows.map(({ id, ref }) => [id, ref]));
      return tests.map((test) => ({
        ...flakyView(test),
        commits: test.commits,
        ...withIdString('failed_build_id', test.failedBuildId),
        ...withIdString('began_commit_id', test.beganOn),
        began_ref: refs.get(test.beganOn) ?? '',
        began_at: timestamp(test.beganAt),
      }));
    },
  }),
];
