import { timestamp } from '../lib/timestamps.ts';
import { html, type Html } from './html.ts';

/** A moment for people, in UTC because a page without scripts does not know where they are. */
export function moment(ms: bigint): Html {
  const exact = timestamp(ms);
  return html`<time datetime="${exact}">${exact.slice(0, 10)} ${exact.slice(11, 16)} UTC</time>`;
}
