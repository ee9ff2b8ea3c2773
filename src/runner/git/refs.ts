import { isRefName } from '../../shared/domain/ref-names.ts';

/** The possible meanings of a `commit_ref`, best first. */
export interface WantedRef {
  asked: string;
  /** A full SHA always names the same commit, so a mirror that has it may do without the remote (obtain.ts). */
  fullSha: string | undefined;
  candidates: readonly RefCandidate[];
  /** The ref that reached the commit when the server got it; it may have moved since. */
  by?: string;
  /** Another commit, by its full SHA, that is needed with it. */
  with?: string;
  /** The mirror must have the branches as they are now. */
  isFresh?: boolean;
  /** Outside branches and tags, such as `refs/pull/7/head`: it is requested separately. */
  special?: string;
}

export type RefKind = 'branch' | 'tag' | 'sha' | 'other';

export interface RefCandidate {
  kind: RefKind;
  name: string;
}

/** The mirror's ref for the tip of the remote's default branch. */
export const remoteHead = 'refs/headrace/remote/HEAD';
/** The default branch of a mirror while none is known. No remote has this branch by accident. */
export const nobodysBranch = 'headrace';
export const specialRef = 'refs/headrace/special';

const shortestSha = 7; // as git prints it; a shorter text is more often a mistyped name than a commit

/** Undefined if the text cannot name a branch, a tag or a commit, such as git's own expressions like `main~3`. */
export function parseCommitRef(asked: string, by = ''): WantedRef | undefined {
  if (by !== '') return parseBoth(asked, by);
  const fullSha = /^[0-9a-f]{40}$/i.test(asked) ? asked.toLowerCase() : undefined;
  if (fullSha !== undefined) return { asked, fullSha, candidates: [{ kind: 'sha', name: fullSha }] };
  if (!isRefName(asked)) return undefined;
  if (asked.startsWith('refs/') && !isBranchOrTag(asked)) {
    return { asked, fullSha, candidates: [{ kind: 'other', name: specialRef }], special: asked };
  }
  return { asked, fullSha, candidates: candidatesOf(asked) };
}

/** A commit, perhaps with a short SHA, and the ref that reaches it. Here `asked` can only be a SHA. */
function parseBoth(asked: string, by: string): WantedRef | undefined {
  if (!/^[0-9a-f]{7,40}$/i.test(asked) || !isRefName(by)) return undefined;
  const sha = asked.toLowerCase();
  return { asked, by, fullSha: sha.length === 40 ? sha : undefined, candidates: [{ kind: 'sha', name: sha }] };
}

/** Every fetch brings branches and tags; other refs are requested one by one. */
export function isBranchOrTag(ref: string): boolean {
  return /^refs\/(heads|tags)\//.test(ref);
}

function candidatesOf(asked: string): RefCandidate[] {
  if (asked === 'HEAD') return [{ kind: 'branch', name: remoteHead }];
  if (asked.startsWith('refs/heads/')) return [{ kind: 'branch', name: asked }];
  if (asked.startsWith('refs/tags/')) return [{ kind: 'tag', name: asked }];
  const candidates: RefCandidate[] = [
    { kind: 'branch', name: `refs/heads/${asked}` },
    { kind: 'tag', name: `refs/tags/${asked}` },
  ];
  const looksLikeSha = asked.length >= shortestSha && asked.length < 40 && /^[0-9a-f]+$/i.test(asked);
  if (looksLikeSha) candidates.push({ kind: 'sha', name: asked.toLowerCase() });
  return candidates;
}
