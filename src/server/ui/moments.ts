import { agoText, timeSpanText } from './browser/time-words.ts';
import { timestamp } from '../../shared/lib/timestamps.ts';
import { html, type Html } from './html.ts';

/**
 * Times and durations for people. Without scripts, exact times are in UTC: a page does not know the user's time zone.
 */

type Moment = bigint | number | string;

function millisecondsOf(at: Moment): number {
  return typeof at === 'string' ? Date.parse(at) : Number(at);
}

/** The exact time, for past events. */
export function moment(at: Moment): Html {
  const exact = timestamp(millisecondsOf(at));
  return html`<time datetime="${exact}">${exactly(exact)}</time>`;
}

function exactly(exact: string): string {
  return `${exact.slice(0, 10)} ${exact.slice(11, 16)} UTC`;
}

/** How long ago, with the exact time on hover. `browser/times.ts` updates it while the page is open. */
export function ago(at: Moment): Html {
  const ms = millisecondsOf(at);
  const exact = timestamp(ms);
  const title = `${exact.slice(0, 10)} ${exact.slice(11, 19)} UTC`;
  return html`<time datetime="${exact}" title="${title}" data-ago>${agoText(Date.now() - ms)}</time>`;
}

/** From one time to another. Without an end, it keeps counting in the browser. */
export function duration(from: Moment | null, to: Moment | null): Html {
  if (from === null) return html`&ndash;`;
  const start = millisecondsOf(from);
  const end = to === null ? Date.now() : millisecondsOf(to);
  const text = timeSpanText(Math.max(0, end - start));
  return to === null ? html`<span data-since="${timestamp(start)}">${text}</span>` : html`<span>${text}</span>`;
}
