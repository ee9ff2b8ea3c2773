import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { closeSync, openSync, rmSync, statfsSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { run } from '../../src/shared/lib/processes.ts';
import { temporaryFolder, type TestDatabase } from './databases.ts';

const megabyte = 1024 * 1024;

/** A real file system of a chosen size, which a test can fill. */
export interface SmallDisk {
  folder: string;
  freeBytes(): number;
  /** Fills it until this much is left. */
  fillTo(bytes: number): void;
  /** Frees that room again. */
  empty(): void;
}

export async function smallDisk({ afterwards }: Pick<TestDatabase, 'afterwards'>, size: number): Promise<SmallDisk> {
  const folder = temporaryFolder();
  assert.equal(mount(folder, size), '');
  afterwards(async () => {
    await run('umount', ['--lazy', folder]);
    rmSync(folder, { recursive: true });
  });
  const filler = join(folder, 'filler');
  const freeBytes = (): number => {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize;
  };
  return {
    folder,
    freeBytes,
    fillTo(bytes) {
      const file = openSync(filler, 'a');
      try {
        for (let left = freeBytes() - bytes; left > 0; left = freeBytes() - bytes) {
          writeSync(file, Buffer.alloc(Math.min(left, megabyte), 'x'));
        }
      } catch (error) {
        assert.equal((error as NodeJS.ErrnoException).code, 'ENOSPC');
      } finally {
        closeSync(file);
      }
    },
    empty: () => rmSync(filler, { force: true }),
  };
}

/** The error, or an empty text. */
function mount(folder: string, size: number): string {
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${size}m,mode=700`, 'tmpfs', folder]);
  return mounted.status === 0 ? '' : mounted.stderr.toString().trim() || 'mount failed';
}
