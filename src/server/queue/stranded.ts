import type { Database } from '../db/open.ts';

/** After the clock was set back, postponed jobs would wait for hours. */
export async function makeStrandedDue(
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
      .where('lane', 'is', null) // jobs of a lane become due when the job ahead of them is over
      .where('run_after', '>', BigInt(Math.ceil(now + longestWait)))
      .orderBy('id'); // the order in which all transactions lock several jobs
    const ids = (await db.locked(stranded, 'jobs').execute()).map(({ id }) => id);
    if (ids.length > 0)
      await trx
        .updateTable('jobs')
        .set({ run_after: BigInt(now) })
        .where('id', 'in', ids)
        .execute();
  });
}
