import { isRefName } from '../../lib/ref-names.ts';

/** What a person may mean by a `commit_ref`, and where to look for it in a mirror, best first. */
export interface WantedRef {
  asked: string;
  /** A full SHA always names the same commit: if the mirror has it, the remote is not asked. */
  fullSha: string | undefined;
  places: readonly Place[];
  /** The ref that led to the commit when it was told of; it may have been moved since. */
  by?: string;
  /** Outside branches and tags, such as `refs/pull/7/head`: it has to be asked for by itself. */
  special?: string;
}

export type RefKind = 'branch' | 'tag' | 'sha' | 'other';

export interface Place {
  kind: RefKind;
  /** Its name inside the mirror. */
  name: string;
}

/** Where the mirror stores the commit of the remote's HEAD, that is, the tip of its default branch. */
export const remoteHead = 'refs/headrace/remote/HEAD';
/** Where it stores the last requested commit outside branches and tags. */
export const specialRef = 'refs/headrace/special';

const shortestSha = 7; // what git itself prints; less is a name mistyped more often than a commit

/** Undefined for what cannot name a branch, a tag or a commit, among it git's own expressions like `main~3`. */
export function parseCommitRef(asked: string, by = ''): WantedRef | undefined {
  if (by !== '') return parseBoth(asked, by);
  const fullSha = /^[0-9a-f]{40}$/i.test(asked) ? asked.toLowerCase() : undefined;
  if (fullSha !== undefined) return { asked, fullSha, places: [{ kind: 'sha', name: fullSha }] };
  if (!isRefName(asked)) return undefined;
  if (asked.startsWith('refs/') && !isBranchOrTag(asked)) {
    return { asked, fullSha, places: [{ kind: 'other', name: specialRef }], special: asked };
  }
  return { asked, fullSha, places: placesOf(asked) };
}

/** A commit, of which the SHA may be short, with the ref that leads to it: no name is looked for. */
function parseBoth(asked: string, by: string): WantedRef | undefined {
  if (!/^[0-9a-f]{7,40}$/i.test(asked) || !isRefName(by)) return undefined;
  const sha = asked.toLowerCase();
  return { asked, by, fullSha: sha.length === 40 ? sha : undefined, places: [{ kind: 'sha', name: sha }] };
}

/** Branches and tags come with every fetch; other refs are asked for one by one. */
export function isBranchOrTag(ref: string): boolean {
  return /^refs\/(heads|tags)\//.test(ref);
}

function placesOf(asked: string): Place[] {
  if (asked === 'HEAD') return [{ kind: 'branch', name: remoteHead }];
  if (asked.startsWith('refs/heads/')) return [{ kind: 'branch', name: asked }];
  if (asked.startsWith('refs/tags/')) return [{ kind: 'tag', name: asked }];
  const places: Place[] = [
    { kind: 'branch', name: `refs/heads/${asked}` },
    { kind: 'tag', name: `refs/tags/${asked}` },
  ];
  const looksLikeSha = asked.length >= shortestSha && asked.length < 40 && /^[0-9a-f]+$/i.test(asked);
  if (looksLikeSha) places.push({ kind: 'sha', name: asked.toLowerCase() });
  return places;
}
