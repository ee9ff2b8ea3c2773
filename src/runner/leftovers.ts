import { existsSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { tryLockFile, type FileLock } from '../shared/lib/file-lock.ts';
import { sweepTree } from '../shared/lib/remove-tree.ts';
import { sweepMirrors } from './git/collect.ts';
import { sweepUnfinished } from './tree-store.ts';

const resolved = (path: string): string => (existsSync(path) ? realpathSync(path) : path);

/** A runner's folders. Links that an operator put there are resolved, so that no mount goes through a link. */
export function foldersOf(folder: string) {
  const part = (name: string): string => resolved(join(resolved(folder), name));
  return {
    git: part('git'),
    sandboxes: part('sandboxes'),
    gitSandboxes: part('git-sandboxes'),
    checkouts: part('checkouts'),
    scratch: part('scratch'),
    /** Unsent logs. */
    spool: part('spool'),
    software: part('software'),
    images: part('images'),
    imageSockets: part('image-sockets'),
    caches: part('caches'),
    /** Files of builds for other suites, unpacked from the server's blobs. */
    files: part('files'),
    serviceData: part('service-data'),
    /** A key that is not stored with the data. */
    serviceDataKey: part('service-data-key'),
    kept: part('kept'),
    outbox: part('outbox'),
  };
}

/** Locks the folder for the life of the process. Undefined if another runner has the lock. */
export async function holdFolder(folder: string): Promise<FileLock | undefined> {
  return tryLockFile(join(folder, 'lock'), 'exclusive');
}

/** Removes files of a killed runner. The caller must have the lock. Failures are only logged. */
export async function sweepLeftovers(folder: string, log: (message: string) => void): Promise<void> {
  const { git, checkouts, scratch, spool, software, images, imageSockets, caches, files, serviceData, kept, outbox } =
    foldersOf(folder);
  for (const path of [spool, scratch, checkouts, imageSockets]) await sweepTree(path, log);
  await sweepMirrors(git, log);
  for (const path of [software, images, caches, files, serviceData, kept, outbox]) await sweepUnfinished(path, log);
}

/** Also removes files of sandboxes. A starting runner removes those itself after it has ended their processes. */
export async function sweepForRoom(folder: string, log: (message: string) => void): Promise<void> {
  await sweepLeftovers(folder, log);
  const { sandboxes, gitSandboxes } = foldersOf(folder);
  for (const root of [sandboxes, gitSandboxes]) await sweepTree(join(root, 'runs'), log);
}
