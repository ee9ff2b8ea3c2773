import { pathExists } from '../../shared/lib/path-exists.ts';
import { choose, commitAt, findCandidates, type FoundCommit } from './candidates.ts';
import { descends, hasCommit } from './commits.ts';
import { FetchError } from './failures.ts';
import { GitError } from './git.ts';
import type { WantedMerge } from './merge.ts';
import { noteUse, whileLocked, writeTo, type Mirror } from './mirror.ts';
import { notFound } from './not-found.ts';
import { quoted } from './phrases.ts';
import { isBranchOrTag, parseCommitRef, type WantedRef } from './refs.ts';
import { fetchSpecial, update, type Remote } from './remote.ts';
import type { Session } from './session.ts';
import { mirrorOf, reach, type GitDeps, type Source } from './sources.ts';

/** Uses a commit in the session that found it. */
export type Use<T> = (session: Session, found: FoundCommit) => Promise<T>;

/**
 * A full SHA needs no connection if the mirror has the commit, and the branch or tag that came with it reaches it
 * there. Any other request updates the mirror once. Damage is a GitError.
 */
export async function obtain<T>(deps: GitDeps, source: Source, wanted: WantedRef, use: Use<T>): Promise<T> {
  const mirror = mirrorOf(deps, source);
  const { narrator, signal } = source;
  if (wanted.fullSha !== undefined && !wanted.isFresh) {
    const known = await ifKnown(deps, mirror, signal, wanted, use);
    if (known !== undefined) {
      await noteUse(mirror);
      return known.result;
    }
  }
  return whileLocked(mirror, narrator, signal, async () => {
    await noteUse(mirror);
    // The connection is opened under the lock, because it would get old during the wait for it.
    return reach(deps, source, (remote) =>
      writeTo(
        deps.sessions,
        mirror,
        { signal, way: remote.way('git-upload-pack') },
        (session) => bring(session, remote, source, wanted),
        use,
      ),
    );
  });
}

/** A commit that a fetch found. A merge exists on runners only, so the two commits that it merges are wanted. */
export function wantedCommit({
  sha,
  fetchRef,
  merge,
}: {
  sha: string;
  fetchRef?: string;
  merge?: WantedMerge;
}): WantedRef {
  const wanted = parseCommitRef(merge?.head ?? sha, fetchRef);
  if (wanted === undefined) throw new FetchError('invalid_ref', `${fetchRef} is not the name of a ref.`);
  return { ...wanted, ...(merge && { with: merge.base }) };
}

async function bring(session: Session, remote: Remote, source: Source, wanted: WantedRef): Promise<FoundCommit> {
  await update(session, remote);
  let found = wanted.special === undefined ? await findCandidates(session, wanted.candidates) : [];
  for (const special of specialsOf(wanted)) {
    if (found.length > 0) break;
    if (await fetchSpecial(session, remote, special)) found = await findCandidates(session, wanted.candidates);
  }
  const chosen = choose(wanted, found);
  if (chosen === undefined) throw await notFound(session, wanted, source.address.url);
  if (!(await hasOther(session, wanted)) && !(await fetchSpecial(session, remote, wanted.with ?? ''))) {
    const message = `${source.address.url} no longer has commit ${wanted.with}, which the merge needs. Request the build again.`;
    throw new FetchError('ref_not_found', message);
  }
  if (!(await isLedTo(session, wanted, chosen.sha))) {
    source.narrator.line(`${quoted(wanted.by ?? '')} no longer contains this commit: it was moved or deleted since.`);
  }
  return chosen;
}

async function hasOther(session: Session, { with: other }: WantedRef): Promise<boolean> {
  return other === undefined || hasCommit(session, other);
}

/** If the commit is missing: the ref that reaches it, and then the commit itself. */
function specialsOf({ special, by, fullSha }: WantedRef): string[] {
  const ref = special ?? (by !== undefined && !isBranchOrTag(by) ? by : undefined);
  return [ref, special === undefined ? fullSha : undefined].filter((what) => what !== undefined);
}

/** Whether the branch or tag that came with a commit reaches it, as far as the mirror knows. */
async function isLedTo(session: Session, { by }: WantedRef, sha: string): Promise<boolean> {
  if (by === undefined || !isBranchOrTag(by)) return true;
  const tip = await commitAt(session, by);
  return tip !== undefined && (await descends(session, tip, sha));
}

async function ifKnown<T>(
  { sessions }: GitDeps,
  mirror: Mirror,
  signal: AbortSignal,
  wanted: WantedRef,
  use: Use<T>,
): Promise<{ result: T } | undefined> {
  if (!(await pathExists(mirror.gitDir, 'directory'))) return undefined;
  return sessions.use({ directory: mirror.gitDir, access: 'read', signal }, async (session) => {
    const findPresent = async (): Promise<FoundCommit | undefined> => {
      const [found] = await findCandidates(session, wanted.candidates);
      const isUsable = found !== undefined && (await isLedTo(session, wanted, found.sha));
      return isUsable && (await hasOther(session, wanted)) ? found : undefined;
    };
    const found = await findPresent().catch((error: unknown) => {
      if (error instanceof GitError) return undefined; // the following fetch handles the damage
      throw error;
    });
    return found === undefined ? undefined : { result: await use(session, found) };
  });
}
