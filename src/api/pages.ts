import type { ReferenceExpression, SelectQueryBuilder } from 'kysely';
import { readsUpwards, rowsToAsk, type Page } from '../http/paging.ts';

/** Limits a query to one page by identifier, so that the index finds the first row and no rows are counted. */
export function onPage<DB, Tables extends keyof DB, Row>(
  query: SelectQueryBuilder<DB, Tables, Row>,
  id: ReferenceExpression<DB, Tables> & string,
  page: Page,
): SelectQueryBuilder<DB, Tables, Row> {
  let cut = query;
  if (page.before !== undefined) cut = cut.where(id, '<', page.before as never);
  if (page.after !== undefined) cut = cut.where(id, '>', page.after as never);
  return cut.orderBy(id, readsUpwards(page) ? 'asc' : 'desc').limit(rowsToAsk(page));
}
