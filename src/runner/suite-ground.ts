import type { Access, Link, SuiteOrder } from '../shared/protocol/index.ts';
import { prefetch } from '../shared/lib/prefetch.ts';
import { imageBuild, refuseImageBuilds } from './image-builds.ts';
import { inImage } from './images/images.ts';
import type { RunnerServices, Task } from './job-runner.ts';
import { oneIdWords } from './one-id.ts';
import { untilAnswered } from './retry.ts';
import { openSuiteCache } from './suite-cache.ts';
import { overCache, takeFiles, whoRunsOver } from './suite-files.ts';
import { takeOwn } from './taken-files.ts';

interface Standing extends Pick<Task, 'id' | 'signal' | 'steps'> {
  /** For the log of the build. */
  print: (text: string) => Promise<void>;
  /** For what git says, which belongs to the log of the fetch. */
  keepOutput: (text: string | Buffer) => void;
}

export type Ground = Awaited<ReturnType<typeof standOn>>;

/** Gets what a build begins with: its files, software, image and cache. They are held until this is disposed of. */
export async function standOn(
  services: RunnerServices,
  order: SuiteOrder,
  { id, signal, steps, print, keepOutput }: Standing,
) {
  const { checkouts, sandboxes, dependencyCache, images, link } = services;
  await using held = new AsyncDisposableStack();
  if (order.imageBuilds) refuseImageBuilds(sandboxes, services.forbidsImageBuilds);
  const access = (): Promise<Access> => accessFor(link, id, signal);
  const source = {
    ...order.source,
    privateKey: async () => (await access()).privateKey,
    credential: async () => (await access()).credential,
  };
  // The registry is queried while the workspace is prepared.
  let aboutImage = '';
  const { image: wanted } = order;
  const writeLog = (text: string): void => void (aboutImage += text);
  const coming = wanted && prefetch((ending) => images.take(wanted, { id, writeLog, signal: ending }), signal);
  held.use(coming);
  steps.begin('checkout');
  const layered = held.use(new DisposableStack());
  const files = await takeFiles(services, order, { held: layered, signal });
  const checkout = files.isWhole ? undefined : held.use(await checkouts.of(source, order, keepOutput, signal));
  if (order.software.length > 0) steps.begin('software');
  const software = held.use(await dependencyCache.take(order.software, signal));
  // Not earlier: if a dependency cannot be fetched, the build begins again and would print this twice.
  for (const miss of checkout?.misses ?? []) await print(`${miss}\n`);
  if (order.files) await print(`This begins with the files of ${order.files.suite}.\n`);
  if (wanted) steps.begin('image');
  const image = await coming?.result;
  if (image) await print(aboutImage + (sandboxes.hasManyUsers ? '' : oneIdWords));
  steps.end();
  const waiting = held.use(services.outbox.begin(id, order.source.projectId));
  const cache = await openSuiteCache(services, order.cache, {
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
  const { workspace, home } = overCache(files, cache?.tree);
  const [lowest = '', ...over] = [...(checkout ? [checkout.path] : []), ...workspace];
  const inside = image && (await inImage(image, order.root));
  const making = order.imageBuilds && imageBuild(inside, order.imageBuilds);
  const user = making ? making.user : (inside?.user ?? whoRunsOver(files, sandboxes));
  const taking = files.hasOneOwner || !sandboxes.hasLayers || (user?.uid === 0 && user.gid === 0) ? undefined : user;
  const owning = taking && held.use(await services.trees.begin());
  const packing = { id: `${id}-owners`, sandboxes, signal };
  const layers = { workspace: [lowest, ...over], home };
  const changes = owning && (await takeOwn(packing, { layers, user: taking, making: owning, print }));
  const still = held.move();
  return {
    checkout,
    software,
    image,
    inside,
    making,
    cache,
    waiting,
    user,
    home,
    workspace: { checkout: lowest, over },
    changes: changes ?? { workspace: cache?.changes },
    tops: { workspace: files.workspace.at(-1), home: files.home.at(-1) },
    [Symbol.asyncDispose]: () => still.disposeAsync(),
  };
}

/** Requested only if the commit is missing here, and never stored. */
async function accessFor(link: Pick<Link, 'access'>, claim: string, signal: AbortSignal): Promise<Access> {
  const access = await untilAnswered(signal, () => link.access({ claim }, signal));
  if (access === undefined) throw new Error('the claim expired');
  return access;
}
