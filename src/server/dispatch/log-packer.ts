import type { FastifyBaseLogger } from 'fastify';
import type { Blobs } from '../db/blobs.ts';
import type { Database } from '../db/open.ts';
import { isUnavailable } from '../db/unavailable.ts';
import * as queue from '../queue/queue.ts';
import { packLog } from '../streams/pack-log.ts';
import { packKind } from './outcomes.ts';

/** Longer than packing ever takes. */
export const packSeconds = 600;

/** The queue has the jobs, so that a crash leaves no log unpacked for ever. */
export interface LogPacker {
  /** Does nothing if it is already under way. */
  packWaiting(): Promise<void>;
  close(): Promise<void>;
}

export function createLogPacker(parts: { db: Database; blobs: Blobs; log: FastifyBaseLogger }): LogPacker {
  const { db, blobs, log } = parts;
  let underWay: Promise<void> | undefined;

  const packAll = async (): Promise<void> => {
    for (;;) {
      const job = await db.transaction((trx) =>
        queue.claimAny(db, trx, { holder: 'server', kind: packKind, seconds: packSeconds }),
      );
      if (!job) return;
      try {
        await packLog(db, blobs, job.subject_id);
      } catch (error) {
        if (!isUnavailable(error)) throw error;
        // Blob storage is unreachable. The next sweep of any server tries again.
        await db.transaction((trx) => queue.release(db, trx, job));
        return;
      }
      await db.transaction((trx) => queue.remove(db, trx, job));
    }
  };
  return {
    async packWaiting() {
      if (underWay || !(await queue.isAnyWaiting(db, [packKind]))) return;
      underWay ??= packAll() // another check may have begun it meanwhile
        .catch((error: unknown) => log.error({ err: error }, 'packing a log failed'))
        .finally(() => (underWay = undefined));
    },
    async close() {
      await underWay;
    },
  };
}
