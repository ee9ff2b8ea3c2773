import type { CommitRow } from '../db/schema.ts';

/**
 * A commit from a fork was written by somebody without write access to the repository, so its builds must not see the
 * project's secrets. The request does not say whether a commit comes from a fork; the repository does. A commit that is
 * on no branch and has no tag of the project's own repository was put there by somebody else, through a ref such as
 * `refs/pull/7/head`. This holds for every request, however it was made. Once the commit is merged it is on a branch,
 * and is treated like any other.
 */
export function isForeign({ branches, tags }: Pick<CommitRow, 'branches' | 'tags'>): boolean {
  return [branches, tags].every((list) => (JSON.parse(list) as string[]).length === 0);
}
