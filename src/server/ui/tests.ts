import { ApiError } from '../../shared/errors.ts';
import { flakyDays } from '../results/flaky-tests.ts';
import type { SlowTest, TestDay, TestHistory } from '../../shared/records/build.ts';
import type { FlakyTestDetails } from '../../shared/records/overview.ts';
import { durationText, messagePart, testLink, testName } from './build-tests.ts';
import { html, type Html } from './html.ts';
import { ago } from './moments.ts';
import { counted, empty, shortSha, table } from './parts.ts';
import { barPlot, plotPart, shareBar, strip, type Point } from './plots.ts';
import { projectPage } from './project-pages.ts';
import { rate } from './project-statistics.ts';
import type { PageRoute } from './site.ts';
import { lookOf, stateBadge } from './states.ts';

const mostFlaky = 100;

const overview = projectPage({
  path: '/tests',
  tab: 'tests',
  isOpen: true,
  async show({ api, projectPath }) {
    const flaky = (await api.get('/projects/:project_id/tests/flaky/details')).slice(0, mostFlaky);
    const slow = await api.get('/projects/:project_id/tests/slow');
    const trend = await api.get('/projects/:project_id/tests/trend');
    const slowest = Math.max(0, ...slow.map(({ duration_ms: took }) => took));
    return {
      title: 'Tests',
      main: html`<h1>Tests</h1>
        <div id="trend" data-live>${trendPart(trend)}</div>
        <section aria-labelledby="flaky-title" id="flaky" data-live>
          <h2 id="flaky-title">Flaky</h2>
          <p class="aside">
            Tests that both failed and passed on the same commit and suite, in the last ${flakyDays} days.
          </p>
          ${
            flaky.length === 0
              ? empty('No flaky tests', 'Nothing is known of a test that failed and passed on the same commit.')
              : html`<ul class="card rows">
                  ${flaky.map((test) => html`<li>${flakyItem(test, projectPath)}</li>`)}
                </ul>`
          }
        </section>
        <section aria-labelledby="slow-title" id="slow" data-live>
          <h2 id="slow-title">Slow</h2>
          <p class="aside">The tests that took longest in the newest builds, on average.</p>
          ${table(
            'Slow tests',
            ['Test', 'Suite', 'Took', 'Runs'],
            slow.map((test) => slowRow(test, projectPath, slowest)),
            { none: empty('No tests yet', 'A suite says in its settings where its reports of tests are.') },
          )}
        </section>`,
    };
  },
});

/** Skipped tests have no result, so they do not count. */
function trendPart(days: readonly TestDay[]): Html | false {
  const sum = (of: 'passed' | 'failed' | 'skipped'): number => days.reduce((total, day) => total + day[of], 0);
  const [passed, failed] = [sum('passed'), sum('failed')];
  if (passed + failed === 0) return false;
  const rows = days
    .filter(({ builds }) => builds > 0)
    .toReversed()
    .map(
      (one) =>
        html`<tr>
          <td class="nowrap">${one.day}</td>
          <td>${one.builds}</td>
          <td>${one.passed}</td>
          <td>${one.failed}</td>
          <td>${one.skipped}</td>
        </tr>`,
    );
  return html`<div class="plots">
    ${plotPart({
      title: 'Failed tests',
      figure: `${((100 * failed) / (passed + failed)).toFixed(failed === 0 ? 0 : 2)} %`,
      about: `${failed} of ${passed + failed} results in ${counted(days.length, 'day')}`,
      image: barPlot(days.map(failedOf), {
        label: `Failed tests by day, oldest first: ${days.map((day) => failedOf(day).title).join('; ')}`,
      }),
      table: table('Tests by day', ['Day', 'Builds', 'Passed', 'Failed', 'Skipped'], rows, { isOfFigures: true }),
    })}
  </div>`;
}

function failedOf({ day, passed, failed }: TestDay): Point {
  const all = passed + failed;
  if (all === 0) return { title: `${day}: no tests`, value: null };
  return { title: `${day}: ${failed} of ${all}`, value: (100 * failed) / all, look: 'bad' };
}

function flakyItem(test: FlakyTestDetails, path: string): Html {
  const { failures, passes, commits, failed_build_id_str: failed, began_commit_id_str: began } = test;
  return html`<p>${testLink(test, path)} <span class="aside">${test.suite}</span></p>
    <p>
      Failed ${failures} of ${failures + passes} times on ${counted(commits, 'commit')}, last ${ago(test.last_seen_at)}
      in <a href="${path}/builds/${failed}">build ${failed}</a>. Began ${ago(test.began_at)} on
      <a href="${path}/commits/${began}">commit <code>${shortSha(test.began_ref)}</code></a
      >.
    </p>
    ${messagePart(test.message)}`;
}

function slowRow(test: SlowTest, path: string, slowest: number): Html {
  return html`<tr>
    <td>${testLink(test, path)}</td>
    <td class="long-name">${test.suite}</td>
    <td class="share-cell">${durationText(test.duration_ms)} ${shareBar(test.duration_ms, slowest)}</td>
    <td class="nowrap">${counted(test.runs, 'run')}</td>
  </tr>`;
}

function orNothing(error: unknown): undefined {
  if (!(error instanceof ApiError) || error.status !== 404) throw error;
}

type Run = TestHistory['runs'][number];

const history = projectPage({
  path: '/tests/history',
  tab: 'tests',
  isOpen: true,
  async show({ api, projectPath, queryText }) {
    const key = queryText('key');
    const isKey = /^[0-9a-f]{12}$/.test(key);
    const test = isKey && (await api.get('/projects/:project_id/tests/history', { query: { key } }).catch(orNothing));
    if (!test) {
      return {
        title: 'Test',
        main: html`<h1>Test</h1>
          ${empty('No results', html`None of the newest builds has this test. <a href="${projectPath}/tests">All tests</a>`)}`,
      };
    }
    const { runs, failing_since: since } = test;
    const ran = runs.filter(({ state }) => state !== 'skipped');
    const passed = ran.filter(({ state }) => state === 'passed').length;
    const longest = Math.max(0, ...runs.map(({ duration_ms: took }) => took));
    return {
      title: `Test ${test.name}`,
      main: html`<h1>${testName(test)}</h1>
        <p><a href="${projectPath}/tests">All tests</a> <span class="aside">${test.suite}</span></p>
        <section id="history" class="card" aria-label="History" data-live>
          ${
            since !== null &&
            html`<p class="failing">
              Failed since <a href="${projectPath}/builds/${since.build_id_str}">build ${since.build_id_str}</a> of
              <a href="${projectPath}/commits/${since.commit_id_str}"
                >commit <code>${shortSha(since.commit_ref)}</code></a
              >
              on <code>${since.branch}</code>
            </p>`
          }
          <p>
            ${rate(passed, ran.length)} passed
            <span class="aside">${passed} of the last ${counted(ran.length, 'run')}, oldest first</span>
          </p>
          ${strip(
            'Runs, oldest first',
            runs.toReversed().map((run) => ({
              look: lookOf(run.state),
              title: `${run.state} on ${shortSha(run.commit_ref)} in ${suiteOf(run)}, ${durationText(run.duration_ms)}`,
              href: `${projectPath}/builds/${run.build_id_str}`,
            })),
          )}
        </section>
        <section id="runs" aria-labelledby="runs-title" data-live>
          <h2 id="runs-title">Runs</h2>
          ${table(
            'Runs of the test',
            ['Result', 'Build', 'Commit', 'Took'],
            runs.map((run) => runRow(run, projectPath, longest)),
          )}
        </section>`,
    };
  },
});

function suiteOf({ suite_name: suite, variant }: Run): string {
  return variant === '' ? suite : `${suite} (${variant})`;
}

function runRow(run: Run, path: string, longest: number): Html {
  return html`<tr>
    <td>${stateBadge(run.state)}</td>
    <td><a href="${path}/builds/${run.build_id_str}/tests">${suiteOf(run)}</a> ${messagePart(run.message)}</td>
    <td>
      <a href="${path}/commits/${run.commit_id_str}"><code>${shortSha(run.commit_ref)}</code></a>
      <span class="aside">${run.branch}</span>
    </td>
    <td class="share-cell">${durationText(run.duration_ms)} ${shareBar(run.duration_ms, longest)}</td>
  </tr>`;
}

export const routes: PageRoute[] = [...overview, ...history];
