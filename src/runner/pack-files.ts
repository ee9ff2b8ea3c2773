import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isNoSpace } from '../shared/lib/disk-reserve.ts';
import { sourceFile } from '../shared/lib/source-files.ts';
import type { PackOrder } from '../shared/protocol/index.ts';
import { pack, packedIn, packer, roots, unpack } from './cache-trees.ts';
import type { JobRunner } from './job-runner.ts';
import { quote } from '../shared/lib/shell-word.ts';
import { FilesGoneError, layersOf, oneOwner } from './suite-files.ts';
import { storeBlob } from './transfers.ts';
import type { Packing } from './tool-runs.ts';
import type { Making } from './tree-store.ts';

const lister = readFileSync(sourceFile('runner/pack-files.pl'), 'utf8');
const view = '/run/headrace/files';

/** Packs all of a build's retained files, so that another runner needs only the packed file. */
export const packFiles: JobRunner<PackOrder> = async (deps, order, { id, signal }) => {
  const { source, mostBytes: most } = order;
  using build = await deps.kept?.open(order.name, order.key);
  if (!build) return { kind: 'files_gone' };
  using held = new DisposableStack();
  try {
    const layers = await layersOf(deps, build, { held, signal });
    const repository = { ...source, privateKey: async () => source.privateKey };
    const checkout = layers.isWhole
      ? []
      : [held.use(await deps.checkouts.of(repository, build.order, () => {}, signal))];
    const all = { ...layers, workspace: [...checkout.map(({ path }) => path), ...layers.workspace] };
    await using making = await deps.trees.begin();
    const mounts = [
      ...roots.map((root) => ({ at: join(view, root), layers: [...all[root]] })),
      { at: join(view, 'facts'), writable: join(making.tree, 'facts') },
    ];
    const times = roots.map((root) => `touch -r ${root} facts/${root}`);
    const command = [`cd ${view}`, ...times, `perl -e ${quote(lister)} -- ${most}`, packer].join('\n');
    await pack({ id: `${id}-pack`, sandboxes: deps.sandboxes, signal }, making.packed, mounts, command);
    const digest = await storeBlob(deps.link, id, packedIn(making.packed), signal);
    return { kind: 'packed', digest };
  } catch (error) {
    if (error instanceof FilesGoneError) return { kind: 'files_gone' };
    if (isNoSpace(error)) return { kind: 'not_packed' };
    throw error;
  }
};

/** Unlike a cache's, these files keep their times. Also records whether all of them have one owner. */
export async function unpackFiles(packing: Packing, making: Pick<Making, 'packed' | 'tree'>): Promise<void> {
  // Unpacking does not set the times of these directories, because they existed before.
  const times = roots.map((root) => `[ ! -e facts/${root} ] || touch -r facts/${root} ${root}`);
  const others = String.raw`find workspace home \( ! -uid 0 -o ! -gid 0 \) -print -quit`;
  const note = `rm -rf ${oneOwner}; [ -n "$(${others})" ] || : >${oneOwner}`;
  await unpack(packing, making, ['cd tree', ...times, note].join('\n'));
}
