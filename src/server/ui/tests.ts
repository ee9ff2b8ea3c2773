import { flakyDays } from '../results/flaky-tests.ts';
import type { SlowTest } from '../../shared/records/build.ts';
import type { FlakyTestDetails } from '../../shared/records/overview.ts';
import { messagePart, testName, durationText } from './build-tests.ts';
import { html, type Html } from './html.ts';
import { ago } from './moments.ts';
import { counted, empty, shortSha, table } from './parts.ts';
import { projectPage } from './project-pages.ts';
import type { PageRoute } from './site.ts';

const mostFlaky = 100;

export const routes: PageRoute[] = projectPage({
  path: '/tests',
  tab: 'tests',
  async show({ api, projectPath }) {
    const flaky = (await api.get('/projects/:project_id/tests/flaky/details')).slice(0, mostFlaky);
    const slow = await api.get('/projects/:project_id/tests/slow');
    return {
      title: 'Tests',
      main: html`<h1>Tests</h1>
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
          ${table('Slow tests', ['Test', 'Suite', 'Took', 'Runs'], slow.map(slowRow), { none: empty('No tests yet', 'A suite says in its settings where its reports of tests are.') })}
        </section>`,
    };
  },
});

function flakyItem(test: FlakyTestDetails, path: string): Html {
  const { failures, passes, commits, failed_build_id_str: failed, began_commit_id_str: began } = test;
  return html`<p>${testName(test)} <span class="aside">${test.suite}</span></p>
    <p>
      Failed ${failures} of ${failures + passes} times on ${counted(commits, 'commit')}, last ${ago(test.last_seen_at)}
      in <a href="${path}/builds/${failed}">build ${failed}</a>. Began ${ago(test.began_at)} on
      <a href="${path}/commits/${began}">commit <code>${shortSha(test.began_ref)}</code></a
      >.
    </p>
    ${messagePart(test.message)}`;
}

function slowRow(test: SlowTest): Html {
  return html`<tr>
    <td>${testName(test)}</td>
    <td class="long-name">${test.suite}</td>
    <td class="nowrap">${durationText(test.duration_ms)}</td>
    <td class="nowrap">${counted(test.runs, 'run')}</td>
  </tr>`;
}
