import { projectRoute } from '../api/route.ts';
import { described, oneOf, required, text } from '../../shared/records/fields.ts';
import { ApiError } from '../../shared/errors.ts';
import type { Page, PageOf } from '../http/paging.ts';
import { timestamp } from '../../shared/lib/timestamps.ts';
import { flakyTests, type FlakyTest } from '../results/flaky-tests.ts';
import { keyText, type PlacedTest, type TestState } from '../results/packed-tests.ts';
import { slowTests } from '../results/slow-tests.ts';
import { failedSince, failingSince, historyOf, testTrend, type PastRun } from '../results/test-history.ts';
import { testsOf, type Wanted } from '../results/test-results.ts';
import {
  flakyTestRecord,
  slowTestRecord,
  testDayRecord,
  testHistoryRecord,
  testRecord,
} from '../../shared/records/build.ts';
import { listOf } from '../../shared/records/schema.ts';
import { testStates } from '../../shared/records/states.ts';
import { findMaker } from './builds.ts';
import { withIdString } from './common.ts';

type Since = Awaited<ReturnType<typeof failedSince>>;

function view(test: PlacedTest, since: Since) {
  const { name, class: of, suite, file, state, durationMs, message } = test;
  const first = since.get(test);
  return {
    name,
    class: of,
    suite,
    key: keyText(test),
    file,
    state,
    duration_ms: durationMs,
    message,
    failed_since: first
      ? {
          ...withIdString('build_id', first.build_id),
          ...withIdString('commit_id', first.commit_id),
          commit_ref: first.commit_ref,
        }
      : null,
  };
}

function runView({ build_id, suite_name, variant, commit_id, commit_ref, branch }: PastRun) {
  const build = { ...withIdString('build_id', build_id), suite_name, variant };
  return { ...build, ...withIdString('commit_id', commit_id), commit_ref, branch };
}

/** Tests have no IDs, so pages use their position in the build, from 1. */
function wantedOn({ limit, before, after }: Page, { state, query }: { state: TestState | ''; query: string }): Wanted {
  return {
    ...(state !== '' && { state }),
    text: query,
    ...(after !== undefined && { from: Number(after) }),
    ...(before !== undefined && { to: Number(before) - 1 }),
    fromEnd: before !== undefined && after === undefined,
    limit: limit + 1,
  };
}

/** Tests in the order of the reports. The query reads one test more than is shown, to detect a further page. */
function pageOfTests(page: Page, { fromEnd = false }: Wanted, found: PlacedTest[]): PageOf<PlacedTest> {
  const hasMore = found.length > page.limit;
  const shown = fromEnd ? found.slice(-page.limit) : found.slice(0, page.limit);
  const [first, last] = [shown[0], shown.at(-1)];
  return {
    items: shown,
    older: fromEnd || hasMore,
    newer: fromEnd ? hasMore : page.after !== undefined,
    ...(first && last && { upwards: { first: BigInt(first.at + 1), last: BigInt(last.at + 1) } }),
  };
}

export function flakyView(test: FlakyTest) {
  const { name, class: of, suite, failures, passes, lastSeenAt, message } = test;
  const named = { name, class: of, suite, key: keyText(test) };
  return { ...named, failures, passes, last_seen_at: timestamp(lastSeenAt), message };
}

export const routes = [
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/builds/:build_id/tests',
    access: 'public',
    scope: 'commits',
    summary: 'List the tests from a build’s reports, in their order',
    query: {
      state: described(oneOf(['', ...testStates]), 'Only tests in this state'),
      query: text('filter', { description: 'only tests with this in their name, class, suite or file' }),
    },
    paged: true,
    answer: listOf(testRecord),
    async handle({ db, project, params, query, page }) {
      const build = await findMaker({ db, project, params });
      const wanted = wantedOn(page, query);
      const { items, ...shown } = pageOfTests(page, wanted, await testsOf(db, build, wanted));
      const failed = items.filter(({ state }) => state === 'failed');
      const since = await failedSince(db, build, failed);
      return { ...shown, items: items.map((test) => view(test, since)) };
    },
  }),
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/tests/flaky',
    access: 'public',
    scope: 'commits',
    summary: 'List the tests that lately both failed and passed on the same commit and suite',

    answer: listOf(flakyTestRecord),
    handle: async ({ db, project }) => (await flakyTests(db, project.id)).map(flakyView),
  }),
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/tests/slow',
    access: 'public',
    scope: 'commits',
    summary: 'List the tests that took longest in the newest builds, on average',
    answer: listOf(slowTestRecord),
    async handle({ db, project }) {
      const tests = await slowTests(db, project.id);
      return tests.map((test) => {
        const { name, class: of, suite, durationMs, runs } = test;
        return { name, class: of, suite, key: keyText(test), duration_ms: durationMs, runs };
      });
    },
  }),
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/tests/history',
    access: 'public',
    scope: 'commits',
    summary:
      'How a test went in the newest builds, the newest first, and since which build it fails on the default branch',
    query: { key: required(text('filter', { pattern: /^[0-9a-f]{12}$/, description: 'The key of the test' })) },
    answer: testHistoryRecord,
    async handle({ db, project, query }) {
      const runs = await historyOf(db, project.id, Number.parseInt(query.key, 16));
      const [newest] = runs;
      if (!newest) throw new ApiError('not_found', 'key');
      const { default_branch: branch } = await db
        .selectFrom('projects')
        .select('default_branch')
        .where('id', '=', project.id)
        .executeTakeFirstOrThrow();
      const since = failingSince(runs, branch);
      return {
        name: newest.name,
        class: newest.class,
        suite: newest.suite,
        failing_since: since ? runView(since) : null,
        runs: runs.map((run) => ({
          ...runView(run),
          state: run.state,
          duration_ms: run.durationMs,
          message: run.message,
        })),
      };
    },
  }),
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/tests/trend',
    access: 'public',
    scope: 'commits',
    summary: 'Count the tests that passed, failed and were skipped on each of the last 30 days',
    answer: listOf(testDayRecord),
    handle: ({ db, project }) => testTrend(db, project.id),
  }),
];
