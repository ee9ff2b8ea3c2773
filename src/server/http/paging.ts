import { described, identifier, wholeNumber, type ValuesOf } from '../../shared/records/fields.ts';

/** Newest first, paged by identifiers and not by counting rows. */
export const pageFields = {
  limit: described(wholeNumber({ min: 1, max: 1000, fallback: 100 }), 'The most to return'),
  before: described(identifier(), 'Only those before this identifier, the newest of them first'),
  after: described(identifier(), 'Only those after this identifier'),
};

export type Page = ValuesOf<typeof pageFields>;

export interface PageOf<T> {
  items: T[];
  older: boolean;
  newer: boolean;
  /** For a list with the oldest item first and no identifiers: the positions of its first and last item. */
  upwards?: { first: bigint; last: bigint };
}

/** One more row than shown, which reveals another page. */
export function rowsToAsk(page: Page): number {
  return page.limit + 1;
}

export function readsUpwards(page: Page): boolean {
  return page.after !== undefined && page.before === undefined;
}

export function pageOf<T>(page: Page, rows: T[]): PageOf<T> {
  const more = rows.length > page.limit;
  const items = more ? rows.slice(0, page.limit) : rows;
  if (readsUpwards(page)) return { items: items.reverse(), older: true, newer: more };
  return { items, older: more, newer: page.before !== undefined };
}

/** `url` is the list's own, with only its filters. */
export function linkHeader<T extends { id: bigint }>(url: URL, page: PageOf<T>): string | undefined {
  const links = [];
  if (page.upwards) {
    if (page.older) links.push(link(url, 'after', page.upwards.last, 'next'));
    if (page.newer) links.push(link(url, 'before', page.upwards.first, 'prev'));
    return links.length > 0 ? links.join(', ') : undefined;
  }
  const [newest] = page.items;
  const oldest = page.items.at(-1);
  if (page.older && oldest) links.push(link(url, 'before', oldest.id, 'next'));
  if (page.newer && newest) links.push(link(url, 'after', newest.id, 'prev'));
  return links.length > 0 ? links.join(', ') : undefined;
}

function link(url: URL, cursor: 'before' | 'after', id: bigint, relation: string): string {
  const target = new URL(url);
  target.searchParams.set(cursor, String(id));
  return `<${target.href}>; rel="${relation}"`;
}
