import { accessSync, constants, lstatSync, mkdirSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

/**
 * A folder is shared if another user owns it and this user may write to it, such as a volume that an engine made. Only
 * a folder below it can be closed to other users. Root may close any folder.
 */
export function ownFolderIn(folder: string): string {
  const uid = process.getuid?.() ?? 0;
  if (uid === 0 || !isShared(folder, uid)) return folder;
  const own = join(folder, nameFor(uid));
  proveOwn(own, uid);
  return own;
}

const nameFor = (uid: number): string => `headrace-${uid}`;

function isShared(folder: string, uid: number): boolean {
  try {
    const found = statSync(folder);
    if (found.uid === uid || !found.isDirectory()) return false;
    accessSync(folder, constants.W_OK | constants.X_OK);
    return true;
  } catch {
    return false; // missing or closed: using it shows why
  }
}

/** In a shared folder, another user may have created this path. */
function proveOwn(path: string, uid: number): void {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found && (!found.isDirectory() || found.uid !== uid))
    throw new Error(
      `${path} must be a folder of the user ${uid}, but another user created it: remove it, or choose another folder with --data-dir`,
    );
}

export function isOwnSubfolder(folder: string): boolean {
  return basename(folder) === nameFor(process.getuid?.() ?? 0) && ownFolderIn(dirname(folder)) === folder;
}

/** Creates missing parents too. Throws if another user created it first in a shared folder. */
export function makeOwnFolder(folder: string): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  isOwnSubfolder(folder);
}
