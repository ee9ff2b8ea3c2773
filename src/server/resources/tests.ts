import { projectRoute } from '../api/route.ts';
import { described, oneOf, text } from '../../shared/records/fields.ts';
import type { Page, PageOf } from '../http/paging.ts';
import { timestamp } from '../../shared/lib/timestamps.ts';
import { flakyTests, type FlakyTest } from '../results/flaky-tests.ts';
import type { PlacedTest, TestState } from '../results/packed-tests.ts';
import { slowTests } from '../results/slow-tests.ts';
import { testsOf, type Wanted } from '../results/test-results.ts';
import { flakyTestRecord, slowTestRecord, testRecord } from '../../shared/records/build.ts';
import { listOf } from '../../shared/records/schema.ts';
import { testStates } from '../../shared/records/states.ts';
import { findBuild } from './builds.ts';

function view({ name, class: of, suite, file, state, durationMs, message }: PlacedTest) {
  return { name, class: of, suite, file, state, duration_ms: durationMs, message };
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
function pageOfTests(page: Page, { fromEnd = false }: Wanted, found: PlacedTest[]): PageOf<ReturnType<typeof view>> {
  const hasMore = found.length > page.limit;
  const shown = fromEnd ? found.slice(-page.limit) : found.slice(0, page.limit);
  const [first, last] = [shown[0], shown.at(-1)];
  return {
    items: shown.map(view),
    older: fromEnd || hasMore,
    newer: fromEnd ? hasMore : page.after !== undefined,
    ...(first && last && { upwards: { first: BigInt(first.at + 1), last: BigInt(last.at + 1) } }),
  };
}

export function flakyView({ name, class: of, suite, failures, passes, lastSeenAt, message }: FlakyTest) {
  return { name, class: of, suite, failures, passes, last_seen_at: timestamp(lastSeenAt), message };
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
      const build = await findBuild(db, project.id, params.build_id);
      const wanted = wantedOn(page, query);
      return pageOfTests(page, wanted, await testsOf(db, build.id, wanted));
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
      return tests.map(({ name, class: of, suite, durationMs, runs }) => ({
        name,
        class: of,
        suite,
        duration_ms: durationMs,
        runs,
      }));
    },
  }),
];
