import { timeSpanText } from './browser/time-words.ts';
import { html, type Html } from './html.ts';
import { counted } from './parts.ts';
import { lookOf, stateWord } from './states.ts';

/** Builds as bars, the oldest first. The height is the time that a build took, the colour its state. */

export interface Bar {
  build_state: string;
  duration_ms: number | null;
}

const [barWidth, gap, leastHeight] = [6, 2, 3];

/** Bars beyond this multiple of the median have the full height, so one long build leaves the others readable. */
const mostOfMedian = 3;

export function strip(bars: readonly Bar[], { branch, height }: { branch: string; height: number }): Html | false {
  if (bars.length === 0) return false;
  const full = fullTime(bars);
  const titles = bars.map(titleOf);
  const width = bars.length * (barWidth + gap) - gap;
  const of = branch === '' ? '' : ` of ${branch}`;
  return html`<svg
    class="strip"
    viewBox="0 0 ${width} ${height}"
    width="${width}"
    height="${height}"
    role="img"
    focusable="false"
    aria-label="Last ${counted(bars.length, 'build')}${of}, oldest first: ${titles.join('; ')}"
  >
    ${bars.map(({ build_state: state, duration_ms: took }, at) => {
      const tall = Math.max(leastHeight, Math.round(Math.min(1, (took ?? 0) / full) * height));
      return html`<rect
        class="${lookOf(state)}"
        x="${at * (barWidth + gap)}"
        y="${height - tall}"
        width="${barWidth}"
        height="${tall}"
        rx="1"
        ><title>${titles[at]}</title></rect
      >`;
    })}
  </svg>`;
}

export function medianTime(bars: readonly Bar[]): number | undefined {
  const times = bars.map(({ duration_ms: took }) => took).filter((took) => took !== null);
  return times.toSorted((a, b) => a - b)[Math.floor(times.length / 2)];
}

function fullTime(bars: readonly Bar[]): number {
  const longest = Math.max(1, ...bars.map(({ duration_ms: took }) => took ?? 0));
  return Math.max(1, Math.min(longest, mostOfMedian * (medianTime(bars) ?? longest)));
}

function titleOf({ build_state: state, duration_ms: took }: Bar): string {
  return took === null ? stateWord(state) : `${stateWord(state)}, ${timeSpanText(took)}`;
}
