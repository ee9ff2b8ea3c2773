import type { Overview } from '../../shared/records/overview.ts';
import { timeSpanText } from './browser/time-words.ts';
import { html, type Html } from './html.ts';
import { lasting } from './moments.ts';
import { counted } from './parts.ts';
import { isUnderWay, stateBadge } from './states.ts';
import { medianTime, strip } from './strip.ts';

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
          ? html`<span class="aside">Nothing is running</span>`
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

function chart(builds: Overview['last_requests'], branch: string): Html | false {
  if (builds.length === 0) return false;
  const over = builds.filter(({ build_state: state }) => !isUnderWay(state));
  const passed = over.filter(({ build_state: state }) => state === 'passed').length;
  const median = medianTime(over);
  return html`<span class="row overview-chart">
    ${strip(builds, { branch, height: 32 })}
    <span class="aside"
      >${passed} of ${over.length} passed${median !== undefined && `, usually in ${timeSpanText(median)}`}</span
    >
  </span>`;
}
