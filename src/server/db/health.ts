import { setTimeout as pause } from 'node:timers/promises';
import type { DiskReserve } from '../../shared/lib/disk-reserve.ts';
import { isUnavailable, WritesRefusedError } from './unavailable.ts';

export interface HealthParts {
  disk: Pick<DiskReserve, 'shortage'>;
  isAway: () => boolean;
  write: () => Promise<void>;
  unseal: () => Promise<void>;
  /** Rejects, in words for any reader, if blobs cannot be stored and read. */
  proveBlobs: () => Promise<void>;
  onChange: (reason: string | undefined) => void;
}

const checkEveryMs = 1000;
const longestWriteMs = 5000;
const unreachable = 'the database cannot be reached';

/** Returns the problem in words for any reader, or undefined. Checks at most once a second. */
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
        () => 'blob storage cannot be used',
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
    (error: unknown) => reasonOf(error) ?? whenItFails,
  );
  try {
    return await Promise.race([done, late]);
  } finally {
    waiting.abort();
  }
}

function reasonOf(error: unknown): string | undefined {
  if (error instanceof WritesRefusedError) return `the database is ${error.why}`;
  return isUnavailable(error) ? unreachable : undefined;
}
