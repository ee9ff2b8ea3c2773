import { checkRunner, type Runner } from '../auth/runners.ts';
import type { Blob, Blobs } from '../db/blobs.ts';
import type { Database } from '../db/open.ts';
import { ApiError } from '../errors.ts';
import { DiskFullError } from '../lib/disk-reserve.ts';
import type { Stored, Work } from '../protocol.ts';
import { isNamedTo, noteStored } from '../queue/claimed-blobs.ts';
import { jobOf } from '../queue/queue.ts';

/** Blobs on their way between the server and its runners, as far as what they hold at the moment lets them. */
export interface RunnerBlobs {
  /** Whoever reads it also closes it; undefined when no order that the runner holds names it. */
  read(runner: Runner, digest: string): Promise<Blob | undefined>;
  /** Stores what a compile made. */
  store(runner: Runner, claim: string, content: AsyncIterable<Uint8Array>): Promise<Stored>;
}

/** How often it is looked whether a long transfer may go on. */
const lookEvery = 1000;

export function runnerBlobs(db: Database, blobs: Blobs): RunnerBlobs {
  const isHeld = async ({ holder }: Runner, claim: string): Promise<boolean> => {
    const job = await jobOf(db.read, claim);
    return job?.holder === holder && job.kind === 'compile_dependency';
  };
  return {
    async read(runner, digest) {
      const isNamed = (): Promise<boolean> => isNamedTo(db.read, runner.holder, digest);
      if (!(await isNamed())) return undefined;
      const blob = await opened(blobs, digest);
      const look = everyNow(async () => {
        if (!(await isNamed())) throw new LostClaimError();
      });
      return blob && { ...blob, read: async (...range) => (await look(), blob.read(...range)) };
    },

    async store(runner, claim, content) {
      if (!(await isHeld(runner, claim))) return { gone: true };
      const look = everyNow(async () => {
        await checkRunner(db.read, runner);
        if (!(await isHeld(runner, claim))) throw new LostClaimError();
      });
      async function* whileHeld(): AsyncGenerator<Uint8Array> {
        for await (const piece of content) {
          await look();
          yield piece;
        }
      }
      try {
        const { digest } = await blobs.put(whileHeld());
        const isNoted = await db.transaction((trx) => noteStored(trx, runner.holder, claim, digest));
        return isNoted ? { digest } : { gone: true };
      } catch (error) {
        if (error instanceof LostClaimError) return { gone: true };
        if (error instanceof DiskFullError) return { refused: 'disk_full' };
        throw error;
      }
    },
  };
}

/** What an order names. */
export function blobsOf(work: Work): string[] {
  const archive = work.kind === 'compile_dependency' ? [work.archive.digest] : [];
  const software = 'software' in work ? work.software.map(({ digest }) => digest) : [];
  return [...archive, ...software];
}

/** The claim that a transfer was for went while it was under way. */
class LostClaimError extends ApiError {
  constructor() {
    super('not_found');
  }
}

async function opened(blobs: Blobs, digest: string): Promise<Blob | undefined> {
  try {
    return await blobs.open(digest);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

function everyNow(look: () => Promise<void>): () => Promise<void> {
  let lookedAt = performance.now();
  return async () => {
    if (performance.now() - lookedAt < lookEvery) return;
    await look();
    lookedAt = performance.now();
  };
}
