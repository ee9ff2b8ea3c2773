import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DiskFullError } from '../shared/lib/disk-reserve.ts';
import { messageOf } from '../shared/lib/error-code.ts';
import { sourceFile } from '../shared/lib/source-files.ts';
import { roots, type Root } from './cache-trees.ts';
import type { Identity, Job, Mount } from './sandbox/types.ts';
import { quote } from '../shared/lib/shell-word.ts';
import { runTool, type Packing } from './tool-runs.ts';
import type { Making } from './tree-store.ts';

const program = quote(readFileSync(sourceFile('runner/give-files.pl'), 'utf8'));
const view = '/run/headrace/files';

interface Wanted {
  /** All files that the build begins with. */
  layers: Record<Root, readonly string[]>;
  /** The user of the build. */
  user: Identity;
  making: Making;
  print: (text: string) => Promise<void>;
}

/**
 * Gives the build's user its files. On disk, files of the user who runs have one number, and files of every other user
 * have that user's number (sandbox/identity.ts). An earlier build that ran as root may have given files to the user who
 * runs now. Mounts cannot translate both numbers to one, so this user gets such files here.
 *
 * It happens in an overlay in a sandbox, and the build's own changes begin with the result. So every file is checked,
 * and only such files are copied. Other builds see the files unchanged.
 */
export async function takeOwn(
  packing: Packing,
  { layers, user, making, print }: Wanted,
): Promise<Job['changes'] | undefined> {
  const seen = roots.filter((root) => layers[root].length > 0);
  const mounts = seen.map((root): Mount => ({
    at: join(view, root),
    layers: [...layers[root]],
    writable: join(making.tree, root),
  }));
  const commands = seen.map((root) => `cd ${view}/${root}\nperl -e ${program} -- take ${user.uid} ${user.gid}`);
  try {
    const { ended, output } = await runTool(packing, {
      directory: making.packed,
      mounts,
      command: commands.join('\n'),
      asRoot: true,
    });
    if (ended.exitStatus !== 0) throw new Error(ended.reason ?? output.trim());
    return Object.fromEntries(seen.map((root) => [root, join(making.tree, root)]));
  } catch (error) {
    packing.signal.throwIfAborted();
    if (error instanceof DiskFullError) throw error;
    await print(`Files of other users keep their owners, because the owners could not be set: ${messageOf(error)}\n`);
    return undefined;
  }
}
