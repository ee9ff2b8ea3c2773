import type { CommitRow } from '../db/schema.ts';

/**
 * What comes from a fork was written by somebody who cannot write to the repository, so it must not see what the project
 * keeps secret. Whether a commit comes from one is not for whoever asks to say: a commit that is on no branch and has no
 * tag of the project's own repository was put there by somebody else, over a ref such as `refs/pull/7/head`, whoever asks
 * for it and in whatever way. Once it is merged it is on a branch, and one like all others.
 */
export const forkPolicies = ['without_secrets', 'approval', 'never'] as const;
export type ForkPolicy = (typeof forkPolicies)[number];

export function isForeign({ branches, tags }: Pick<CommitRow, 'branches' | 'tags'>): boolean {
  return [branches, tags].every((list) => (JSON.parse(list) as string[]).length === 0);
}
