import type { Overview } from '../../shared/records/overview.ts';
import { timeSpanText } from './browser/time-words.ts';
import { html, type Html } from './html.ts';
import { lasting } from './moments.ts';
import { counted } from './parts.ts';
import { isUnderWay, lookOf, stateBadge, stateWord } from './states.ts';

/** The API lists at most this many. */
const mostRunning = 100;

export function overviewLine(overview: Overview, path: string): Html | false {
  const { default_branch: branch, build_state: state, last_requests: builds, flaky_tests: flaky } = overview;
  const running = overview.under_way.length;
  if (builds.length === 0 && running === 0) return false;
  const many = running === mostRunning ? `${running} or more builds` : counted(running, 'build');
  return html`<div class="card overview">
    <div class="row">${stateBadge(state)} ${branch !== '' && html`<code>${branch}</code>`} ${since(overview)}</div>
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

function since({ passed_since: passed, failed_since: failed }: Overview): Html | false {
  if (failed !== null) return failingSince(failed);
  return passed !== null && html`<span class="aside">passing for ${lasting(passed)}</span>`;
}

export function failingSince(at: string): Html {
  return html`<span class="failing">failing for ${lasting(at)}</span>`;
}

const [barWidth, gap, height, leastHeight] = [6, 2, 32, 3];

function chart(builds: Overview['last_requests'], branch: string): Html | false {
  if (builds.length === 0) return false;
  const longest = Math.max(1, ...builds.map(({ duration_ms: took }) => took ?? 0));
  const titles = builds.map(({ build_state: state, duration_ms: took }) =>
    took === null ? stateWord(state) : `${stateWord(state)}, ${timeSpanText(took)}`,
  );
  const bars = builds.map(({ build_state: state, duration_ms: took }, at) => {
    const tall = Math.max(leastHeight, Math.round(((took ?? 0) / longest) * height));
    return html`<rect
      class="${lookOf(state)}"
      x="${at * (barWidth + gap)}"
      y="${height - tall}"
      width="${barWidth}"
      height="${tall}"
      rx="1"
      ><title>${titles[at]}</title></rect
    >`;
  });
  const width = builds.length * (barWidth + gap) - gap;
  const of = branch === '' ? '' : ` of ${branch}`;
  const over = builds.filter(({ build_state: state }) => !isUnderWay(state));
  const passed = over.filter(({ build_state: state }) => state === 'passed').length;
  const times = over.map(({ duration_ms: took }) => took).filter((took) => took !== null);
  const median = times.toSorted((a, b) => a - b)[Math.floor(times.length / 2)];
  return html`<span class="row overview-chart">
    <svg
      viewBox="0 0 ${width} ${height}"
      width="${width}"
      height="${height}"
      role="img"
      focusable="false"
      aria-label="Last ${counted(builds.length, 'build')}${of}, oldest first: ${titles.join('; ')}"
    >
      ${bars}
    </svg>
    <span class="aside"
      >${passed} of ${over.length} passed${median !== undefined && `, usually in ${timeSpanText(median)}`}</span
    >
  </span>`;
}
