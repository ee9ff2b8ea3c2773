import type { Database, Queries, Transaction } from '../db/open.ts';
import { firstIdAt } from '../../shared/lib/ids.ts';

const day = 24 * 60 * 60 * 1000;
/** Small transactions let other transactions run in between. */
const atOnce = 200;

/** A build has one summary. The runner may send it again. */
export async function keepSummary(trx: Transaction, build: bigint, markdown: string): Promise<void> {
  const row = { build_id: build, markdown };
  await trx
    .insertInto('build_summaries')
    .values(row)
    .onConflict((conflict) => conflict.column('build_id').doUpdateSet(row))
    .execute();
}

/** Blank if the build has none. */
export async function readSummary(db: Queries, build: bigint): Promise<string> {
  const rows = db.selectFrom('build_summaries').select('markdown').where('build_id', '=', build);
  return (await rows.executeTakeFirst())?.markdown ?? '';
}

export async function hasSummary(db: Queries, build: bigint): Promise<boolean> {
  const rows = db.selectFrom('build_summaries').select('build_id').where('build_id', '=', build);
  return (await rows.executeTakeFirst()) !== undefined;
}

/** For a build that was lost or cancelled. */
export async function dropSummary(trx: Transaction, build: bigint): Promise<void> {
  await trx.deleteFrom('build_summaries').where('build_id', '=', build).execute();
}

export async function forgetOldSummaries(db: Database, days: number, now = Date.now()): Promise<void> {
  if (days === 0) return;
  const before = firstIdAt(now - days * day);
  for (;;) {
    const all = db.read.selectFrom('build_summaries').select('build_id').where('build_id', '<', before);
    const last = (await all.orderBy('build_id').limit(atOnce).execute()).at(-1);
    if (!last) return;
    await db.transaction((trx) => trx.deleteFrom('build_summaries').where('build_id', '<=', last.build_id).execute());
  }
}
