import type { Database } from '../db/open.ts';
import { firstIdAt } from '../lib/ids.ts';
import { forgetDeliveries } from '../lifecycle/deliveries.ts';

const day = 24 * 60 * 60 * 1000;
/** So long a delivery that is over can be looked at and sent again. */
export const keptDays = 30;
/** In small transactions, between which others get their turn. */
const atOnce = 500;

/** Deliveries that are long over go, with their attempts; the table would grow without end. */
export async function forgetOldDeliveries(db: Database, now = Date.now()): Promise<void> {
  const before = firstIdAt(now - keptDays * day);
  for (;;) {
    if ((await db.transaction((trx) => forgetDeliveries(trx, before, atOnce))) < atOnce) return;
  }
}
