import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { lentFilesFolder } from '../shared/domain/files-from.ts';
import { expectTool, type Packing } from './tool-runs.ts';
import type { Making } from './tree-store.ts';
import type { Difference } from './git/difference.ts';

/**
 * Tools such as make compare the times of files. Files of a work tree are older than everything in a cache
 * (git/old-times.ts). So files that differ from the cache's commit, or that the cache's build changed, must become
 * newer. Files of other suites may be mounted where `.headrace` is, so it stays as it is.
 *
 * This happens in a sandbox's overlay. The upper directory of the overlay is the start of the build's changes, and the
 * shared work tree stays unchanged.
 */

const [lentTop = ''] = lentFilesFolder.split('/');

const limits = { memoryBytes: 512 * 1024 ** 2, processes: 64, timeoutMs: 10 * 60_000 };
const [view, facts] = ['/run/headrace/tree', '/run/headrace/facts'];

/** If a link changed, the files behind it become newer too. If a directory changed, all its contents become newer. */
const script = `there() { perl -0ne 'chomp; print "$_\\0" if lstat && !m{^\\./\\Q${lentTop}\\E(?:/|\\z)}'; }
touch now; cd ${view}
cat /build/changed ${facts}/changed | there >/build/all
cat /build/all /build/lessened | there | xargs -0 -r touch -h -r /build/now --
xargs -0 -r sh -c 'touch -c -r /build/now -- "$@"
find -H "$@" -mindepth 1 \\( -name .git -o -path ./${lentTop} \\) -prune -o -exec touch -h -r /build/now {} +
exit 0' sh </build/all 2>/dev/null`;

interface Wanted {
  checkout: string;
  tree: string;
  differing: Difference | undefined;
  making: Making;
}

/** Makes differing files newer than the rest, or all files if `differing` is unknown. Returns the changes' folder. */
export async function makeNewer(packing: Packing, { checkout, tree, differing, making }: Wanted): Promise<string> {
  const { changed, lessened } = differing ?? { changed: [''], lessened: [] };
  const changes = join(making.tree, 'workspace');
  for (const [name, paths] of Object.entries({ changed, lessened }))
    await writeFile(join(making.packed, name), paths.map((path) => `./${path}\0`).join(''), 'latin1');
  const mounts = [
    { at: view, layers: [checkout], writable: changes },
    { at: facts, layers: [join(tree, 'facts')] },
  ];
  const tool = { command: script, directory: making.packed, mounts };
  await expectTool({ ...packing, limits }, tool, 'times of files were not set');
  return changes;
}
