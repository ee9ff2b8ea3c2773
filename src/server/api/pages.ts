import type { ReferenceExpression, SelectQueryBuilder } from 'kysely';
import { readsUpwards, rowsToAsk, type Page } from '../http/paging.ts';

/** Pages are limited by identifier: the index finds the first row, and no rows are counted. */
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

/** Other requests get their turn in between. */
const rowsAtOnce = 250;

export async function allRows<DB, Tables extends keyof DB, Row extends { id: bigint }>(
  query: SelectQueryBuilder<DB, Tables, Row>,
  id: ReferenceExpression<DB, Tables> & string,
): Promise<Row[]> {
  const rows = await query.orderBy(id).limit(rowsAtOnce).execute();
  if (rows.length < rowsAtOnce) return rows;
  // Requesting the next rows in that order would sort all of them each time.
  const others = query
    .clearSelect()
    .select(id as never)
    .where(id, '>', rows.at(-1)?.id as never);
  const ids = ((await others.orderBy(id).execute()) as { id: bigint }[]).map((row) => row.id);
  for (let from = 0; from < ids.length; from += rowsAtOnce) {
    const some = query.where(id, 'in', ids.slice(from, from + rowsAtOnce) as never);
    rows.push(...(await some.orderBy(id).execute()));
  }
  return rows;
}
