import type { Database } from '../db/open.ts';
import { firstIdAt } from '../../shared/lib/ids.ts';
import { forgetDeliveries } from '../lifecycle/webhook-deliveries.ts';

const day = 24 * 60 * 60 * 1000;
/** How long a finished delivery can be seen and sent again. */
export const keptDays = 30;
/** Small transactions, so that others get their turn in between. */
const atOnce = 500;

/** Deletes deliveries that ended long ago, with their attempts. Otherwise the table would grow without end. */
export async function forgetOldDeliveries(db: Database, now = Date.now()): Promise<void> {
  const before = firstIdAt(now - keptDays * day);
  for (;;) {
    if ((await db.transaction((trx) => forgetDeliveries(trx, before, atOnce))) < atOnce) return;
  }
}
