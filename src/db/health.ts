import { setTimeout as pause } from 'node:timers/promises';
import type { DiskReserve } from '../lib/disk-reserve.ts';
import { isUnavailable } from './unavailable.ts';

export interface HealthParts {
  disk: Pick<DiskReserve, 'shortage'>;
  /** Whether the database cannot be reached, as far as is known. */
  isAway: () => boolean;
  /** Writes something small to the database. */
  write: () => Promise<void>;
  /** Opens something that is sealed with the master key. */
  unseal: () => Promise<void>;
  /** Hears when it changes. */
  onChange: (reason: string | undefined) => void;
}

const lookEveryMs = 1000;
const longestWriteMs = 5000;
const unreachable = 'the database cannot be reached';

/**
 * Whether the service can do its work: the disk has more than its reserve, the database takes what is written,
 * and the master key opens what is sealed in it.
 * Answers what is wrong, in words for anybody, or undefined. However often it is asked, it looks once a second.
 */
export function watchHealth(parts: HealthParts): () => Promise<string | undefined> {
  const { disk, isAway, write, unseal, onChange } = parts;
  let known: string | undefined;
  let looking: Promise<string | undefined> | undefined;
  let lookedAt = -Infinity;

  const look = async (): Promise<string | undefined> => {
    const reason =
      (await disk.shortage()) ??
      (isAway() ? unreachable : undefined) ??
      (await troubleWith(write, 'the database cannot be written to')) ??
      (await troubleWith(unseal, 'the master key does not open what the database holds'));
    if (reason !== known) onChange(reason);
    known = reason;
    lookedAt = performance.now();
    return reason;
  };
  return async () => {
    if (performance.now() - lookedAt < lookEveryMs) return known;
    looking ??= look().finally(() => (looking = undefined));
    return looking;
  };
}

async function troubleWith(work: () => Promise<void>, whenItFails: string): Promise<string | undefined> {
  const waiting = new AbortController();
  const late = pause(longestWriteMs, 'the database does not answer', { signal: waiting.signal });
  late.catch(() => {}); // it answered
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
