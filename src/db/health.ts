import { setTimeout as pause } from 'node:timers/promises';
import type { DiskReserve } from '../lib/disk-reserve.ts';
import { isUnavailable } from './unavailable.ts';

export interface HealthParts {
  disk: Pick<DiskReserve, 'shortage'>;
  /** Whether the database cannot be reached, as far as is known. */
  isAway: () => boolean;
  /** Writes something small to the database. */
  write: () => Promise<void>;
  /** Hears when it changes. */
  onChange: (reason: string | undefined) => void;
}

const lookEveryMs = 1000;
const longestWriteMs = 5000;
const unreachable = 'the database cannot be reached';

/**
 * Whether the service can do its work: the disk has more than its reserve, and the database takes what is written.
 * Answers what is wrong, in words for anybody, or undefined. However often it is asked, it looks once a second.
 */
export function watchHealth({ disk, isAway, write, onChange }: HealthParts): () => Promise<string | undefined> {
  let known: string | undefined;
  let looking: Promise<string | undefined> | undefined;
  let lookedAt = -Infinity;

  const look = async (): Promise<string | undefined> => {
    const reason = (await disk.shortage()) ?? (isAway() ? unreachable : await troubleWith(write));
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

async function troubleWith(write: () => Promise<void>): Promise<string | undefined> {
  const waiting = new AbortController();
  const late = pause(longestWriteMs, 'the database does not answer', { signal: waiting.signal });
  late.catch(() => {}); // it answered
  const written = write().then(
    () => undefined,
    (error: unknown) => (isUnavailable(error) ? unreachable : 'the database cannot be written to'),
  );
  try {
    return await Promise.race([written, late]);
  } finally {
    waiting.abort();
  }
}
