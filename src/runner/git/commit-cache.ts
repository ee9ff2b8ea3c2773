import { stat } from 'node:fs/promises';
import type { KnownCommit } from './commits.ts';
import type { Mirror } from './mirror.ts';

/** Caches data of commits until their mirror is written to. */
export interface CommitCache {
  get(mirror: Mirror, sha: string): Promise<KnownCommit | undefined>;
  fill(mirror: Mirror, sha: string, make: () => Promise<KnownCommit>): Promise<KnownCommit>;
}

const mostCached = 100;

export function commitCache(): CommitCache {
  const entries = new Map<string, { stamp: bigint; commit: KnownCommit }>();
  return {
    get: async (mirror, sha) => {
      const entry = entries.get(nameOf(mirror, sha));
      return entry !== undefined && entry.stamp === (await stampOf(mirror)) ? entry.commit : undefined;
    },
    fill: async (mirror, sha, make) => {
      const stamp = await stampOf(mirror); // before the read: a write in between makes the entry invalid
      const commit = await make();
      const name = nameOf(mirror, sha);
      entries.delete(name);
      entries.set(name, { stamp, commit });
      const oldest = entries.size > mostCached ? entries.keys().next().value : undefined;
      if (oldest !== undefined) entries.delete(oldest);
      return commit;
    },
  };
}

function nameOf(mirror: Mirror, sha: string): string {
  return `${mirror.folder}\n${sha}`;
}

/** The folder's change time shows writes, because each one creates and removes a marker there (mirror.ts). */
async function stampOf(mirror: Mirror): Promise<bigint> {
  return stat(mirror.folder, { bigint: true }).then(
    (found) => found.mtimeNs,
    () => 0n,
  );
}
