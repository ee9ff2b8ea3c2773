import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { diskReserveBytes, readBlobLocation, type BlobLocation, type Config } from '../../shared/config.ts';
import { piecesOf, WrongDigestError, type Blobs } from '../../server/db/blobs.ts';
import { keepReserve } from '../../shared/lib/disk-reserve.ts';
import { tell, type Call } from './call.ts';
import { openBlobs } from './store.ts';

/** Most blobs are small, so most of the time is spent waiting. */
const atOnce = 8;

export async function copy(call: Call, fromText: string, toText: string): Promise<void> {
  const { config } = call;
  const [fromLocation, toLocation] = [locationIn(fromText, 'FROM'), locationIn(toText, 'TO')];
  if (JSON.stringify(fromLocation) === JSON.stringify(toLocation)) throw new Error('FROM and TO are the same store');
  if ('folder' in fromLocation && !existsSync(fromLocation.folder)) throw new Error('FROM: this folder does not exist');
  await using opened = new AsyncDisposableStack();
  const from = await openLocation(fromLocation, config, opened);
  const to = await openLocation(toLocation, config, opened);
  await to.prove();
  const { copied, bytes, present, gone, damaged } = await copyBlobs(from, to);
  const goneToo = gone > 0 && `${gone} were deleted during the copy, because nothing refers to them any longer`;
  const lines = [`copied ${copied} blobs (${bytes} bytes); ${present} existed already`, goneToo];
  tell(call, { copied, bytes, present, gone, damaged }, ...lines.filter((line) => line !== false));
  if (damaged.length > 0)
    throw new Error(`not copied, because their content does not match their digest: ${damaged.join(', ')}`);
}

function locationIn(text: string, label: string): BlobLocation {
  return readBlobLocation(/^[a-z0-9]+:/.test(text) ? text : resolve(text), label);
}

async function openLocation(location: BlobLocation, config: Config, opened: AsyncDisposableStack): Promise<Blobs> {
  const folders = 'folder' in location ? [location.folder] : [];
  const disk = keepReserve({ folders, bytes: diskReserveBytes(config) });
  const blobs = await openBlobs(location, disk, console.error);
  opened.defer(() => blobs.close());
  return blobs;
}

export interface Copied {
  copied: number;
  bytes: number;
  /** These are not read again: a store only has complete blobs. */
  present: number;
  gone: number;
  damaged: string[];
}

/** Both stores list in the same order, so missing blobs are found without a list in memory. */
export async function copyBlobs(from: Blobs, to: Blobs): Promise<Copied> {
  const counts: Copied = { copied: 0, bytes: 0, present: 0, gone: 0, damaged: [] };
  const working = new Set<Promise<void>>();
  try {
    for await (const { digest, size, isThere } of compared(from.list(), to.list())) {
      if (isThere) {
        counts.present += 1;
        continue;
      }
      const tracked = copyOne(from, to, { digest, size }, counts).finally(() => working.delete(tracked));
      working.add(tracked);
      tracked.catch(() => {}); // the next wait gets the error
      if (working.size >= atOnce) await Promise.race(working);
    }
    await Promise.all(working);
    return counts;
  } finally {
    // After an error, the caller closes the stores. No copy may still use them.
    await Promise.allSettled(working);
  }
}

async function copyOne(from: Blobs, to: Blobs, { digest, size }: Named, counts: Copied): Promise<void> {
  try {
    await using blob = await from.open(digest);
    await to.put(piecesOf(blob), digest);
    counts.copied += 1;
    counts.bytes += size;
  } catch (error) {
    if (error instanceof WrongDigestError) counts.damaged.push(digest);
    else if ((error as NodeJS.ErrnoException).code === 'ENOENT') counts.gone += 1;
    else throw error;
  }
}

interface Named {
  digest: string;
  size: number;
}

/** `isThere`: the second list has the blob too. */
export async function* compared(
  first: AsyncIterable<Named>,
  second: AsyncIterable<Named>,
): AsyncGenerator<Named & { isThere: boolean }> {
  const others = second[Symbol.asyncIterator]();
  try {
    let other = await others.next();
    for await (const { digest, size } of first) {
      while (other.done !== true && other.value.digest < digest) other = await others.next();
      const isThere = other.done !== true && other.value.digest === digest && other.value.size === size;
      yield { digest, size, isThere };
    }
  } finally {
    await others.return?.();
  }
}
