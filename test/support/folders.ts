import { mkdtempSync, rmSync } from 'node:fs';
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

/** A folder that is removed after the tests of the block. */
export function folderFor(afterwards: (cleanUp: CleanUp) => void, folder = temporaryFolder()): string {
  afterwards(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
