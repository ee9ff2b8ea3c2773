import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { rename, rm, statfs, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Config } from '../../shared/config.ts';
import { incomingFolder } from '../../server/db/blobs.ts';
import { sweepIncoming } from '../../server/db/incoming.ts';
import type { DiskReserve } from '../../shared/lib/disk-reserve.ts';
import { localRunnerPaths } from './local-runner.ts';
import { blobLocation } from './store.ts';

/**
 * A full disk must not stop a start: without the server, users cannot see the cause or delete anything. To make
 * room for the database, useless files are removed first: partial uploads, and files of a killed runner. Then the
 * ballast, a file that only reserves room for this case.
 */
const megabyte = 1024 * 1024;
const ballastSize = 8 * megabyte;
const enough = ballastSize / 2;
const layEveryMs = 60_000;

export async function makeRoomToStart(config: Config, log: (message: string) => void): Promise<void> {
  const isRoomy = async (): Promise<boolean> => (await freeAt(config.data_dir)) >= enough;
  if (await isRoomy()) return;
  log('the disk is full: leftover files are removed before the start');
  const location = blobLocation(config);
  if ('folder' in location)
    await sweepIncoming(incomingFolder(location.folder)).catch((error: unknown) => log(String(error)));
  await sweepRunner(localRunnerPaths(config).folder, log).catch((error: unknown) => log(String(error)));
  if (!(await isRoomy())) await rm(ballastOf(config), { force: true });
}

/** A runner outlives its server. The files of a running one stay. */
async function sweepRunner(folder: string, log: (message: string) => void): Promise<void> {
  if (!existsSync(folder)) return;
  const { holdFolder, sweepForRoom } = await import('../../runner/leftovers.ts'); // loaded only when needed
  const lock = await holdFolder(folder);
  if (!lock) return;
  await sweepForRoom(folder, log);
  await lock.release();
}

/** A missing folder counts as having enough room. */
async function freeAt(folder: string): Promise<number> {
  const found = await statfs(folder).catch(() => undefined);
  return found ? found.bavail * found.bsize : Infinity;
}

function ballastOf(config: Config): string {
  return join(config.data_dir, 'ballast');
}

export function keepBallast(config: Config, disk: DiskReserve): { close(): void } {
  const path = ballastOf(config);
  const lay = async (): Promise<void> => {
    if (existsSync(path) || !(await disk.allows(ballastSize))) return;
    const part = `${path}.part`;
    // Not zeros: some file systems would not allocate room for them.
    await writeFile(part, randomBytes(ballastSize), { mode: 0o600 });
    await rename(part, path);
  };
  const tryToLay = (): void => void lay().catch(() => rm(`${path}.part`, { force: true }).catch(() => {}));
  const timer = setInterval(tryToLay, layEveryMs);
  timer.unref();
  tryToLay();
  return { close: () => clearInterval(timer) };
}
