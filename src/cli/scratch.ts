import { chmodSync, lstatSync, mkdirSync, mkdtempSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { lockFolder, tryLockFolder, type FileLock } from '../lib/file-lock.ts';
import { removeTree } from '../lib/remove-tree.ts';
import { foldersOf } from '../runner/leftovers.ts';
import { openState } from '../runner/sandbox/state.ts';

/**
 * A folder for one short-lived runner, below a folder that several of them share on a machine. It is removed with the
 * runner. The next runner removes the folders of killed ones: each holds a lock on its folder while it lives.
 */
export interface Scratch {
  folder: string;
  remove(): Promise<void>;
}

const prefix = 'headrace-runner-';

export async function openScratch(base: string, log: (message: string) => void): Promise<Scratch> {
  mkdirSync(base, { recursive: true, mode: 0o711 });
  refuseStrangers(base);
  const { own, lock, left } = await within(base);
  for (const abandoned of left) await clear(abandoned, log);
  return {
    folder: own,
    async remove() {
      await removeTree(own);
      await lock.release();
    },
  };
}

/** Anybody who can write there could replace files that the runner relies on. */
function refuseStrangers(base: string): void {
  const { uid, mode } = lstatSync(base);
  const isOwnFolder = uid === process.getuid?.() && (mode & 0o022) === 0;
  if (!isOwnFolder || !lstatSync(base).isDirectory())
    throw new Error(`${base} must be a folder that belongs to the runner's user and that nobody else can write to`);
}

interface Abandoned {
  folder: string;
  lock: FileLock;
}

/** Makes the folder. A folder without a lock would seem abandoned, so making and locking it are done under one lock. */
async function within(base: string): Promise<{ own: string; lock: FileLock; left: Abandoned[] }> {
  const alone = await lockFolder(base);
  try {
    const left: Abandoned[] = [];
    for (const name of readdirSync(base).filter((one) => one.startsWith(prefix))) {
      const folder = join(base, name);
      const lock = await tryLockFolder(folder).catch(() => undefined); // its runner may be removing it
      if (lock) left.push({ folder, lock });
    }
    const own = mkdtempSync(join(base, prefix));
    chmodSync(own, 0o711);
    return { own, lock: await lockFolder(own), left };
  } finally {
    await alone.release();
  }
}

/** A failure is logged, and the next runner tries again. */
async function clear({ folder, lock }: Abandoned, log: (message: string) => void): Promise<void> {
  try {
    const { sandboxes, gitSandboxes } = foldersOf(join(folder, 'remote-runner'));
    for (const sandboxFolder of [sandboxes, gitSandboxes]) await (await openState(sandboxFolder, log)).close();
    await removeTree(folder);
  } catch (error) {
    log(`the folder of a runner that was killed could not be removed: ${String(error)}`);
  } finally {
    await lock.release();
  }
}
