import { GitError } from './git.ts';
import { rebuild, whileLocked } from './mirror.ts';
import { mirrorOf, reach, reason, type GitServices, type Source } from './sources.ts';

/** If the mirror is damaged, fetches all of it again and reruns `work`. */
export async function withRepair<T>(services: GitServices, source: Source, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!isDamage(error)) throw error;
  }
  const mirror = mirrorOf(services, source);
  const { narrator, signal } = source;
  await whileLocked(mirror, narrator, signal, () =>
    reach(services, source, (remote) => rebuild(services.sessions, mirror, remote)),
  );
  try {
    return await work();
  } catch (error) {
    if (!isDamage(error)) throw error;
    // The remote has the same data.
    narrator.line(error.output);
    throw reason(source, 'malformed_repository');
  }
}

function isDamage(error: unknown): error is GitError {
  return error instanceof GitError && error.mayBeDamage;
}
