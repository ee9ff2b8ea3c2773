import type { BuildRequestRow, CommitRow } from '../db/schema.ts';

/** A request may use secrets only for refs that the fetch found, whatever a request, file or forge reports. */
type Asked = Pick<BuildRequestRow, 'commit_ref' | 'event' | 'pull_request' | 'from_fork' | 'fetch_ref' | 'fetched_as'>;

/** Only the ref of a branch or tag request. For a bare SHA, the commit's branches. None for a pull request or fork. */
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

export function isOn({ branches, tags }: Pick<CommitRow, 'branches' | 'tags'>, ref: string): boolean {
  const [, kind, name = ''] = /^refs\/(heads|tags)\/(.*)$/s.exec(ref) ?? [];
  return kind === undefined || (JSON.parse(kind === 'heads' ? branches : tags) as string[]).includes(name);
}

/** `found` is the ref that led the fetch to the commit. A ref given with a SHA must contain the commit. */
export function fetchedAs(
  { fetch_ref: by }: Pick<BuildRequestRow, 'fetch_ref'>,
  commit: Pick<CommitRow, 'branches' | 'tags'>,
  found: string | null,
): string {
  if (by === '') return found ?? '';
  return found === by || isOn(commit, by) ? by : '';
}
