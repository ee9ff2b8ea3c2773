import { checkRunner, type Runner } from '../auth/runners.ts';
import type { Blobs } from '../db/blobs.ts';
import { doomSent } from '../db/doomed-blobs.ts';
import type { Database } from '../db/open.ts';
import { ApiError } from '../../shared/errors.ts';
import { DiskFullError } from '../../shared/lib/disk-reserve.ts';
import { contentTypeOf, isPlainPath } from '../../shared/lib/file-types.ts';
import { BrokenFramesError, frameReader, type Frame } from '../../shared/domain/file-frames.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import { addArtifacts, type NewArtifact } from '../outputs/artifacts.ts';
import type { Kept } from '../../shared/protocol/index.ts';
import { buildUnder, holdBuildUnder } from './held-builds.ts';
import { oneAtATime, whileHeld } from './intakes.ts';
import type { ArtifactLimits } from './job-handler.ts';

/** Each file becomes a blob, and then a row of its build. */
export interface ArtifactIntake {
  storeFiles(runner: Runner, claim: string, content: AsyncIterable<Buffer>): Promise<Kept>;
}

/**
 * Files up to this size are gathered in memory and stored in parallel, because the disk flush of each file takes long.
 */
const small = 256 * 1024;
const atOnce = 16;
/** Rows are written together, but soon: a blob without a row is eventually removed. */
const mostRows = 200;
const longestMs = 2000;

export function artifactIntake(parts: {
  db: Database;
  ids: IdSource;
  blobs: Blobs;
  artifacts: ArtifactLimits;
}): ArtifactIntake {
  const { db, blobs, artifacts: limits } = parts;
  const alone = oneAtATime();

  const note = async (runner: Runner, claim: string, rows: readonly NewArtifact[]): Promise<void> => {
    const noting = db.transaction(async (trx) => {
      const buildId = await holdBuildUnder(db, trx, runner, claim);
      if (buildId === undefined) throw new Ended({ gone: true });
      const { files, bytes } = await addArtifacts(trx, parts.ids, { buildId, files: rows });
      // Counted again here, so that the limits apply whatever the runner sent.
      if (files > limits.mostFiles || bytes > limits.mostBytes) throw new Ended({ refused: 'too_large' });
    });
    await noting.catch(async (error: unknown) => {
      if (error instanceof Ended) await db.transaction((trx) => doomSent(trx, ...rows.map(({ sha256 }) => sha256)));
      throw error;
    });
  };

  return {
    async storeFiles(runner, claim, content) {
      const buildId = await buildUnder(db.read, runner, claim);
      if (buildId === undefined) return { gone: true };
      using _ = alone(claim);
      const check = async (): Promise<void> => {
        await checkRunner(db.read, runner);
        if ((await buildUnder(db.read, runner, claim)) === undefined) throw new Ended({ gone: true });
      };
      const before = db.read.selectFrom('artifacts').select(['path', 'size']).where('build_id', '=', buildId);
      const known = new Map((await before.execute()).map(({ path, size }) => [path, Number(size)]));
      let bytes = [...known.values()].reduce((sum, size) => sum + size, 0);
      const stored: NewArtifact[] = [];
      let notedAt = performance.now();
      const noteStored = async (): Promise<void> => {
        notedAt = performance.now();
        const rows = stored.splice(0);
        if (rows.length > 0) await note(runner, claim, rows);
      };
      const noteNowAndThen = async (): Promise<void> => {
        if (stored.length >= mostRows || performance.now() - notedAt > longestMs) await noteStored();
      };
      async function* noting(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
        for await (const piece of pieces) {
          await noteNowAndThen();
          yield piece;
        }
      }
      const store = async (path: string, pieces: AsyncIterable<Buffer>): Promise<void> => {
        const { digest, size } = await blobs.put(pieces);
        const facts = { size: BigInt(size), sha256: digest, content_type: contentTypeOf(path) };
        stored.push({ build_id: buildId, path, ...facts });
      };
      const arriving = whileHeld(content, check);
      const several = inParallel(atOnce);
      const take = async ({ letter, number: size, text: path, content: pieces }: Frame): Promise<void> => {
        if (letter !== 'F' || !isPlainPath(path)) throw new ApiError('invalid_format', 'path');
        if (known.has(path)) return;
        if (known.size >= limits.mostFiles || bytes + size > limits.mostBytes)
          throw new Ended({ refused: 'too_large' });
        known.set(path, size);
        bytes += size;
        if (size > small) return store(path, noting(pieces));
        const whole = await gathered(pieces);
        await several.start(() => store(path, whole));
        await noteNowAndThen();
      };
      try {
        const frames = frameReader(arriving);
        for (let frame = await frames.next(); frame; frame = await frames.next()) await take(frame);
        await several.ended();
        await noteStored();
        await check();
        return { kept: true };
      } catch (error) {
        await several.ended().catch(() => {}); // the first error is the one reported
        // Files that were stored before the error stay.
        const lost = await noteStored().then(() => undefined, answerTo);
        return lost ?? answerTo(error) ?? refuse(error);
      } finally {
        await arriving.return(undefined);
      }
    },
  };
}

function refuse(error: unknown): never {
  throw error instanceof BrokenFramesError ? new ApiError('invalid_format', 'content') : error;
}

function answerTo(error: unknown): Kept | undefined {
  if (error instanceof Ended) return error.answer;
  return error instanceof DiskFullError ? { refused: 'disk_full' } : undefined;
}

/** Carries a response that is sent before the whole request was read. */
class Ended extends Error {
  readonly answer: Kept;

  constructor(answer: Kept) {
    super('the files are not taken');
    this.answer = answer;
  }
}

async function gathered(pieces: AsyncIterable<Buffer>): Promise<AsyncIterable<Buffer>> {
  const all: Buffer[] = [];
  for await (const piece of pieces) all.push(piece);
  // A copy, because the pieces are parts of larger memory.
  const whole = Buffer.concat(all);
  return (async function* one() {
    yield whole;
  })();
}

/** If a task fails, the next call throws its error. */
function inParallel(most: number): { start(work: () => Promise<void>): Promise<void>; ended(): Promise<void> } {
  const running = new Set<Promise<void>>();
  let failed: { error: unknown } | undefined;
  return {
    async start(work) {
      while (running.size >= most) await Promise.race(running);
      if (failed) throw failed.error;
      const one = work()
        .catch((error: unknown) => void (failed ??= { error }))
        .finally(() => running.delete(one));
      running.add(one);
    },
    async ended() {
      await Promise.all(running);
      if (failed) throw failed.error;
    },
  };
}
