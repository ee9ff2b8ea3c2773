import type { Database } from '../db/open.ts';
import { DiskFullError, type DiskReserve } from '../../shared/lib/disk-reserve.ts';
import type { SummaryReceipt } from '../../shared/protocol/index.ts';
import { keepSummary } from '../outputs/summaries.ts';
import { holdJob } from '../queue/leases.ts';

export async function takeSummary(
  db: Database,
  disk: DiskReserve,
  holder: string,
  { claim, markdown }: { claim: string; markdown: string },
): Promise<SummaryReceipt> {
  try {
    await disk.take(Buffer.byteLength(markdown), 'large');
  } catch (error) {
    if (!(error instanceof DiskFullError)) throw error;
    return { refused: 'disk_full' };
  }
  return db.transaction(async (trx) => {
    const job = await holdJob(db, trx, claim);
    if (job?.holder !== holder || job.kind !== 'run_suite') return { gone: true };
    await keepSummary(trx, job.subject_id, markdown);
    return { taken: true };
  });
}
