import type { Changes, Comparison } from '../../shared/protocol/index.ts';
import { changedFiles, hasCommit, type KnownCommit } from './commits.ts';
import { expectSuccess } from './git.ts';
import { tipsOf } from './known-refs.ts';
import { remoteHead } from './refs.ts';
import type { Session } from './session.ts';

/** The empty tree, which git knows without storing it, by the length of a repository's hashes. */
const emptyTrees: Readonly<Record<number, string>> = {
  40: '4b825dc642cb6eb9a060e54bf8d69288fbee4904',
  64: '6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321',
};

/**
 * `branch` is the pushed branch, if any. Returns undefined if the comparison with the first parent applies, which the
 * commit has already.
 */
export async function changesOf(
  session: Session,
  commit: KnownCommit,
  compare: Comparison,
  branch: string | null,
): Promise<Changes | undefined> {
  const { sha } = commit;
  if ('asked' in compare && commit.onDefault) return undefined;
  if ('before' in compare && (await hasCommit(session, compare.before)))
    return between(session, compare.before, sha, `what ${branch ?? 'the branch'} had before`);
  const left = 'leaving' in compare ? compare.leaving : null;
  // A new default branch did not begin from another branch.
  const isFirst = 'leaving' in compare && left === null && branch !== null && branch === commit.defaultBranch;
  if (isFirst) return between(session, null, sha, 'nothing: the branch is new');
  const target = `refs/heads/${left}`;
  const tips = await tipsOf(session, left === null ? [remoteHead] : [target, remoteHead]);
  const name = tips.has(target) ? left : 'the default branch';
  const tip = tips.get(target) ?? tips.get(remoteHead);
  if (tip === undefined || !(await hasCommit(session, tip))) return undefined;
  const found = await session.git(['merge-base', tip, sha]);
  if (found.status === 1) return between(session, null, sha, `nothing: it has no commit in common with ${name}`);
  const base = expectSuccess('looking for a merge base', found).stdout.toString().trim();
  return between(session, base, sha, `the merge base with ${name}`);
}

async function between(session: Session, base: string | null, sha: string, comparedWith: string): Promise<Changes> {
  const { files } = await changedFiles(session, sha, base ?? emptyTrees[sha.length]);
  return { base, comparedWith, files };
}
