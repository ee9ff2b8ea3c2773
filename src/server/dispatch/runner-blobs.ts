import { checkRunner, type Runner } from '../auth/runners.ts';
import type { Blob, Blobs } from '../db/blobs.ts';
import type { Database } from '../db/open.ts';
import { ApiError } from '../../shared/errors.ts';
import { DiskFullError } from '../../shared/lib/disk-reserve.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import type { Stored, Work } from '../../shared/protocol/index.ts';
import { hasPoints } from '../lifecycle/step-points.ts';
import { uploadOf } from '../lifecycle/uploads.ts';
import { isNamedTo } from '../queue/claimed-blobs.ts';
import { jobOf } from '../queue/leases.ts';
import { artifactIntake, type ArtifactIntake } from './artifact-intake.ts';
import { writesCache } from './caches.ts';
import { buildUnder, noteBlobUnder } from './held-builds.ts';
import { atMost, oneAtATime, TooLargeError, whileHeld } from './intakes.ts';
import type { ArtifactLimits, UnpackLimits } from './job-handler.ts';
import type { RunnerShares } from './runner-shares.ts';
import { storedRoom } from './stored-room.ts';

export interface RunnerBlobs extends ArtifactIntake {
  /** The caller closes the blob. Undefined if none of the runner's orders names it. */
  read(runner: Runner, digest: string): Promise<Blob | undefined>;
  store(runner: Runner, claim: string, content: AsyncIterable<Uint8Array>): Promise<Stored>;
}

const checkEveryMs = 1000;

export function runnerBlobs(parts: {
  db: Database;
  ids: IdSource;
  blobs: Blobs;
  shares: RunnerShares;
  artifacts: ArtifactLimits;
  unpacked: UnpackLimits;
  cacheBytes: number;
}): RunnerBlobs {
  const { db, blobs, shares, unpacked, cacheBytes } = parts;
  const alone = oneAtATime();
  const room = storedRoom({ db, blobs, most: Math.max(unpacked.bytes, cacheBytes) });
  const mostFor = async (runner: Runner, claim: string): Promise<{ most: number; account: bigint } | undefined> => {
    const job = await jobOf(db.read, claim);
    if (job && job.holder !== runner.holder) return undefined;
    if (job?.kind === 'compile_dependency' || job?.kind === 'pack_files')
      return { most: unpacked.bytes, account: job.account_id };
    const build = await buildUnder(db.read, runner, claim);
    const isCache = build !== undefined && (await writesCache(db.read, build));
    const isPoint = job !== undefined && build !== undefined && (await hasPoints(db.read, build));
    const account = (job ?? (await uploadOf(db.read, claim)))?.account_id;
    const most = Math.max(isCache ? cacheBytes : 0, isPoint ? unpacked.bytes : 0);
    return most > 0 && account !== undefined ? { most, account } : undefined;
  };
  const intake = artifactIntake(parts);
  return {
    async storeFiles(runner, claim, content) {
      using _ = shares.open(runner, 'transfers');
      return await intake.storeFiles(runner, claim, content);
    },

    async read(runner, digest) {
      const isNamed = (): Promise<boolean> => isNamedTo(db.read, runner.holder, digest);
      if (!(await isNamed())) return undefined;
      using open = new DisposableStack();
      open.use(shares.open(runner, 'transfers'));
      const blob = await opened(blobs, digest);
      if (!blob) return undefined;
      const recheck = everyNow(async () => {
        if (!(await isNamed())) throw new LostClaimError();
      });
      const transfer = open.move();
      return {
        ...blob,
        read: async (...range) => (await recheck(), blob.read(...range)),
        async [Symbol.asyncDispose]() {
          transfer.dispose();
          await blob[Symbol.asyncDispose]();
        },
      };
    },

    async store(runner, claim, content) {
      const allowed = await mostFor(runner, claim);
      if (!allowed) return { gone: true };
      const { most, account } = allowed;
      using _ = alone(claim);
      using __ = shares.open(runner, 'transfers');
      const check = async (): Promise<void> => {
        await checkRunner(db.read, runner);
        if ((await mostFor(runner, claim)) === undefined) throw new LostClaimError();
      };
      if (await room.isOver(claim, most)) return { refused: 'too_large' };
      try {
        const stored = await blobs.put(atMost(most, room.counted(account, whileHeld(content, check))));
        const isNoted = await db.transaction((trx) => noteBlobUnder(db, trx, { runner, claim, stored }));
        return isNoted ? { digest: stored.digest } : { gone: true };
      } catch (error) {
        if (error instanceof LostClaimError) return { gone: true };
        if (error instanceof DiskFullError) return { refused: 'disk_full' };
        if (error instanceof TooLargeError) return { refused: 'too_large' };
        throw error;
      }
    },
  };
}

export function blobsOf(work: Work): string[] {
  const archive = work.kind === 'compile_dependency' ? [work.archive.digest] : [];
  const services = work.kind === 'run_suite' ? (work.services ?? []) : [];
  const software = [work, ...services].flatMap((one) =>
    'software' in one ? one.software.map(({ digest }) => digest) : [],
  );
  const cache = work.kind === 'run_suite' && work.cache?.found ? [work.cache.found.digest] : [];
  const taken = work.kind === 'run_suite' ? [work.files ?? [], work.lent ?? []].flat() : [];
  const files = taken.flatMap(({ packed }) => packed?.digest ?? []);
  const point = work.kind === 'run_suite' ? (work.from?.point?.files.digest ?? []) : [];
  return [...archive, ...software, ...cache, ...files, ...[point].flat()];
}

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

function everyNow(recheck: () => Promise<void>): () => Promise<void> {
  let checkedAt = performance.now();
  return async () => {
    if (performance.now() - checkedAt < checkEveryMs) return;
    await recheck();
    checkedAt = performance.now();
  };
}
