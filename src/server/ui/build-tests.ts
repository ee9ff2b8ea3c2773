import type { PageOf } from '../http/paging.ts';
import type { Build, Test } from '../../shared/records/build.ts';
import { html, type Html } from './html.ts';
import { longest } from '../../shared/domain/bounds.ts';
import { timeSpanText } from './browser/time-words.ts';
import { empty, filterForm, shortSha, table } from './parts.ts';
import { shareBar } from './plots.ts';
import type { ProjectVisit } from './project-pages.ts';

export type TestCounts = Pick<Build, 'tests_passed' | 'tests_failed' | 'tests_skipped'>;

const perPage = 50;
const mostAboveLog = 10;
const of = '/projects/:project_id/builds/:build_id/tests';
const states = ['failed', 'skipped', 'passed'] as const;
type State = (typeof states)[number];

function countsOf(build: TestCounts): Record<State, number> {
  return { failed: build.tests_failed, skipped: build.tests_skipped, passed: build.tests_passed };
}

export async function failedTests(visit: ProjectVisit, build: TestCounts, all: string): Promise<Html> {
  const count = build.tests_failed;
  const query = { state: 'failed', limit: mostAboveLog };
  const { items } = count > 0 ? await visit.api.list(of, { query }) : { items: [] };
  if (items.length === 0) return html`<section id="failed-tests" data-live></section>`;
  return html`<section id="failed-tests" aria-label="Failed tests" tabindex="0" data-live>
    <h2>
      <a href="${all}">${count === 1 ? '1 test failed' : `${inDigits(count)} tests failed`}</a>
      ${count > items.length && html`<span class="aside">the first ${items.length}</span>`}
    </h2>
    <ul>
      ${items.map((test) => html`<li>${testName(test)} <code>${firstLine(test.message)}</code></li>`)}
    </ul>
  </section>`;
}

function inDigits(count: number): string {
  return count.toLocaleString('en');
}

function firstLine(message: string): string {
  return message.trimStart().split('\n', 1)[0]?.slice(0, 300) ?? '';
}

/** The first kind is open, the others are folded. A filter opens all. `?state=` shows one kind in pages. */
export async function testsPart(visit: ProjectVisit, build: TestCounts): Promise<Html> {
  const counts = countsOf(build);
  const present = states.filter((state) => counts[state] > 0);
  if (present.length === 0)
    return html`<section id="tests" data-live>
      ${empty('No tests', 'A suite says in its settings where its reports of tests are.')}
    </section>`;
  const filter = visit
    .queryText('filter')
    .replaceAll(/\p{Cc}/gu, ' ')
    .trim()
    .slice(0, longest.filter);
  const chosen = present.find((state) => state === visit.queryText('state'));
  const groups = (chosen === undefined ? present : [chosen]).map(async (state, at) =>
    group(visit, { state, count: counts[state], filter, isOpen: at === 0 || filter !== '' }),
  );
  return html`${filterForm(visit.path, {
      name: 'filter',
      label: 'Filter',
      value: filter,
      most: longest.filter,
      button: 'Show',
      beside: { state: chosen },
      more: (chosen !== undefined || filter !== '') && html`<a href="${visit.path}">All tests</a>`,
    })}
    <section id="tests" aria-label="Tests" data-live>${await Promise.all(groups)}</section>`;
}

interface Group {
  state: State;
  count: number;
  filter: string;
  isOpen: boolean;
}

async function group(visit: ProjectVisit, { state, count, filter, isOpen }: Group): Promise<Html> {
  const at = { after: digits(visit, 'after'), before: digits(visit, 'before') };
  const page = await visit.api.list(of, { query: { state, query: filter, limit: perPage, ...at } });
  const isLeft = filter === '' ? 'These tests are no longer stored.' : 'None of them has this in its name.';
  return html`<details id="tests-${state}" class="tests" ${isOpen && html`open`}>
    <summary>${inDigits(count)} ${state}</summary>
    ${page.items.length === 0 && html`<p class="aside">${isLeft}</p>`}
    ${page.items.length > 0 && (state === 'passed' ? passedTable(page.items, visit.projectPath) : withMessages(page.items, visit.projectPath, visit.param('build_id')))}
    ${pageLinks(page, visit.path, { state, filter })}
  </details>`;
}

function passedTable(tests: readonly Test[], path: string): Html {
  const slowest = Math.max(...tests.map(({ duration_ms: took }) => took));
  const rows = tests.map((test) => row(test, path, slowest));
  return table('Tests that passed', ['Test', 'Suite', 'Took'], rows);
}

function withMessages(tests: readonly Test[], path: string, build: string): Html {
  return html`<ul class="card rows compact">
    ${tests.map((test) => html`<li>${item(test, path, build)}</li>`)}
  </ul>`;
}

/** Undefined for a wrong number. Then the first page is shown. */
function digits(visit: ProjectVisit, name: string): string | undefined {
  const text = visit.queryText(name);
  return /^[0-9]{1,15}$/.test(text) ? text : undefined;
}

function row(test: Test, path: string, slowest: number): Html {
  return html`<tr>
    <td>${testLink(test, path)}</td>
    <td class="long-name">${test.suite}</td>
    <td class="share-cell">${durationText(test.duration_ms)} ${shareBar(test.duration_ms, slowest)}</td>
  </tr>`;
}

function item(test: Test, path: string, build: string): Html {
  return html`<p>${testLink(test, path)} <span class="aside">${test.suite} ${durationText(test.duration_ms)}</span></p>
    ${sinceLine(test, path, build)} ${test.file !== '' && html`<p class="aside long-name">${test.file}</p>`}
    ${messagePart(test.message)}`;
}

function sinceLine({ failed_since: since }: Test, path: string, build: string): Html | false {
  if (since === null) return false;
  if (since.build_id_str === build) return html`<p class="aside">Began to fail in this build</p>`;
  return html`<p class="aside">
    Failed since <a href="${path}/builds/${since.build_id_str}">build ${since.build_id_str}</a> of
    <a href="${path}/commits/${since.commit_id_str}">commit <code>${shortSha(since.commit_ref)}</code></a>
  </p>`;
}

/** Leads to the test's history. */
export function testLink(test: Pick<Test, 'name' | 'class' | 'key'>, path: string): Html {
  return html`<a href="${path}/tests/history?key=${test.key}">${testName(test)}</a>`;
}

export function testName({ name, class: of }: Pick<Test, 'name' | 'class'>): Html {
  return html`<span class="long-name"
    >${of !== '' && html`<span class="aside">${of}</span> `}<strong>${name || '(no name)'}</strong></span
  >`;
}

export function messagePart(message: string): Html | false {
  if (message === '') return false;
  const [first = '', ...more] = message.split('\n');
  if (more.length === 0 && first.length <= 300) return html`<pre class="message">${message}</pre>`;
  return html`<details class="message">
    <summary><code>${first.slice(0, 300)}</code></summary>
    <pre>${message}</pre>
  </details>`;
}

export function durationText(ms: number): string {
  if (ms >= 60_000) return timeSpanText(ms);
  return ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
}

function pageLinks(
  { older, newer, upwards }: PageOf<Test>,
  path: string,
  wanted: { state: State; filter: string },
): Html | false {
  if (!upwards || (!older && !newer)) return false;
  const link = (text: string, isThere: boolean, cursor: 'before' | 'after', at: bigint): Html => {
    if (!isThere) return html`<span class="aside">${text}</span>`;
    const query = new URLSearchParams({ ...wanted, [cursor]: String(at) });
    return html`<a href="${path}?${query.toString()}" rel="${cursor === 'before' ? 'prev' : 'next'}">${text}</a>`;
  };
  return html`<nav aria-label="Pages of tests that ${wanted.state}" class="pages">
    ${link('Earlier', newer, 'before', upwards.first)} ${link('Later', older, 'after', upwards.last)}
  </nav>`;
}
