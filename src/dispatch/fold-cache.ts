import { putAsOne, restingCache } from '../lifecycle/cache-folding.ts';
import { layerAsSent } from './caches.ts';
import type { JobHandler } from './job-handler.ts';

/** Makes one layer of all layers of a cache. It has no log, and nobody waits for it. */
export const foldCache: JobHandler = {
  async order(context, job) {
    const cache = await restingCache(context.trx, job.subject_id);
    if (!cache || context.cacheBytes === 0) return undefined;
    return {
      kind: 'fold_cache',
      projectId: String(cache.project_id),
      layers: cache.layers.map(layerAsSent),
      savesAs: String(job.id),
      mostBytes: context.cacheBytes,
    };
  },

  outcomes: ['exited', 'cancelled'],

  async settle(context, job, outcome) {
    const [layer, ...others] = outcome.kind === 'exited' && outcome.status === 0 ? (outcome.cache ?? []) : [];
    // A runner creates a layer and cannot choose one: otherwise it could name another account's blob.
    if (!layer || others.length > 0 || layer.name !== String(job.id) || layer.digest !== job.stored_blob) return;
    const { stored_blob: digest, stored_bytes: bytes } = job;
    await putAsOne(context, job.subject_id, { build_id: job.id, digest, bytes: bytes ?? 0n });
  },

  async lose() {
    return { retry: false }; // the next save asks for it again
  },
};
