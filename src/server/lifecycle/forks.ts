import type { CommitRow } from '../db/schema.ts';

/**
 * Builds of a fork's commit must not get secrets, because its author may have no write access. The repository decides
 * this, not the request: a commit on no branch or tag came in through a ref such as `refs/pull/7/head`.
 */
export function isForeign({ branches, tags }: Pick<CommitRow, 'branches' | 'tags'>): boolean {
  return [branches, tags].every((list) => (JSON.parse(list) as string[]).length === 0);
}
