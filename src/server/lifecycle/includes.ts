import type { Queries } from '../db/open.ts';
import type { BuildRequestRow, ProjectRow } from '../db/schema.ts';
import { isPinned, type FetchedInclude, type Include } from '../../shared/records/include.ts';

export type { FetchedInclude, Include };

/* Files of other projects that a request's file includes. A rerun includes the same versions. */

export function includesOf({ includes }: Pick<BuildRequestRow, 'includes'>): FetchedInclude[] {
  return JSON.parse(includes) as FetchedInclude[];
}

/** An earlier request's file cannot stand for this one if a branch may have moved since. */
export function mayHaveMoved(request: Pick<BuildRequestRow, 'includes'>): boolean {
  return includesOf(request).some((one) => !isPinned(one));
}

/** The file's includes, each with the SHA that the request already has for it. */
export function pinnedAs(wanted: readonly Include[], request: Pick<BuildRequestRow, 'includes'>): FetchedInclude[] {
  const known = includesOf(request);
  return wanted.map(({ repository, ref, path }) => {
    const same = known.find((one) => one.repository === repository && one.ref === ref && one.path === path);
    return { repository, ref, path, sha: same?.sha ?? '' };
  });
}

export async function noteIncludes(db: Queries, requestId: bigint, includes: readonly FetchedInclude[]): Promise<void> {
  const requests = db.updateTable('build_requests').set({ includes: JSON.stringify(includes) });
  await requests.where('id', '=', requestId).execute();
}

/** A branch by its full name, so that a tag of the same name is not taken. */
export function refOf(include: FetchedInclude): string {
  return include.sha || (isPinned(include) ? include.ref : `refs/heads/${include.ref}`);
}

/** Undefined for all others alike: those of other accounts, those that do not allow it, and those that do not exist. */
export async function includedProject(
  db: Queries,
  { id, owner_id: owner }: Pick<ProjectRow, 'id' | 'owner_id'>,
  { repository }: Include,
): Promise<ProjectRow | undefined> {
  const found = await db
    .selectFrom('projects')
    .selectAll()
    .where('owner_id', '=', owner)
    .where('id', '!=', id)
    .where('includable', '=', 1)
    .where((is) =>
      is.or([is('name', '=', repository), is('repository_url', '=', repository), is('clone_url', '=', repository)]),
    )
    .limit(2)
    .execute();
  return found.length === 1 ? found[0] : undefined;
}
