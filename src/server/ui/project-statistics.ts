import type { Statistics } from '../../shared/records/statistics.ts';
import { timeSpanText } from './browser/time-words.ts';
import { html, type Html } from './html.ts';
import { counted, table } from './parts.ts';
import { barPlot, plotPart, shareBar, type Point } from './plots.ts';

type Day = Statistics['days'][number];

/** How the project did lately, in four plots with their tables, and its suites. */
export function statisticsPart(statistics: Statistics): Html | false {
  const { default_branch: branch, days, finished, passed } = statistics;
  if (finished < 2) return false;
  return html`<section class="lately" aria-labelledby="lately-title">
    <p id="lately-title">
      <strong>Last ${counted(days.length, 'day')} ${branch !== '' && html`of <code>${branch}</code>`}</strong>
    </p>
    <div class="plots">
      ${plotPart({
        title: 'Pass rate',
        figure: rate(passed, finished),
        about: `${passed} of ${counted(finished, 'build request')}`,
        image: barPlot(
          days.map((one) => rateOf(one)),
          { label: labelOf('Pass rate', days, rateWords), most: 100 },
        ),
        table: numbers('Pass rate by day', days, ['Passed', 'Of'], (one) => [String(one.passed), String(one.finished)]),
      })}
      ${timePlot('Time to green', statistics.time_to_green_ms, days, (one) => one.time_to_green_ms, {
        about: 'median until the next pass',
      })}
      ${timePlot('Duration', statistics.duration_ms, days, (one) => one.duration_ms, { about: 'median of passes' })}
      ${timePlot('Queue time', statistics.queue_ms, days, (one) => one.queue_ms, { about: 'median of all branches' })}
    </div>
    ${suitesPart(statistics)}
  </section>`;
}

export function rate(passed: number, all: number): string {
  return all === 0 ? '–' : `${Math.floor((100 * passed) / all)} %`;
}

function rateWords({ passed, finished }: Day): string {
  return finished === 0 ? '' : `${passed} of ${finished} passed`;
}

/** The height is the pass rate. A day with a failure has another colour. */
function rateOf(one: Day): Point {
  const { day, passed, finished } = one;
  if (finished === 0) return { title: `${day}: nothing ended`, value: null };
  // A day on which nothing passed is visible too.
  const value = Math.max(4, (100 * passed) / finished);
  return { title: `${day}: ${rateWords(one)}`, value, look: passed === finished ? 'good' : 'bad' };
}

function timePlot(
  title: string,
  of: number | null,
  days: readonly Day[],
  at: (one: Day) => number | null,
  { about }: { about: string },
): Html {
  const words = (one: Day): string => timeOrDash(at(one), '');
  // Shorter times are all small.
  const most = Math.max(1000, ...days.map((one) => at(one) ?? 0));
  return plotPart({
    title,
    figure: timeOrDash(of),
    about,
    image: barPlot(
      days.map((one) => ({ title: `${one.day}: ${timeOrDash(at(one), 'no value')}`, value: at(one) })),
      { label: labelOf(title, days, words), most },
    ),
    table: numbers(`${title} by day`, days, ['Median'], (one) => [timeOrDash(at(one))]),
  });
}

export function timeOrDash(ms: number | null, none = '–'): string {
  if (ms === null) return none;
  return ms >= 50 && ms < 10_000 ? `${(ms / 1000).toFixed(1)} s` : timeSpanText(ms);
}

/** In words, for those who do not see the plot. */
function labelOf(title: string, days: readonly Day[], words: (one: Day) => string): string {
  const said = days.flatMap((one) => (words(one) === '' ? [] : [`${one.day} ${words(one)}`]));
  return `${title} by day, oldest first: ${said.length === 0 ? 'no values' : said.join('; ')}`;
}

function numbers(label: string, days: readonly Day[], heads: string[], cells: (one: Day) => string[]): Html {
  const rows = days
    .toReversed()
    .filter((one) => cells(one).some((cell) => cell !== '–' && cell !== '0'))
    .map(
      (one) =>
        html`<tr>
          <td class="nowrap">${one.day}</td>
          ${cells(one).map((cell) => html`<td class="nowrap">${cell}</td>`)}
        </tr>`,
    );
  return table(label, ['Day', ...heads], rows, {
    isOfFigures: true,
    none: html`<p class="aside">There are no values.</p>`,
  });
}

function suitesPart({ suites }: Statistics): Html | false {
  if (suites.length === 0) return false;
  const slowest = Math.max(...suites.map(({ slow_ms: slow }) => slow ?? 0));
  return html`<details class="numbers">
    <summary>Suites, the slowest first</summary>
    ${table(
      'Suites by duration',
      ['Suite', 'Median', '95 of 100 within', 'Passed', 'Tried again'],
      suites.map(
        ({ suite_name: name, builds, passed, machine_tries: tries, median_ms: median, slow_ms: slow }) =>
          html`<tr>
            <td class="long-name">${name}</td>
            <td class="share-cell">${timeOrDash(median)} ${shareBar(median ?? 0, slowest)}</td>
            <td class="nowrap">${timeOrDash(slow)}</td>
            <td class="nowrap">${rate(passed, builds)} <span class="aside">of ${counted(builds, 'build')}</span></td>
            <td class="nowrap">${tries === 0 ? '–' : `${counted(tries, 'time')} by the machine`}</td>
          </tr>`,
      ),
      { isOfFigures: true },
    )}
  </details>`;
}
