import type { FastifyBaseLogger } from 'fastify';
import { sql, type SqlBool } from 'kysely';
import type { Blobs } from '../db/blobs.ts';
import type { Database } from '../db/open.ts';
import { storeLineHashes } from '../briefs/line-hashes.ts';
import { storeBuildAnnotations } from '../lifecycle/build-annotations.ts';
import { isUnavailable } from '../db/unavailable.ts';
import * as due from '../queue/due.ts';
import { claimDue, type ClaimedJob } from '../queue/leases.ts';
import * as queue from '../queue/queue.ts';
import { storeOutline } from '../streams/outline.ts';
import { packLog } from '../streams/pack-log.ts';
import type { SearchThread } from '../streams/search.ts';
import { storeFilter } from '../streams/store-filter.ts';
import { packKind } from './outcomes.ts';

/** Longer than packing ever takes. */
export const packSeconds = 600;
const everyMs = 2000;

/** The queue has the jobs, so that a crash leaves no log unpacked for ever. */
export function startLogPacker(parts: { db: Database; blobs: Blobs; searches: SearchThread; log: FastifyBaseLogger }): {
  close(): Promise<void>;
} {
  const { db, blobs, searches, log } = parts;
  const isUnclaimed = sql<SqlBool>`kind = ${sql.lit(packKind)} and claim is null`;
  return due.startDueWork<ClaimedJob>(db, {
    topic: packKind, // never announced: logs can wait
    everyMs,
    most: 1,
    nextAt: () => due.nextDue(db.read, due.jobs, isUnclaimed),
    claim: () => db.transaction((trx) => claimDue(db, trx, { kind: packKind, holder: 'server', seconds: packSeconds })),
    async serve(job) {
      try {
        await packLog(db, blobs, job.subject_id);
      } catch (error) {
        if (!isUnavailable(error)) throw error;
        // Blob storage is unreachable. Any server tries again.
        const later = { run_after: BigInt(Date.now() + everyMs) };
        await db.transaction((trx) => queue.release(db, trx, job, later));
        return;
      }
      // Without them, the log is searched when its page is opened, and in each search of the project's logs.
      for (const store of [storeOutline, storeBuildAnnotations, storeFilter, storeLineHashes])
        await store({ db, blobs, searches }, job.subject_id).catch((error: unknown) =>
          log.info({ err: error }, 'a packed log lacks its outline, annotations, filter or hashes'),
        );
      await db.transaction((trx) => queue.remove(db, trx, job));
    },
    whenSetBack: () => queue.makeStrandedJobsDue(db, { kinds: [packKind], longestWait: everyMs }),
    onError: (error) => log.error({ err: error }, 'packing a log failed'),
  });
}
