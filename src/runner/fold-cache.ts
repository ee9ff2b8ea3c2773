import type { FoldOrder } from '../protocol/index.ts';
import type { JobRunner } from './job-runner.ts';
import { packAsOne } from './suite-cache.ts';

/** Packs all layers of a cache as one, and stores it on the server and here. A cache that cannot be folded stays as it is. */
export const foldCache: JobRunner<FoldOrder> = async (services, order, { id, signal }) => {
  const { caches, sandboxes, log } = services;
  if (!sandboxes.hasLayers) return { kind: 'exited', status: 1 };
  const { projectId: project, layers, savesAs: name, mostBytes: most } = order;
  try {
    using taken = await caches.take(project, layers, signal);
    await using making = await caches.begin();
    const layer = await packAsOne(services, { id, project, name, most, signal }, making.folder, taken.trees);
    return layer ? { kind: 'exited', status: 0, cache: [layer] } : { kind: 'exited', status: 1 };
  } catch (error) {
    signal.throwIfAborted();
    log(`a cache was not folded: ${error instanceof Error ? error.message : String(error)}`);
    return { kind: 'exited', status: 1 };
  }
};
