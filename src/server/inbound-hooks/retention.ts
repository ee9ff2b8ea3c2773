import type { Database } from '../db/open.ts';
import { firstIdAt } from '../../shared/lib/ids.ts';
import { forgetHookDeliveries } from './hook-deliveries.ts';

const day = 24 * 60 * 60 * 1000;
/** Small transactions, so that other transactions get their turn. */
const atOnce = 500;

export async function forgetOldHookDeliveries(db: Database, keptDays: number, now = Date.now()): Promise<void> {
  const before = firstIdAt(now - keptDays * day);
  for (;;) {
    if ((await db.transaction((trx) => forgetHookDeliveries(trx, before, atOnce))) < atOnce) return;
  }
}
