import type { Blobs } from '../db/blobs.ts';
import type { Database } from '../db/open.ts';

/** What is stored is referred to within moments; this leaves room for a server that stops in between. */
const hour = 60 * 60 * 1000;

/**
 * Removes the blobs that nothing refers to any more: archives and results that were replaced and that nobody is pinned
 * to, logs of what was deleted.
 */
export async function collectBlobs(db: Database, blobs: Blobs, age = hour): Promise<number> {
  return blobs.collect(age, async (digests) => {
    const wanted = new Set<string>();
    for (let at = 0; at < digests.length; at += 500) {
      const some = digests.slice(at, at + 500);
      for (const digest of await referredTo(db, some)) wanted.add(digest);
    }
    return wanted;
  });
}

async function referredTo({ read }: Database, digests: string[]): Promise<string[]> {
  const logs = await read.selectFrom('logs').select('blob').where('blob', 'in', digests).execute();
  const archives = await read.selectFrom('dependencies').select('archive').where('archive', 'in', digests).execute();
  const results = await read.selectFrom('dependencies').select('result').where('result', 'in', digests).execute();
  const pins = await read.selectFrom('dependency_pins').select('digest').where('digest', 'in', digests).execute();
  const all = [
    ...logs.map((row) => row.blob),
    ...archives.map((row) => row.archive),
    ...results.map((row) => row.result),
    ...pins.map((row) => row.digest),
  ];
  return all.filter((digest) => digest !== null);
}
