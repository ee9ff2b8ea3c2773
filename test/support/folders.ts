import { existsSync, mkdtempSync, rmSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';

export type CleanUp = () => void | Promise<void>;

/** To be called in a block of tests. The result adds a clean-up after the tests of the block; the last one runs first. */
export function cleanUpAfterwards(): (cleanUp: CleanUp) => void {
  const cleanUps: CleanUp[] = [];
  after(async () => {
    for (const cleanUp of cleanUps.reverse()) await cleanUp();
  });
  return (cleanUp) => void cleanUps.push(cleanUp);
}

export function temporaryFolder(): string {
  return mkdtempSync(join(tmpdir(), 'headrace-test-'));
}

/**
 * A folder in memory, where the machine has room for that: a disk takes milliseconds to confirm each transaction, which
 * only matters where a machine may lose its power.
 */
export function quickFolder(prefix = 'headrace-test-'): string {
  return mkdtempSync(join(hasRoom(memory) ? memory : tmpdir(), prefix));
}

const memory = '/dev/shm';
const enough = 4 * 1024 ** 3;

function hasRoom(folder: string): boolean {
  if (!existsSync(folder)) return false;
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize > enough;
}

/** A folder that is removed after the tests of the block. */
export function folderFor(afterwards: (cleanUp: CleanUp) => void, folder = temporaryFolder()): string {
  afterwards(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
