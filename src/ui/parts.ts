import { ApiError } from '../errors.ts';
import type { PageOf } from '../http/paging.ts';
import { html, type Html } from './html.ts';

/** Small parts that many pages are made of. */

/** Where there is nothing yet: what to do about it. */
export function empty(title: string, text: string | Html): Html {
  return html`<div class="empty">
    <p class="empty-title">${title}</p>
    <p>${text}</p>
  </div>`;
}

/**
 * A table. On a phone its rows are small cards, without the heads: where cells are not understood without those, such as
 * figures, it scrolls by itself instead (`isOfFigures`). It can be reached by the keyboard then.
 */
export function table(
  label: string,
  heads: readonly string[],
  rows: readonly Html[],
  { isOfFigures = false } = {},
): Html {
  return html`<div class="table ${!isOfFigures && 'stacks'}" role="region" aria-label="${label}" tabindex="0">
    <table>
      <thead>
        <tr>
          ${heads.map((head) => html`<th scope="col">${head}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${rows}
      </tbody>
    </table>
  </div>`;
}

interface Paged {
  path: string;
  /** Filters that stay. */
  query?: Record<string, string>;
}

/** Newer and older; nothing where one page holds everything. */
export function pagination<T extends { id_str: string }>(
  { items, older, newer }: PageOf<T>,
  { path, query = {} }: Paged,
): Html | false {
  const [first, last] = [items[0], items.at(-1)];
  const link = (text: string, cursor: 'before' | 'after', of: T | undefined, isThere: boolean): Html => {
    if (!isThere || of === undefined) return html`<span class="aside">${text}</span>`;
    const wanted = Object.entries(query).filter(([, value]) => value !== '');
    const search = new URLSearchParams([...wanted, [cursor, of.id_str]]);
    return html`<a href="${path}?${search.toString()}" rel="${cursor === 'before' ? 'next' : 'prev'}">${text}</a>`;
  };
  if (!older && !newer) return false;
  return html`<nav aria-label="Pages" class="pages">
    ${link('Newer', 'after', first, newer)} ${link('Older', 'before', last, older)}
  </nav>`;
}

/** Something to be copied; the button is there where scripts are. */
export function copyable(text: string, id: string): Html {
  return html`<div class="copyable">
    <code class="secret" id="${id}">${text}</code>
    <button type="button" class="quiet" data-copy="${id}">Copy</button>
  </div>`;
}

export function shortSha(ref: string): string {
  return ref.slice(0, 10);
}

/** The first line of a commit's message. */
export function subjectOf(message: string): string {
  return message.trimStart().split('\n', 1)[0]?.trim() || '(no message)';
}

/** What a page was to show and is not there is the page for that. */
export function orMissing<T>(found: T | undefined): T {
  if (found === undefined) throw new ApiError('not_found');
  return found;
}

const units = ['bytes', 'kB', 'MB', 'GB', 'TB'] as const;

/** A size for people: two or three digits, and the unit that makes them so. */
export function sizeInWords(bytes: number | bigint): string {
  let value = Number(bytes);
  let at = 0;
  while (value >= 1000 && at < units.length - 1) {
    value /= 1000;
    at += 1;
  }
  const digits = at > 0 && value < 10 ? 1 : 0;
  return `${value.toFixed(digits)} ${units[at]}`;
}
