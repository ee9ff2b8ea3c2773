import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isNoSpace } from '../shared/lib/disk-reserve.ts';
import { sourceFile } from '../shared/lib/source-files.ts';
import type { PackOrder } from '../shared/protocol/index.ts';
import { pack, packedIn, packer, roots, unpack, type Root } from './cache-trees.ts';
import type { JobRunner, RunnerDeps, Task } from './job-runner.ts';
import { quote } from '../shared/lib/shell-word.ts';
import { FilesGoneError, layersOf, oneOwner, tmpPart } from './suite-files.ts';
import { storeBlob } from './transfers.ts';
import type { Packing } from './tool-runs.ts';
import type { Making } from './tree-store.ts';

const lister = readFileSync(sourceFile('runner/pack-files.pl'), 'utf8');
const view = '/run/headrace/files';

/** The overlays of a run's files, by the place where it sees them. */
type Places = Record<Root, readonly string[]> & { tmp?: readonly string[] };

/** Packs files and stores them as a blob. Returns its digest. */
export async function packLayers(
  deps: Pick<RunnerDeps, 'sandboxes' | 'trees' | 'link'>,
  { id, signal }: Pick<Task, 'id' | 'signal'>,
  { tmp = [], ...layers }: Places,
  mostBytes: number,
  onAway?: (error: unknown) => void,
): Promise<string> {
  await using making = await deps.trees.begin();
  const facts = join(making.tree, 'facts');
  if (tmp.length > 0) mkdirSync(join(facts, 'tmp'));
  const mounts = [
    ...roots.map((root) => {
      const made = layers[root].length > 0 ? { layers: [...layers[root]] } : { writable: join(making.tree, root) };
      return { at: join(view, root), ...made };
    }),
    { at: join(view, 'facts'), writable: facts },
    ...(tmp.length > 0 ? [{ at: join(view, tmpPart), layers: [...tmp] }] : []),
  ];
  const times = roots.map((root) => `touch -r ${root} facts/${root}`);
  const command = [`cd ${view}`, ...times, `perl -e ${quote(lister)} -- ${mostBytes}`, packer].join('\n');
  await pack({ id: `${id}-pack`, sandboxes: deps.sandboxes, signal }, making.packed, mounts, command);
  return await storeBlob(deps.link, id, packedIn(making.packed), signal, onAway);
}

/** Packs all of a build's retained files, so that another runner needs only the packed file. */
export const packFiles: JobRunner<PackOrder> = async (deps, order, { id, signal }) => {
  const { source, mostBytes } = order;
  using build = await deps.kept?.open(order.name, order.key);
  if (!build) return { kind: 'files_gone' };
  using held = new DisposableStack();
  try {
    const layers = await layersOf(deps, build, { held, signal });
    const repository = { ...source, privateKey: async () => source.privateKey };
    const checkout = layers.isWhole
      ? []
      : [held.use(await deps.checkouts.of(repository, build.order, () => {}, signal))];
    const all = [...checkout.map(({ path }) => path), ...layers.workspace];
    const { home } = layers;
    return { kind: 'packed', digest: await packLayers(deps, { id, signal }, { workspace: all, home }, mostBytes) };
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
  const others = String.raw`find workspace home $([ ! -e ${tmpPart} ] || echo ${tmpPart}) \( ! -uid 0 -o ! -gid 0 \) -print -quit`;
  const note = `rm -rf ${oneOwner}; [ -n "$(${others})" ] || : >${oneOwner}`;
  await unpack(packing, making, ['cd tree', ...times, note].join('\n'));
}
