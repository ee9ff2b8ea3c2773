/** What a person may mean by a `commit_ref`, and where to look for it in a mirror, best first. */
export interface WantedRef {
  asked: string;
  /** A full SHA names one commit for ever: if the mirror has it, nobody needs to be asked. */
  fullSha: string | undefined;
  places: readonly Place[];
  /** Outside branches and tags, such as `refs/pull/7/head`: it has to be asked for by itself. */
  special?: string;
}

export type RefKind = 'branch' | 'tag' | 'sha' | 'other';

export interface Place {
  kind: RefKind;
  /** What git calls it inside the mirror. */
  name: string;
}

/** Where the mirror keeps what the remote's HEAD points to, that is, the tip of its default branch. */
export const remoteHead = 'refs/headrace/remote/HEAD';
/** Where it keeps what was last asked for outside branches and tags. */
export const specialRef = 'refs/headrace/special';

const longest = 512;
const shortestSha = 7; // what git itself prints; less is a name mistyped more often than a commit

/** Undefined for what cannot name a branch, a tag or a commit, among it git's own expressions like `main~3`. */
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
