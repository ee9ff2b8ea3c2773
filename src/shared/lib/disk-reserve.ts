import type { StatsFs } from 'node:fs';
import { stat, statfs } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';

/**
 * Keeps a part of a disk free. Large data (logs, archives, dependencies) leaves that part untouched, so that small
 * writes such as a change of state always find room. A disk may be full only for a moment, so a writer waits before it
 * fails.
 */
export interface DiskReserve {
  /** How many more bytes may be written now. Negative if the reserve is already in use. */
  room(share?: Share): Promise<number>;
  allows(bytes: number, share?: Share): Promise<boolean>;
  /** Waits for room. Rejects with a DiskFullError after a while. */
  take(bytes: number, share?: Share): Promise<void>;
  /** A description, undefined if there is none. Includes a shortage that stops only large writes. */
  shortage(): Promise<string | undefined>;
  /** By the first folder of each file system. Unreadable file systems are skipped. */
  spaces(): Promise<Space[]>;
}

/** In bytes. */
export interface Space {
  folder: string;
  size: number;
  /** Includes the reserve. */
  free: number;
  reserve: number;
}

/** `small` writes may use half of the reserve, so they can never use up all of it. */
export type Share = 'large' | 'small';

export class DiskFullError extends Error {
  override name = 'DiskFullError';

  constructor(options?: ErrorOptions) {
    super('the disk is full', options);
  }
}

/** Includes a user's quota. */
export function isNoSpace(error: unknown): boolean {
  if (error instanceof DiskFullError) return true;
  return error instanceof Error && 'code' in error && (error.code === 'ENOSPC' || error.code === 'EDQUOT');
}

const megabyte = 1024 * 1024;
const waitLimitMs = 5000;
const measureAgainMs = 200;
/** Between two measurements, written bytes are counted up to this number. A database writes its data about twice. */
const countedUpTo = 4 * megabyte;
const writtenTwice = 2;

export interface ReserveOptions {
  folders: readonly string[];
  /** By default a twentieth of the disk, at most 1 GiB. */
  bytes?: number | undefined;
  waitLimitMs?: number;
}

interface Room extends Space {
  lacksFiles: boolean;
}

export function keepReserve(options: ReserveOptions): DiskReserve {
  let rooms: Room[] = [];
  let measuredAt = -Infinity;
  let counted = 0;
  let measuring: Promise<void> | undefined;
  /** The largest write that was refused, until there is room for it again. */
  let refused = 0;

  const measure = async (): Promise<void> => {
    const found = await Promise.all(options.folders.map((folder) => roomOf(folder, options.bytes)));
    rooms = found.filter((room) => room !== undefined);
    measuredAt = performance.now();
    counted = 0;
  };
  const fits = (bytes: number, share: Share): boolean =>
    rooms.every(({ free, reserve, lacksFiles }) => {
      const kept = share === 'small' ? reserve / 2 : reserve;
      return free - counted - bytes * writtenTwice >= kept && (share === 'small' || !lacksFiles);
    });
  const allows = async (bytes: number, share: Share = 'large'): Promise<boolean> => {
    const isKnown = performance.now() - measuredAt < measureAgainMs && counted < countedUpTo;
    if (!isKnown || !fits(bytes, share)) await (measuring ??= measure().finally(() => (measuring = undefined)));
    if (!fits(bytes, share)) return false;
    counted += bytes * writtenTwice;
    return true;
  };
  return {
    allows,
    async room(share = 'large') {
      await measure();
      const left = rooms.map(({ free, reserve, lacksFiles }) => {
        if (share === 'large' && lacksFiles) return 0;
        return free - (share === 'small' ? reserve / 2 : reserve);
      });
      return Math.min(Infinity, ...left);
    },
    async take(bytes, share) {
      const givenUp = performance.now() + (options.waitLimitMs ?? waitLimitMs);
      while (!(await allows(bytes, share))) {
        if (performance.now() >= givenUp) {
          if (share !== 'small') refused = Math.max(refused, bytes);
          throw new DiskFullError();
        }
        await pause(measureAgainMs);
      }
    },
    async spaces() {
      await measure();
      const seen = rooms;
      const devices = await Promise.all(seen.map(async ({ folder }) => (await stat(folder)).dev));
      return seen
        .filter((_, at) => devices.indexOf(devices[at] ?? 0) === at)
        .map(({ folder, size, free, reserve }) => ({ folder, size, free, reserve }));
    },
    async shortage() {
      await measure();
      const short = rooms.find(({ free, reserve, lacksFiles }) => free < reserve || lacksFiles);
      if (!short && refused > 0) {
        if (!fits(refused, 'large')) return 'the disk is full: a write was refused, because it would use the reserve';
        refused = 0;
      }
      if (!short) return undefined;
      if (short.lacksFiles) return 'the disk is almost full';
      return `the disk is full: ${inMegabytes(short.free)} MB are free, of ${inMegabytes(short.reserve)} MB of reserve`;
    },
  };
}

export async function reserveOf(folder: string, bytes?: number): Promise<number> {
  return bytes ?? usualReserve(await statfs(folder));
}

function usualReserve({ blocks, bsize }: StatsFs): number {
  return Math.min(1024 * megabyte, (blocks * bsize) / 20);
}

/** Undefined if the file system cannot be read, which reveals nothing about its space. */
async function roomOf(folder: string, bytes: number | undefined): Promise<Room | undefined> {
  try {
    const found = await statfs(folder);
    const { bavail, blocks, bsize, files, ffree } = found;
    const space = { folder, size: blocks * bsize, free: bavail * bsize, reserve: bytes ?? usualReserve(found) };
    // Some file systems create room for files on demand, and report 0 files.
    return { ...space, lacksFiles: ffree < files / 20 };
  } catch {
    return undefined;
  }
}

function inMegabytes(bytes: number): number {
  return Math.floor(bytes / megabyte);
}
