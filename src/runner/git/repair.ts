import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { pathExists } from '../../shared/lib/path-exists.ts';
import { removeTree } from '../../shared/lib/remove-tree.ts';
import { GitError } from './git.ts';
import { brokenCopy, freshCopy, whileLocked, writeTo, type Mirror } from './mirror.ts';
import { update, type Remote } from './remote.ts';
import type { Session } from './session.ts';
import type { Sessions } from './sessions.ts';
import { mirrorOf, reach, reason, type GitDeps, type Source } from './sources.ts';

/** If the mirror is damaged, fetches all of it again and reruns `work`. */
export async function withRepair<T>(deps: GitDeps, source: Source, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!isDamage(error)) throw error;
  }
  const mirror = mirrorOf(deps, source);
  const { narrator, signal } = source;
  await whileLocked(mirror, narrator, signal, () =>
    reach(deps, source, (remote) => rebuild(deps.sessions, mirror, remote)),
  );
  try {
    return await work();
  } catch (error) {
    if (!isDamage(error)) throw error;
    // A new mirror fails too, so the remote has the same data.
    narrator.line(error.output);
    throw reason(source, 'malformed_repository');
  }
}

function isDamage(error: unknown): error is GitError {
  return error instanceof GitError && error.mayBeDamage;
}

/** Fetches everything into a new mirror. Only then removes the old one, because the cause may be elsewhere. */
async function rebuild(sessions: Sessions, mirror: Mirror, remote: Remote): Promise<void> {
  const { narrator, signal } = remote;
  narrator.line('The copy of the repository on this runner is damaged. Fetching all of it again.');
  const fresh = { ...mirror, gitDir: join(mirror.folder, freshCopy) };
  const broken = join(mirror.folder, brokenCopy);
  const replace = async (session: Session): Promise<void> => {
    await update(session, remote);
    if (await pathExists(mirror.gitDir)) await rename(mirror.gitDir, broken);
    await rename(fresh.gitDir, mirror.gitDir);
    await removeTree(broken);
  };
  try {
    await writeTo(sessions, fresh, { signal, way: remote.way('git-upload-pack') }, replace, async () => {});
  } catch (error) {
    // If an empty mirror fails too, the remote is the cause.
    throw isDamage(error) ? remote.failure('remote_failed') : error;
  }
}
