import { setTimeout as pause } from 'node:timers/promises';
import type { DiskReserve } from '../../shared/lib/disk-reserve.ts';
import { isUnavailable } from './unavailable.ts';

export interface HealthParts {
  disk: Pick<DiskReserve, 'shortage'>;
  /** Whether the database is known to be unreachable. */
  isAway: () => boolean;
  /** Writes a small value to the database. */
  write: () => Promise<void>;
  /** Opens a value that is sealed with the master key. */
  unseal: () => Promise<void>;
  /** Rejects, with words for any reader, when blobs cannot be stored and read. */
  proveBlobs: () => Promise<void>;
  /** Called when the answer changes. */
  onChange: (reason: string | undefined) => void;
}

const checkEveryMs = 1000;
const longestWriteMs = 5000;
const unreachable = 'the database cannot be reached';

/**
 * Whether the service can do its work: the disk has more than its reserve, the database accepts writes, the master key
 * opens the sealed values, and blobs can be stored. Returns what is wrong, in words for any reader, or undefined. It
 * checks at most once a second.
 */
export function watchHealth(parts: HealthParts): () => Promise<string | undefined> {
  const { disk, isAway, write, unseal, proveBlobs, onChange } = parts;
  let known: string | undefined;
  let checking: Promise<string | undefined> | undefined;
  let checkedAt = -Infinity;

  const check = async (): Promise<string | undefined> => {
    const reason =
      (await disk.shortage()) ??
      (isAway() ? unreachable : undefined) ??
      (await troubleWith(write, 'the database cannot be written to')) ??
      (await troubleWith(unseal, 'the master key does not open the sealed values of the database')) ??
      (await proveBlobs().then(
        () => undefined,
        () => 'the store of the blobs cannot be used',
      ));
    if (reason !== known) onChange(reason);
    known = reason;
    checkedAt = performance.now();
    return reason;
  };
  return async () => {
    if (performance.now() - checkedAt < checkEveryMs) return known;
    checking ??= check().finally(() => (checking = undefined));
    return checking;
  };
}

async function troubleWith(work: () => Promise<void>, whenItFails: string): Promise<string | undefined> {
  const waiting = new AbortController();
  const late = pause(longestWriteMs, 'the database does not answer', { signal: waiting.signal });
  late.catch(() => {}); // it answered in time
  const done = work().then(
    () => undefined,
    (error: unknown) => (isUnavailable(error) ? unreachable : whenItFails),
  );
  try {
    return await Promise.race([done, late]);
  } finally {
    waiting.abort();
  }
}
