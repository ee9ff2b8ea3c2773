import { entriesSince, entryView } from '../../server/auth/audit.ts';
import { exactJson } from '../../shared/lib/exact-json.ts';
import { WrongUse } from '../developer/errors.ts';
import type { Call } from './call.ts';
import { openMigrated } from './store.ts';

export async function audit({ config, options: { since } }: Call<{ since?: string }>): Promise<void> {
  const from = since === undefined ? 0 : Date.parse(since);
  if (Number.isNaN(from)) throw new WrongUse(`--since ${since} is not a date such as 2026-11-15 or 2026-11-15T08:00Z`);
  const db = await openMigrated(config, console.error);
  try {
    for await (const entry of entriesSince(db.read, BigInt(from))) console.log(exactJson(entryView(entry)));
  } finally {
    await db.close();
  }
}
