import { exactSpanText, relativeTexts, timeSpanText } from './browser/time-words.ts';
import { timestamp } from '../../shared/lib/timestamps.ts';
import { html, type Html } from './html.ts';

/** Without scripts, times are in UTC, because the server does not know the user's time zone. */

type Moment = bigint | number | string;

function millisecondsOf(at: Moment): number {
  return typeof at === 'string' ? Date.parse(at) : Number(at);
}

export function moment(at: Moment): Html {
  const exact = timestamp(millisecondsOf(at));
  return html`<time datetime="${exact}">${exactly(exact)}</time>`;
}

function exactly(exact: string): string {
  return `${exact.slice(0, 10)} ${exact.slice(11, 16)} UTC`;
}

/** The exact time appears on hover and on a press. `browser/times.ts` updates the page. */
export function ago(at: Moment): Html {
  return relative(at, 'ago');
}

/** For a state that began then and still lasts, as in `passing for 14 minutes`. */
export function lasting(at: Moment): Html {
  return relative(at, 'lasting');
}

function relative(at: Moment, words: keyof typeof relativeTexts): Html {
  const ms = millisecondsOf(at);
  const exact = timestamp(ms);
  const title = `${exact.slice(0, 10)} ${exact.slice(11, 19)} UTC`;
  return html`<time datetime="${exact}" title="${title}" data-ago="${words}"
    >${relativeTexts[words](Date.now() - ms)}</time
  >`;
}

/** Without an end, the browser counts up the duration. */
export function duration(from: Moment | null, to: Moment | null): Html {
  if (from === null) return html`&ndash;`;
  const start = millisecondsOf(from);
  const end = to === null ? Date.now() : millisecondsOf(to);
  const text = timeSpanText(Math.max(0, end - start));
  return to === null ? html`<span data-since="${timestamp(start)}">${text}</span>` : html`<span>${text}</span>`;
}

/** Of something short that is over, such as a step. */
export function exactDuration(ms: number): Html {
  return html`<span>${exactSpanText(ms)}</span>`;
}
