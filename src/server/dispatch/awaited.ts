import type { Database, Queries } from '../db/open.ts';
import type { DependencyState } from '../lifecycle/states.ts';

const inTheWorks: readonly DependencyState[] = ['enqueued_for_compile', 'compiling'];

/** Only the account's own dependencies. Another account's dependency is pinned, so nothing waits for it. */
export async function findAwaited(
  db: Queries,
  accountId: bigint,
  ids: readonly bigint[],
): Promise<{ id: bigint; name: string }[]> {
  if (ids.length === 0) return [];
  const own = db.selectFrom('dependencies').select(['id', 'name']).where('id', 'in', ids);
  return own.where('owner_id', '=', accountId).where('state', 'in', inTheWorks).orderBy('id').execute();
}

/** Waits for a transaction that is about to end one of them. */
export async function isAwaited(db: Database, ids: readonly bigint[]): Promise<boolean> {
  return db.transaction(async (trx) => {
    const all = trx.selectFrom('dependencies').select('id').where('id', 'in', ids).orderBy('id');
    await db.shareLocked(all, 'dependencies').execute();
    return (await all.where('state', 'in', inTheWorks).execute()).length === ids.length;
  });
}
