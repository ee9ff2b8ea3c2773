import type { Transaction } from '../db/open.ts';

export interface TestCounts {
  passed: number;
  failed: number;
  skipped: number;
}

/** Stores the counts in the build's record. Call it once all tests have arrived. */
export async function noteTestCounts(trx: Transaction, id: bigint, counts: TestCounts): Promise<void> {
  const columns = { tests_passed: counts.passed, tests_failed: counts.failed, tests_skipped: counts.skipped };
  await trx.updateTable('builds').set(columns).where('id', '=', id).execute();
}
