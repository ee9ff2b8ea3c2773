import type { Database } from '../db/open.ts';
import { firstIdAt } from '../../shared/lib/ids.ts';
import { forgetDeliveries } from '../lifecycle/webhook-deliveries.ts';

const day = 24 * 60 * 60 * 1000;
export const keptDays = 30;
/** Small transactions let other transactions run in between. */
const atOnce = 500;

/** Without this, the table would grow without end. */
export async function forgetOldDeliveries(db: Database, now = Date.now()): Promise<void> {
  const before = firstIdAt(now - keptDays * day);
  for (;;) {
    if ((await db.transaction((trx) => forgetDeliveries(trx, before, atOnce))) < atOnce) return;
  }
}
