import type { Blob, Blobs } from '../db/blobs.ts';
import type { Database } from '../db/open.ts';
import { DiskFullError } from '../lib/disk-reserve.ts';
import type { Stored } from '../protocol.ts';
import { jobOf } from '../queue/queue.ts';

/** Blobs on their way between the server and its runners. */
export interface RunnerBlobs {
  /** Whoever reads it also closes it; undefined when there is none of that name. */
  read(digest: string): Promise<Blob | undefined>;
  store(holder: string, claim: string, content: AsyncIterable<Uint8Array>): Promise<Stored>;
}

export function runnerBlobs(db: Database, blobs: Blobs): RunnerBlobs {
  return {
    async read(digest) {
      try {
        return await blobs.open(digest);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
        throw error;
      }
    },
    async store(holder, claim, content) {
      // Only under a claim: what is stored for nobody would lie there until it is collected.
      const job = await jobOf(db.read, claim);
      if (job?.holder !== holder) return { gone: true };
      try {
        const { digest } = await blobs.put(content);
        return { digest };
      } catch (error) {
        if (error instanceof DiskFullError) return { refused: 'disk_full' };
        throw error;
      }
    },
  };
}
