import type { FoundCommit } from './candidates.ts';
import { GitError, linesOf, wholeOrCut } from './git.ts';
import { listRefs, refsIn } from './known-refs.ts';
import { most } from '../../shared/domain/bounds.ts';
import { boundedNames } from '../../shared/domain/commit-bounds.ts';
import type { CommitMetadata } from '../../shared/protocol/index.ts';
import { readCommitObject } from './commit-object.ts';
import { remoteHead } from './refs.ts';
import type { Session } from './session.ts';

export interface KnownCommit extends CommitMetadata {
  sha: string;
  branches: string[];
  tags: string[];
  /** Paths changed against the first parent, or against nothing. */
  files: string[];
  filesTruncated: boolean;
  /** The branch that it was most likely built for, by how it was requested; null if no branch contains it. */
  likelyBranch: { bySha: string | null; byName: string | null };
  /** Whether the default branch contains it. */
  onDefault: boolean;
  defaultBranch: string | null;
}

export async function describe(session: Session, found: FoundCommit): Promise<KnownCommit> {
  const containing = await refsContaining(session, found.sha);
  const changed = await changedFiles(session, found.sha);
  return { sha: found.sha, ...readCommitObject(found.bytes), ...containing, ...changed };
}

async function refsContaining(
  session: Session,
  sha: string,
): Promise<Pick<KnownCommit, 'branches' | 'tags' | 'likelyBranch' | 'onDefault' | 'defaultBranch'>> {
  const where = [`--contains=${sha}`, 'refs/heads', 'refs/tags', remoteHead];
  const refs = refsIn(wholeOrCut('listing branches', await session.git([...listRefs, ...where])));
  const named = (prefix: string, some = refs): string[] =>
    boundedNames(some.flatMap(({ name }) => (name.startsWith(prefix) ? name.slice(prefix.length) : [])));
  const branches = named('refs/heads/');
  const ending = new Set(
    named(
      'refs/heads/',
      refs.filter(({ tip }) => tip === sha),
    ),
  );
  const [head] = named(
    'refs/heads/',
    refs.filter(({ isDefault }) => isDefault),
  );
  const likely = (endWeighs: number): string | null =>
    best(branches, (branch) => {
      const ends = ending.has(branch) ? endWeighs : 0;
      return ends + (branch === head ? 4 : 0) + (branch === 'main' ? 2 : 0) + (branch === 'master' ? 1 : 0);
    });
  const onDefault = refs.some(({ name }) => name === remoteHead);
  return {
    branches,
    tags: named('refs/tags/'),
    // A commit that is requested by its SHA was usually just pushed, so a branch that ends in it comes first.
    likelyBranch: { bySha: likely(8), byName: likely(0.5) },
    onDefault,
    defaultBranch: onDefault ? (head ?? null) : null,
  };
}

function best(branches: readonly string[], score: (branch: string) => number): string | null {
  return branches.reduce<string | null>(
    (chosen, branch) => (chosen === null || score(branch) > score(chosen) ? branch : chosen),
    null,
  );
}

/** Compares a commit with another commit or tree, or by default with its first parent. */
export async function changedFiles(
  session: Session,
  sha: string,
  base?: string,
): Promise<Pick<KnownCommit, 'files' | 'filesTruncated'>> {
  const how = ['-r', '-z', '--root', '--diff-merges=first-parent', '--no-commit-id', '--name-only', '--no-renames'];
  const args = ['diff-tree', ...how, '--no-ext-diff', '--no-textconv', ...(base === undefined ? [] : [base]), sha];
  const finished = wholeOrCut('listing files', await session.git(args));
  const names = linesOf(finished, '\0', most.namesOfCommit + 1);
  const files = boundedNames(names);
  return { files, filesTruncated: files.length < names.length || finished.truncated };
}

/** False if the mirror does not have `ancestor`. */
export async function descends(session: Session, sha: string, ancestor: string): Promise<boolean> {
  if (sha === ancestor) return true;
  const finished = await session.git(['merge-base', '--is-ancestor', ancestor, sha]);
  if (finished.status === 0 || finished.status === 1) return finished.status === 0;
  if (await hasCommit(session, ancestor)) throw new GitError('comparing commits', finished);
  return false;
}

export async function hasCommit(session: Session, sha: string): Promise<boolean> {
  return (await session.git(['cat-file', '-e', `${sha}^{commit}`])).status === 0;
}
