import type { CacheOrder, CacheTree, SuiteOrder } from '../shared/protocol/index.ts';
import { lentFilesFolder } from '../shared/domain/files-from.ts';
import { prefetch } from '../shared/lib/prefetch.ts';
import { imageBuild, refuseImageBuilds } from './image-builds.ts';
import { inImage } from './images/images.ts';
import type { RunnerDeps, Task } from './job-runner.ts';
import { oneIdWords } from './one-id.ts';
import { withAccess } from './repository-access.ts';
import { basisOf, findStart } from './step-starts.ts';
import { openSuiteCache } from './suite-cache.ts';
import { overCache, takeFiles, takeLent, whoRunsOver } from './suite-files.ts';
import { takeOwn } from './taken-files.ts';

interface Standing extends Pick<Task, 'id' | 'signal' | 'spans'> {
  /** Writes to the build's log. */
  print: (text: string) => Promise<void>;
  /** Takes git's output, which belongs to the fetch's log. */
  keepOutput: (text: string | Buffer) => void;
}

export type Ground = Awaited<ReturnType<typeof standOn>>;

/** Gets a build's files, dependencies, image and cache. They are held until the result is disposed of. */
export async function standOn(deps: RunnerDeps, order: SuiteOrder, { id, signal, spans, print, keepOutput }: Standing) {
  const { checkouts, sandboxes, dependencyCache, images, link } = deps;
  await using held = new AsyncDisposableStack();
  if (order.imageBuilds) refuseImageBuilds(sandboxes, deps.forbidsImageBuilds);
  const source = withAccess(link, order.source, { id, signal });
  // The image is fetched while the workspace is prepared.
  let aboutImage = '';
  const { image: wanted } = order;
  const writeLog = (text: string): void => void (aboutImage += text);
  const coming = wanted && prefetch((ending) => images.take(wanted, { id, writeLog, signal: ending }), signal);
  held.use(coming);
  spans.begin('checkout');
  const layered = held.use(new DisposableStack());
  const holding = { held: layered, signal };
  const operators = deps.operatorVariables();
  // Only a start at a later step needs the image this early.
  const basis = async (): Promise<string> => basisOf(order, (await coming?.result)?.digest, operators);
  const found = order.from && (await findStart(deps, order, await basis(), holding));
  const start = found?.start;
  const files = start?.layers ?? (await takeFiles(deps, order, holding));
  const checkout = files.isWhole ? undefined : held.use(await checkouts.of(source, order, keepOutput, signal));
  const lent = await takeLent(deps, order, checkout?.path ?? '', { held: layered, signal });
  if (order.software.length > 0) spans.begin('software');
  const software = held.use(await dependencyCache.take(order.software, signal));
  // Printed only now: if a dependency cannot be fetched, the build restarts, and would print this twice.
  if (found) await print(found.words);
  for (const miss of checkout?.misses ?? []) await print(`${miss}\n`);
  if (order.files) await print(`This starts with the files of ${order.files.suite}.\n`);
  if (order.lent && order.lent.length > 0) {
    const suites = [...new Set(order.lent.map(({ suite }) => suite))].join(', ');
    await print(`The files of ${suites} are in ${lentFilesFolder}.\n`);
  }
  if (wanted) spans.begin('image');
  const image = await coming?.result;
  if (image) await print(aboutImage + (sandboxes.hasManyUsers ? '' : oneIdWords));
  spans.end();
  const waiting = held.use(deps.outbox.begin(id, order.source.projectId));
  const cache = await openSuiteCache(deps, start ? withCache(order.cache, start.cache) : order.cache, {
    id,
    source: order.source,
    sha: order.sha,
    checkout: checkout?.path ?? files.workspace[0] ?? '',
    isOwnCheckout: !order.files,
    writeLog: print,
    waiting,
    signal,
  });
  held.use(cache);
  const { workspace, home } = start ? files : overCache(files, cache?.tree);
  const [lowest = '', ...over] = [...(checkout ? [checkout.path] : []), ...workspace];
  const inside = image && (await inImage(image, order.root));
  const making = order.imageBuilds && imageBuild(inside, order.imageBuilds);
  const user = making
    ? making.user
    : (inside?.user ?? whoRunsOver({ hasOneOwner: files.hasOneOwner && lent.hasOneOwner }, sandboxes));
  const taking = files.hasOneOwner || !sandboxes.hasLayers || (user?.uid === 0 && user.gid === 0) ? undefined : user;
  const owning = taking && held.use(await deps.trees.begin());
  const packing = { id: `${id}-owners`, sandboxes, signal };
  const layers = { workspace: [lowest, ...over], home };
  const changes = owning && (await takeOwn(packing, { layers, user: taking, making: owning, print }));
  const still = held.move();
  return {
    source,
    start,
    basis,
    operators,
    checkout,
    software,
    image,
    inside,
    making,
    cache,
    waiting,
    user,
    home,
    lent: lent.mounts,
    tmp: files.tmp,
    imageLayers: { below: [], above: files.image },
    workspace: { checkout: lowest, over },
    changes: changes ?? { workspace: start ? undefined : cache?.changes },
    tops: { workspace: files.workspace.at(-1), home: files.home.at(-1) },
    [Symbol.asyncDispose]: () => still.disposeAsync(),
  };
}

/**
 * The files of an earlier build lie over the cache that it began with. This build saves none: what the earlier steps
 * changed is not among its own changes.
 */
function withCache(order: CacheOrder | undefined, cache: CacheTree | undefined): CacheOrder | undefined {
  const { found: _found, savesAs: _savesAs, ...rest } = order ?? {};
  return order && ({ ...rest, ...(cache && { found: cache }) } as CacheOrder);
}
