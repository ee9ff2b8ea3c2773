import { ApiError } from '../../shared/errors.ts';
import type { PageOf } from '../http/paging.ts';
import { html, type Html } from './html.ts';

export function empty(title: string, text: string | Html): Html {
  return html`<div class="empty">
    <p class="empty-title">${title}</p>
    <p>${text}</p>
  </div>`;
}

/** A part of a page, named by its heading. */
export function section(
  id: string,
  title: string,
  content: Html,
  { isCard = false, isTarget = false }: { isCard?: boolean; isTarget?: boolean } = {},
): Html {
  return html`<section ${isTarget && html`id="${id}"`} ${isCard && html`class="card"`} aria-labelledby="${id}-title">
    <h2 id="${id}-title">${title}</h2>
    ${content}
  </section>`;
}

/** A list, with the form for a new record beside it if there is room. */
export function beside(list: Html, form: Html): Html {
  return html`<div class="beside">
    <div>${list}</div>
    ${form}
  </div>`;
}

interface Filter {
  name: string;
  label: string;
  value: string;
  most: number;
  button?: string;
  /** Set if the page has another such form. */
  landmark?: string;
  /** True if the page has the whole list. Then a script filters it while the user types. */
  isWhole?: boolean;
  /** The page's other query parameters. */
  beside?: Record<string, string | undefined>;
  more?: Html | false;
}

export function filterForm(
  path: string,
  { name, label, value, most, button, landmark, isWhole, beside: others = {}, more }: Filter,
): Html {
  return html`<form
    method="get"
    action="${path}"
    role="search"
    class="filter"
    ${landmark !== undefined && html`aria-label="${landmark}"`}
  >
    ${Object.entries(others).map(
      ([other, is]) => is !== undefined && html`<input type="hidden" name="${other}" value="${is}" />`,
    )}
    <label for="${name}-filter">${label}</label>
    <input
      id="${name}-filter"
      name="${name}"
      type="search"
      value="${value}"
      autocomplete="off"
      maxlength="${most}"
      ${isWhole && html`data-filter`}
    />
    ${button !== undefined && html`<button class="quiet">${button}</button>`} ${more}
  </form>`;
}

export function waitingLine(reason: string): Html | false {
  return reason !== '' && html`<p class="aside">${reason.charAt(0).toUpperCase()}${reason.slice(1)}.</p>`;
}

/**
 * On a phone, rows become cards without column heads. Tables of figures need the heads, so they scroll instead
 * (`isOfFigures`), also by keyboard. `none` replaces a table without rows.
 */
export function table(
  label: string,
  heads: readonly string[],
  rows: readonly Html[],
  { isOfFigures = false, none }: { isOfFigures?: boolean; none?: Html } = {},
): Html {
  if (rows.length === 0 && none) return none;
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
  query?: Record<string, string>;
}

/** The page of a list, as in the query of the address. */
export function cursors({ queryText }: { queryText: (name: string) => string }) {
  return { before: queryText('before') || undefined, after: queryText('after') || undefined };
}

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

/** Of messages and other texts. */
export function lines(text: string): Html {
  return html`${text.split('\n').map((line) => html`${line}<br />`)}`;
}

/** Text with a copy button, which needs scripts. */
export function copyable(text: string, id: string): Html {
  return html`<div class="copyable">
    <code class="secret" id="${id}">${text}</code>
    <button type="button" class="quiet" data-copy="${id}">Copy</button>
  </div>`;
}

export function fact(name: string, value: Html | string): Html {
  return html`<div>
    <dt>${name}</dt>
    <dd>${value}</dd>
  </div>`;
}

export function shortSha(ref: string): string {
  return ref.slice(0, 10);
}

export function counted(count: number, what: string, several = `${what}s`): string {
  return count === 1 ? `1 ${what}` : `${count} ${several}`;
}

const longestSubject = 500;

export function subjectOf(message: string): string {
  const line = message.trimStart().split('\n', 1)[0]?.trim() || '(no message)';
  return line.length > longestSubject ? `${line.slice(0, longestSubject).toWellFormed()}…` : line;
}

export function orMissing<T>(found: T | undefined): T {
  if (found === undefined) throw new ApiError('not_found');
  return found;
}
