import type { CommitCache } from './commit-cache.ts';
import { descends, describe, mostFiles, type Found, type KnownCommit } from './commits.ts';
import { FetchError } from './failures.ts';
import { noteUse } from './mirror.ts';
import { inTime, mirrorOf, obtain, quoted, sourceOf, telling, withRepair } from './obtain.ts';
import type { Source, SourceRequest, Workshop } from './obtain.ts';
import { parseCommitRef, remoteHead, type RefKind } from './refs.ts';
import type { Session } from './session.ts';

export interface FetchRequest extends SourceRequest {
  /** A branch, a tag, a full or a short SHA; also `refs/heads/…`, `refs/tags/…` and `HEAD`. */
  commitRef: string;
  /** What refs pointed to when they were last built, by full name, for instance `refs/heads/main`. */
  previous?: Readonly<Record<string, string>>;
}

export interface FetchedCommit extends Omit<KnownCommit, 'likelyBranch'> {
  refKind: RefKind;
  /** The full name of the branch or tag asked for; null for a SHA. */
  ref: string | null;
  /** The branch asked for; for a tag or a SHA the branch it most likely was built for. */
  branch: string | null;
  /** The branch or tag was built before at a commit that is not in this one's history. */
  overwritten: boolean;
}

export async function fetch(workshop: Workshop, cache: CommitCache, request: FetchRequest): Promise<FetchedCommit> {
  const { say, signal } = request;
  signal.throwIfAborted();
  return telling(say, () =>
    inTime(workshop, signal, (inTimeOnly) => find(workshop, cache, { ...request, signal: inTimeOnly })),
  );
}

async function find(workshop: Workshop, cache: CommitCache, request: FetchRequest): Promise<FetchedCommit> {
  const source = sourceOf(request);
  const wanted = parseCommitRef(request.commitRef);
  if (wanted === undefined) {
    const message = `${quoted(request.commitRef)} cannot be the name of a branch, a tag or a commit.`;
    throw new FetchError('invalid_ref', message);
  }
  const mirror = mirrorOf(workshop, source);
  const cached = wanted.fullSha === undefined ? undefined : await cache.get(mirror, wanted.fullSha);
  if (cached !== undefined) {
    await noteUse(mirror);
    return finish(source, request, { refKind: 'sha', ref: null, commit: cached, overwritten: false });
  }
  source.narrator.line(`Looking for ${wanted.asked} in ${source.address.url}.`);
  return withRepair(workshop, source, () =>
    obtain(workshop, source, wanted, async (session, found) => {
      const commit = await cache.fill(mirror, found.sha, () => describe(session, found));
      const ref = fullName(found, commit);
      const overwritten = await isOverwritten(session, commit.sha, ref === null ? undefined : request.previous?.[ref]);
      return finish(source, request, { refKind: found.place.kind, ref, commit, overwritten });
    }),
  );
}

async function isOverwritten(session: Session, sha: string, before: string | undefined): Promise<boolean> {
  return before !== undefined && !(await descends(session, sha, before));
}

/** HEAD stands for the default branch. */
function fullName(found: Found, commit: KnownCommit): string | null {
  if (found.place.kind === 'sha') return null;
  if (found.place.name !== remoteHead) return found.place.name;
  return commit.likelyBranch === null ? null : `refs/heads/${commit.likelyBranch}`;
}

interface Finding {
  refKind: RefKind;
  ref: string | null;
  commit: KnownCommit;
  overwritten: boolean;
}

function finish({ narrator }: Source, request: FetchRequest, finding: Finding): FetchedCommit {
  const { refKind, ref, commit, overwritten } = finding;
  const { likelyBranch, ...known } = commit;
  const branch = refKind === 'branch' && ref !== null ? ref.replace('refs/heads/', '') : likelyBranch;
  narrator.line(`Found commit ${commit.sha}: ${commit.message.split('\n', 1)[0] ?? ''}`);
  if (commit.filesTruncated) narrator.line(`It changes more files than are recorded for rules (${mostFiles}).`);
  if (overwritten)
    narrator.line(`The history of ${quoted(request.commitRef)} was overwritten since it was last built.`);
  return { ...known, refKind, ref, branch, overwritten };
}
