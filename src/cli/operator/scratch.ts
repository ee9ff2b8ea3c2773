import { lstatSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { openOwnFolder, type OwnFolder } from '../../shared/lib/own-folder.ts';
import { removeTree } from '../../shared/lib/remove-tree.ts';
import { foldersOf } from '../../runner/leftovers.ts';
import { openState } from '../../runner/sandbox/state.ts';

/** For one short-lived runner, below a folder that several share on a machine. */
export async function openScratch(base: string, log: (message: string) => void): Promise<OwnFolder> {
  mkdirSync(base, { recursive: true, mode: 0o711 });
  refuseStrangers(base);
  const clear = async (path: string): Promise<void> => {
    const { sandboxes, gitSandboxes } = foldersOf(join(path, 'remote-runner'));
    for (const sandboxFolder of [sandboxes, gitSandboxes]) await (await openState(sandboxFolder, log)).close();
    await removeTree(path);
  };
  return openOwnFolder(base, { prefix: 'headrace-runner-', mode: 0o711, clear, log });
}

/** Anyone who can write there could replace files that the runner relies on. */
function refuseStrangers(base: string): void {
  const { uid, mode } = lstatSync(base);
  const isOwnFolder = uid === process.getuid?.() && (mode & 0o022) === 0;
  if (!isOwnFolder || !lstatSync(base).isDirectory())
    throw new Error(`${base} must be a folder that belongs to the runner's user and that no other user can write to`);
}
