import type { Database } from '../db/open.ts';
import { firstIdAt } from '../lib/ids.ts';
import { forgetHookDeliveries } from './deliveries.ts';

const day = 24 * 60 * 60 * 1000;
/** In small transactions, between which others get their turn. */
const atOnce = 500;

/** What arrived long ago goes, as what was sent does. */
export async function forgetOldHookDeliveries(db: Database, keptDays: number, now = Date.now()): Promise<void> {
  const before = firstIdAt(now - keptDays * day);
  for (;;) {
    if ((await db.transaction((trx) => forgetHookDeliveries(trx, before, atOnce))) < atOnce) return;
  }
}
