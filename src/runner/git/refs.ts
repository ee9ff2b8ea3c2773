/** The possible meanings of a `commit_ref`, and where to look for them in a mirror, best first. */
export interface WantedRef {
  asked: string;
  /** A full SHA always names the same commit: if the mirror has it, the remote is not asked. */
  fullSha: string | undefined;
  places: readonly Place[];
  /** Outside branches and tags, such as `refs/pull/7/head`: it is requested separately. */
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

const longest = 512;
const shortestSha = 7; // as git prints it; a shorter text is more often a mistyped name than a commit

/** Undefined for a text that cannot name a branch, a tag or a commit, such as git's own expressions like `main~3`. */
export function parseCommitRef(asked: string): WantedRef | undefined {
  const fullSha = /^[0-9a-f]{40}$/i.test(asked) ? asked.toLowerCase() : undefined;
  if (fullSha !== undefined) return { asked, fullSha, places: [{ kind: 'sha', name: fullSha }] };
  if (!isRefName(asked)) return undefined;
  if (asked.startsWith('refs/') && !/^refs\/(heads|tags)\//.test(asked)) {
    return { asked, fullSha, places: [{ kind: 'other', name: specialRef }], special: asked };
  }
  return { asked, fullSha, places: placesOf(asked) };
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

/** The rules of git-check-ref-format, so that a name can stand in a refspec or on git's standard input. */
export function isRefName(name: string): boolean {
  if (name === '' || name === '@' || name.length > longest || name.startsWith('-')) return false;
  if (/[\s\p{Cc}~^:?*[\\]|\.\.|@\{|\/\/|^\/|[/.]$/u.test(name)) return false;
  return name.split('/').every((part) => !part.startsWith('.') && !part.endsWith('.lock'));
}
