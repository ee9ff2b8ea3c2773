import { createReadStream, existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { DiskFullError, type DiskReserve } from '../shared/lib/disk-reserve.ts';
import { messageOf } from '../shared/lib/error-code.ts';
import { BrokenFramesError, frameReader } from '../shared/domain/file-frames.ts';
import { orAborted } from '../shared/lib/or-aborted.ts';
import type { Link, UploadReport } from '../shared/protocol/index.ts';
import { inRequests, oneRequest } from './artifact-requests.ts';
import { RejectedError, StoreAwayError } from './failures.ts';
import type { Outbox, Parcel } from './outbox.ts';
import { unlessStoreAway } from './retry.ts';
import { LostClaimError, storeBlob } from './transfers.ts';

export interface Delivering {
  outbox: Outbox;
  link: Pick<Link, 'storeFiles' | 'store' | 'uploaded'>;
  disk: Pick<DiskReserve, 'room'>;
  signal: AbortSignal;
  log: (message: string) => void;
}

type Lost = NonNullable<UploadReport['lost']>;

/** Files that were not delivered within this time are given up. */
const longestMs = 7 * 24 * 60 * 60 * 1000;
const [shortestPauseMs, longestPauseMs] = [500, 10_000];

/** Runs until the runner ends. While blob storage is unreachable, only the oldest parcel is tried. */
export async function deliverOutbox(delivering: Delivering): Promise<void> {
  const { outbox, signal, log } = delivering;
  for (let wait = shortestPauseMs; !signal.aborted;) {
    const changed = outbox.changed();
    const parcels = outbox.ready();
    let delivered = 0;
    for (const parcel of parcels) {
      try {
        await deliver(delivering, parcel);
        outbox.note(false);
        delivered += 1;
      } catch (error) {
        if (signal.aborted) return;
        const isAway = error instanceof StoreAwayError;
        outbox.note(isAway);
        if (isAway) break;
        log(`the files of a build still wait here: ${messageOf(error)}`);
      }
    }
    wait = delivered > 0 ? shortestPauseMs : Math.min(wait * 2, longestPauseMs);
    const isEmpty = delivered === parcels.length;
    await (isEmpty ? orAborted(changed, signal) : pause(wait, undefined, { signal })).catch(() => {}); // the runner ends
  }
}

/** Returns when the server has all files or was notified of the loss. After an error the caller retries. */
async function deliver({ outbox, link, disk, signal, log }: Delivering, parcel: Parcel): Promise<void> {
  const { claim, since, cache } = parcel;
  let lost: Lost | undefined;
  if (Date.now() - since > longestMs) lost = 'too_late';
  else if ((await disk.room()) < 0) lost = 'no_room'; // running builds need the room
  const saved: Pick<UploadReport, 'cache'> = {};
  try {
    if (lost === undefined && existsSync(parcel.artifactsFile)) {
      lost = await unlessRefused(() => sendFiles(link, parcel, signal), log);
      // If the cache must wait longer, the artifacts are not sent again.
      await rm(parcel.artifactsFile);
    }
    if (lost !== 'too_late' && lost !== 'no_room' && cache) {
      const refused = await unlessRefused(async () => {
        const digest = await storeBlob(link, claim, parcel.cacheFile, signal, unlessStoreAway);
        if (digest !== cache.digest) throw new BrokenFramesError('a packed cache has another digest');
      }, log);
      if (refused === undefined) saved.cache = cache;
      lost ??= refused;
    }
    await link.uploaded({ claim, ...saved, ...(lost && { lost }) }, signal);
  } catch (error) {
    if (!(error instanceof LostClaimError)) throw error; // a deleted build needs no files
  }
  await outbox.remove(parcel);
}

/** Refused files are lost, because the server would refuse them again. */
async function unlessRefused(work: () => Promise<void>, log: (message: string) => void): Promise<Lost | undefined> {
  try {
    await work();
    return undefined;
  } catch (error) {
    const isRefused = [RejectedError, DiskFullError, BrokenFramesError].some((kind) => error instanceof kind);
    if (!isRefused || error instanceof LostClaimError) throw error;
    log(`files of a build are lost: ${String(error)}`);
    return 'not_taken';
  }
}

async function sendFiles(
  link: Pick<Link, 'storeFiles'>,
  { claim, artifactsFile }: Parcel,
  signal: AbortSignal,
): Promise<void> {
  const content = createReadStream(artifactsFile, { highWaterMark: 1024 * 1024 });
  try {
    const requests = inRequests(() => oneRequest(link, claim, signal), { files: 0, bytes: 0 });
    const frames = frameReader(content as AsyncIterable<Buffer>);
    for (let frame = await frames.next(); frame; frame = await frames.next())
      await requests.take({ path: frame.text, size: frame.number, content: frame.content });
    await requests.end();
  } finally {
    content.destroy();
  }
}

/** Waits until the outbox is empty, for a runner whose disk is deleted with it. After `withinMs` gives up the rest. */
export async function emptyOutbox({ outbox, link, signal }: Delivering, withinMs: number): Promise<void> {
  const patience = AbortSignal.any([signal, AbortSignal.timeout(withinMs)]);
  while (outbox.ready().length > 0 && !patience.aborted) await orAborted(outbox.changed(), patience).catch(() => {}); // the condition above checks it
  if (signal.aborted) return;
  for (const parcel of outbox.ready())
    await link.uploaded({ claim: parcel.claim, lost: 'runner_gone' }, signal).catch(() => {}); // without this call, the server gives up automatically later
}
