import { bytes, most } from '../../shared/domain/bounds.ts';
import type { Database } from '../db/open.ts';
import { DiskFullError, type DiskReserve } from '../../shared/lib/disk-reserve.ts';
import { noteTestCounts } from '../lifecycle/build-tests.ts';
import { noteFlakes } from '../results/flaky-tests.ts';
import { packTests } from '../results/packed-tests.ts';
import { slowestOf } from '../results/slow-tests.ts';
import { addTests, countsOf, type Batch } from '../results/test-results.ts';
import type { TestBatch, TestReceipt, TestReport } from '../../shared/protocol/index.ts';
import { holdJob, jobOf } from '../queue/leases.ts';

export interface TestIntake {
  take(holder: string, batch: TestBatch): Promise<TestReceipt>;
}

const limits = { tests: most.tests, bytes: bytes.testsOfBuild };

export function testIntake(db: Database, disk: DiskReserve): TestIntake {
  const store = async (holder: string, claim: string, batch: Batch): Promise<TestReceipt> => {
    await disk.take(batch.bytes, 'large');
    const added = await db.transaction(async (trx) => {
      const job = await holdJob(db, trx, claim);
      if (job?.holder !== holder || job.kind !== 'run_suite') return undefined;
      const build = job.subject_id;
      const what = await addTests(db, trx, build, batch, limits);
      if (what === 'stored' && batch.isLast) await noteTestCounts(trx, build, await countsOf(trx, build));
      return { build, what };
    });
    if (!added) return { gone: true };
    const { build, what } = added;
    if (what === 'full') return { refused: 'too_many' };
    if (what !== 'stored') return what;
    // After the commit: if two attempts end at the same time, the later one sees both.
    if (batch.isLast) await noteFlakes(db, build);
    return { taken: true };
  };
  return {
    async take(holder, { claim, start, tests, isLast }) {
      const job = await jobOf(db.read, claim); // checked before any work is done for the message
      if (job?.holder !== holder || job.kind !== 'run_suite') return { gone: true };
      const counts = { passed: 0, failed: 0, skipped: 0 };
      for (const { state } of tests) counts[state] += 1;
      const bytes = tests.reduce((sum, test) => sum + bytesOf(test), 0);
      const packed = await packTests(start, tests);
      try {
        return await store(holder, claim, { start, packed, counts, slowest: slowestOf(tests), bytes, isLast });
      } catch (error) {
        if (!(error instanceof DiskFullError)) throw error;
        return { refused: 'disk_full' };
      }
    },
  };
}

function bytesOf(test: TestReport): number {
  const texts = [test.name, test.class, test.suite, test.file, test.message];
  return texts.reduce((size, text) => size + Buffer.byteLength(text), 0);
}
