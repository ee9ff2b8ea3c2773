import type { FastifyBaseLogger } from 'fastify';
import type { Blobs } from '../db/blobs.ts';
import type { Database } from '../db/open.ts';
import { isUnavailable } from '../db/unavailable.ts';
import * as queue from '../queue/queue.ts';
import { packLog } from '../streams/pack-log.ts';
import { packKind } from './outcomes.ts';

/** A claim on packing a log expires after this time, which is longer than packing ever takes. */
export const packSeconds = 600;

/** Packs complete logs. The jobs are in the queue, so that a crash leaves no log unpacked for ever. */
export interface LogPacker {
  /** Packs the logs that wait for it, unless that is under way. */
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
        // The blob store cannot be reached. The next sweep of any server tries again.
        await db.transaction((trx) => queue.release(db, trx, job));
        return;
      }
      await db.transaction((trx) => queue.remove(db, trx, job));
    }
  };
  return {
    async packWaiting() {
      if (underWay || !(await queue.isAnyWaiting(db, [packKind]))) return;
      underWay ??= packAll() // another look may have begun it meanwhile
        .catch((error: unknown) => log.error({ err: error }, 'packing a log failed'))
        .finally(() => (underWay = undefined));
    },
    async close() {
      await underWay;
    },
  };
}
