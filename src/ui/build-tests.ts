import type { PageOf } from '../http/paging.ts';
import { html, type Html } from './html.ts';
import { durationInWords } from './browser/time-words.ts';
import { table } from './parts.ts';
import type { ProjectVisit } from './project-pages.ts';

/** The tests of a build, on its page: those that failed first, with their messages. */

export interface TestCounts {
  tests_passed: number;
  tests_failed: number;
  tests_skipped: number;
}

interface TestRecord {
  name: string;
  class: string;
  suite: string;
  file: string;
  state: string;
  duration_ms: number;
  message: string;
}

const perPage = 50;
const of = '/projects/:project_id/builds/:build_id/tests';
const states = ['failed', 'passed', 'skipped'] as const;

export async function testsPart(visit: ProjectVisit, build: TestCounts): Promise<Html> {
  const counts = { failed: build.tests_failed, passed: build.tests_passed, skipped: build.tests_skipped };
  const present = states.filter((state) => counts[state] > 0);
  const wanted = visit.queryText('tests');
  const state = present.find((one) => one === wanted) ?? present[0];
  if (state === undefined) return html`<section id="tests" data-live></section>`;
  const query = { after: digits(visit, 'tests_after'), before: digits(visit, 'tests_before') };
  const page = await visit.api.list<TestRecord>(of, { query: { state, limit: perPage, ...query } });
  return html`<section id="tests" aria-labelledby="tests-title" data-live>
    <h2 id="tests-title">Tests</h2>
    <nav aria-label="Tests by state" class="tabs">
      ${present.map(
        (one) =>
          html`<a href="${visit.path}?tests=${one}#tests" ${one === state && html`aria-current="true"`}
            >${counts[one]} ${one}</a
          >`,
      )}
    </nav>
    ${page.items.length === 0 && html`<p class="aside">These tests are not kept any more.</p>`}
    ${
      page.items.length > 0 &&
      (state === 'passed'
        ? table(
            'Tests that passed',
            ['Test', 'Suite', 'Took'],
            page.items.map((test) => row(test)),
          )
        : html`<ul class="card rows">
            ${page.items.map((test) => html`<li>${item(test)}</li>`)}
          </ul>`)
    }
    ${pageLinks(page, visit.path, state)}
  </section>`;
}

/** A position that is none is left out, so that a wrong address shows the first page. */
function digits(visit: ProjectVisit, name: string): string | undefined {
  const text = visit.queryText(name);
  return /^[0-9]{1,15}$/.test(text) ? text : undefined;
}

function row(test: TestRecord): Html {
  return html`<tr>
    <td>${testName(test)}</td>
    <td class="long-name">${test.suite}</td>
    <td class="nowrap">${tookInWords(test.duration_ms)}</td>
  </tr>`;
}

function item(test: TestRecord): Html {
  return html`<p>${testName(test)} <span class="aside">${test.suite} ${tookInWords(test.duration_ms)}</span></p>
    ${test.file !== '' && html`<p class="aside long-name">${test.file}</p>`} ${messagePart(test.message)}`;
}

/** The name of a test, after its class. */
export function testName({ name, class: of }: Pick<TestRecord, 'name' | 'class'>): Html {
  return html`<span class="long-name"
    >${of !== '' && html`<span class="aside">${of}</span> `}<strong>${name || '(no name)'}</strong></span
  >`;
}

/** A message of several lines opens on demand. */
export function messagePart(message: string): Html | false {
  if (message === '') return false;
  const [first = '', ...more] = message.split('\n');
  if (more.length === 0 && first.length <= 300) return html`<pre class="message">${message}</pre>`;
  return html`<details class="message">
    <summary><code>${first.slice(0, 300)}</code></summary>
    <pre>${message}</pre>
  </details>`;
}

export function tookInWords(ms: number): string {
  if (ms >= 60_000) return durationInWords(ms);
  return ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
}

function pageLinks({ older, newer, upwards }: PageOf<TestRecord>, path: string, state: string): Html | false {
  if (!upwards || (!older && !newer)) return false;
  const link = (text: string, isThere: boolean, cursor: string, at: bigint, rel: string): Html =>
    isThere
      ? html`<a href="${path}?tests=${state}&amp;${cursor}=${at}#tests" rel="${rel}">${text}</a>`
      : html`<span class="aside">${text}</span>`;
  return html`<nav aria-label="Pages of tests" class="pages">
    ${link('Earlier', newer, 'tests_before', upwards.first, 'prev')}
    ${link('Later', older, 'tests_after', upwards.last, 'next')}
  </nav>`;
}
