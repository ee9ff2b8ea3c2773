import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { sweepTree } from '../../shared/lib/remove-tree.ts';
import { foldersOf } from '../../runner/leftovers.ts';
import { extentsOf, firstOwnId, hasOwnIds } from '../../runner/sandbox/own-ids.ts';
import { idsOfRun } from '../../runner/sandbox/types.ts';
import { holdRange, rangesOf, type Range } from './subordinate-ids.ts';

/**
 * The range that owns the files in a runner's folder. Without it, the owner is the runner's user, or root's numbers.
 */
const noteFile = 'user-ids';

/**
 * Reserves a range of the user IDs in this runner's namespace for the process's life: the range of its folder's files,
 * or the first free one. Returns its first ID inside the namespace. Undefined without such ranges.
 */
export async function takeOwnIds(
  folder: string,
  { whyOneId, log }: { whyOneId: string | undefined; log: (message: string) => void },
): Promise<number | undefined> {
  const file = join(folder, noteFile);
  const noted = existsSync(file) ? readFileSync(file, 'utf8').trim() : undefined;
  if (!hasOwnIds()) {
    if (noted === undefined) return undefined;
    if (process.getuid?.() !== 0) throw lost(folder, noted, whyOneId);
    await discard(folder, log);
    rmSync(file);
    return undefined;
  }
  const [uids, gids] = ['uid_map', 'gid_map'].map((map) => {
    const { outside = 0, count = 0 } = extentsOf(map)[1] ?? {};
    return { first: outside, count };
  }) as [Subordinate, Subordinate];
  const ranges = rangesOf({ uids, gids });
  // Root of a container has them without that file (own-namespace.ts).
  const source = extentsOf('uid_map')[0]?.outside === 0 ? '' : ' (/etc/subuid)';
  const usable = noted === undefined ? ranges : ranges.filter((range) => nameOf(range) === noted);
  if (noted !== undefined && usable.length === 0) throw lost(folder, noted);
  for (const range of usable) {
    if (!(await holdRange(range))) continue;
    if (noted === undefined) {
      await discard(folder, log);
      writeFileSync(file, `${nameOf(range)}\n`, { mode: 0o600 });
    }
    log(
      `builds in images have ${idsOfRun} user IDs, from ${range.uid} on${source}; those that run here at once share them`,
    );
    return firstOwnId + range.uid - uids.first;
  }
  throw new Error(`the user IDs ${usable.map(nameOf).join(', ')} of /etc/subuid are in use by another runner`);
}

type Subordinate = Parameters<typeof rangesOf>[0]['uids'];

const nameOf = ({ uid, gid }: Range): string => `${uid}:${gid}`;

function lost(folder: string, noted: string, why = '/etc/subuid assigns other IDs'): Error {
  return new Error(
    `files in ${folder} belong to the user IDs ${noted}, which this runner does not have now (${why}): give it these again, or remove that folder as root`,
  );
}

/** Retained data belong to other users than future builds. All of it can be fetched or made again. */
async function discard(folder: string, log: (message: string) => void): Promise<void> {
  const { software, images, caches, files, serviceData, kept } = foldersOf(folder);
  for (const path of [software, images, caches, files, serviceData, kept]) await sweepTree(path, log);
}
