import { agoInWords, durationInWords } from './browser/time-words.ts';
import { timestamp } from '../lib/timestamps.ts';
import { html, type Html } from './html.ts';

/** Times and durations for people. Without scripts, the exact ones are in UTC: a page does not know where they are. */

type Moment = bigint | number | string;

function millisecondsOf(at: Moment): number {
  return typeof at === 'string' ? Date.parse(at) : Number(at);
}

/** The exact moment, for what is not looked at while it happens. */
export function moment(at: Moment): Html {
  const exact = timestamp(millisecondsOf(at));
  return html`<time datetime="${exact}">${exactly(exact)}</time>`;
}

function exactly(exact: string): string {
  return `${exact.slice(0, 10)} ${exact.slice(11, 16)} UTC`;
}

/** How long ago, with the exact moment on hover. `browser/times.ts` keeps it true while the page is open. */
export function ago(at: Moment): Html {
  const ms = millisecondsOf(at);
  const exact = timestamp(ms);
  const title = `${exact.slice(0, 10)} ${exact.slice(11, 19)} UTC`;
  return html`<time datetime="${exact}" title="${title}" data-ago>${agoInWords(Date.now() - ms)}</time>`;
}

/** From one moment to another; while there is no other, it goes on counting in the browser. */
export function duration(from: Moment | null, to: Moment | null): Html {
  if (from === null) return html`–`;
  const start = millisecondsOf(from);
  const end = to === null ? Date.now() : millisecondsOf(to);
  const words = durationInWords(Math.max(0, end - start));
  return to === null ? html`<span data-since="${timestamp(start)}">${words}</span>` : html`<span>${words}</span>`;
}
