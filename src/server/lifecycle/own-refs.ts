import type { BuildRequestRow, CommitRow } from '../db/schema.ts';

/**
 * The refs of the project's own repository that a request stands for, by their full names. What uses secrets that are
 * limited to refs goes by these. They are what the fetch found in the repository, whatever the request, the file of the
 * commit or a forge says.
 */
type Asked = Pick<BuildRequestRow, 'commit_ref' | 'event' | 'pull_request' | 'from_fork' | 'fetch_ref' | 'fetched_as'>;

/**
 * A request for a branch or a tag stands for that one alone. A SHA without a ref, which is also what a deploy has,
 * stands for the branches that the commit is on. A pull request and a fork stand for none.
 */
export function ownRefs(request: Asked, { branches }: Pick<CommitRow, 'branches'>): string[] {
  const { event, pull_request: pull, from_fork: fork, fetch_ref: by, fetched_as: ref } = request;
  if (fork === 1 || pull !== null || event === 'pull_request') return [];
  if (ref !== '') return [ref];
  return by === '' && isSha(request) ? branchesIn(branches) : [];
}

export function branchesIn(branches: string): string[] {
  return (JSON.parse(branches) as string[]).map((branch) => `refs/heads/${branch}`);
}

const isSha = ({ commit_ref: ref }: Asked): boolean => /^[0-9a-f]{7,40}$/i.test(ref);

/** Whether a known commit is on the branch, or has the tag, that the ref names. */
export function isOn({ branches, tags }: Pick<CommitRow, 'branches' | 'tags'>, ref: string): boolean {
  const [, kind, name = ''] = /^refs\/(heads|tags)\/(.*)$/s.exec(ref) ?? [];
  return kind === undefined || (JSON.parse(kind === 'heads' ? branches : tags) as string[]).includes(name);
}

/** `found` is the ref that the fetch found the commit by. A ref that came with a SHA counts only if it leads there. */
export function fetchedAs(
  { fetch_ref: by }: Pick<BuildRequestRow, 'fetch_ref'>,
  commit: Pick<CommitRow, 'branches' | 'tags'>,
  found: string | null,
): string {
  if (by === '') return found ?? '';
  return found === by || isOn(commit, by) ? by : '';
}
