import type { Database } from '../db/open.ts';

/**
 * Jobs wait for a time of the machine's clock. Where that clock was set back, what was put off for a moment would wait for
 * hours; so whoever sees that calls this, and what waits for longer than anything is put off is due now.
 */
export async function hurryStranded(
  db: Database,
  { kinds, longestWait }: { kinds: readonly string[]; longestWait: number },
): Promise<void> {
  const now = Date.now();
  await db.transaction(async (trx) => {
    const stranded = trx
      .selectFrom('jobs')
      .select('id')
      .where('kind', 'in', kinds)
      .where('claim', 'is', null)
      .where('lane', 'is', null) // those are let go by who is ahead of them
      .where('run_after', '>', BigInt(Math.ceil(now + longestWait)))
      .orderBy('id'); // as everybody holds several jobs
    const ids = (await db.locked(stranded, 'jobs').execute()).map(({ id }) => id);
    if (ids.length > 0)
      await trx
        .updateTable('jobs')
        .set({ run_after: BigInt(now) })
        .where('id', 'in', ids)
        .execute();
  });
}
