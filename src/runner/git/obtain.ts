import { pathExists } from '../../shared/lib/path-exists.ts';
import { descends, findCandidates, type Found } from './commits.ts';
import { FetchError, tooSlow } from './failures.ts';
import { GitError } from './git.ts';
import { fetchSpecial, noteUse, rebuild, update, whileLocked, writeTo, type Mirror, type Remote } from './mirror.ts';
import { patientLog, type WriteLog } from './narrator.ts';
import { presentBranches } from './present-branches.ts';
import { isBranchOrTag, type WantedRef } from './refs.ts';
import type { Session } from './session.ts';
import { mirrorOf, reach, reason, type GitServices, type Source } from './sources.ts';

/** Uses a commit in the session that found it. */
export type Use<T> = (session: Session, found: Found) => Promise<T>;

/** A full SHA in the mirror needs no connection. Anything else updates the mirror once. Damage is a GitError. */
export async function obtain<T>(services: GitServices, source: Source, wanted: WantedRef, use: Use<T>): Promise<T> {
  const mirror = mirrorOf(services, source);
  const { narrator, signal } = source;
  if (wanted.fullSha !== undefined) {
    const known = await ifKnown(services, mirror, signal, wanted, use);
    if (known !== undefined) {
      await noteUse(mirror);
      return known.result;
    }
  }
  return whileLocked(mirror, narrator, signal, async () => {
    await noteUse(mirror);
    // Only now, because the connection would get old during the wait for the lock.
    return reach(services, source, (remote) =>
      writeTo(
        services.sessions,
        mirror,
        { signal, way: remote.way('git-upload-pack') },
        (session) => bring(session, remote, source, wanted),
        use,
      ),
    );
  });
}

async function bring(session: Session, remote: Remote, source: Source, wanted: WantedRef): Promise<Found> {
  await update(session, remote);
  let found = wanted.special === undefined ? await findCandidates(session, wanted.candidates) : [];
  for (const special of specialsOf(wanted)) {
    if (found.length > 0) break;
    if (await fetchSpecial(session, remote, special)) found = await findCandidates(session, wanted.candidates);
  }
  const chosen = choose(wanted, found) ?? raise(await notFound(session, wanted, source));
  if (!(await isLedTo(session, wanted, chosen.sha))) {
    source.narrator.line(
      `${quoted(wanted.by ?? '')} does not lead to this commit any more: it was moved or deleted since.`,
    );
  }
  return chosen;
}

/** If the commit is missing: the ref that reaches it, and then the commit itself. */
function specialsOf({ special, by, fullSha }: WantedRef): string[] {
  const ref = special ?? (by !== undefined && !isBranchOrTag(by) ? by : undefined);
  return [ref, special === undefined ? fullSha : undefined].filter((what) => what !== undefined);
}

/** Whether the branch or tag that came with a commit reaches it, as far as the mirror knows. */
async function isLedTo(session: Session, { by }: WantedRef, sha: string): Promise<boolean> {
  if (by === undefined || !isBranchOrTag(by)) return true;
  const [tip] = await findCandidates(session, [{ kind: 'other', name: by }]);
  return tip !== undefined && (await descends(session, tip.sha, sha));
}

async function ifKnown<T>(
  { sessions }: GitServices,
  mirror: Mirror,
  signal: AbortSignal,
  wanted: WantedRef,
  use: Use<T>,
): Promise<{ result: T } | undefined> {
  if (!(await pathExists(mirror.gitDir, 'directory'))) return undefined;
  return sessions.use({ directory: mirror.gitDir, access: 'read', signal }, async (session) => {
    const findPresent = async (): Promise<Found | undefined> => {
      const [found] = await findCandidates(session, wanted.candidates);
      return found !== undefined && (await isLedTo(session, wanted, found.sha)) ? found : undefined;
    };
    const found = await findPresent().catch((error: unknown) => {
      if (error instanceof GitError) return undefined; // the following fetch handles the damage
      throw error;
    });
    return found === undefined ? undefined : { result: await use(session, found) };
  });
}

/** Names come before abbreviations, as in git; but what stands for two different commits is ambiguous. */
function choose(wanted: WantedRef, found: readonly Found[]): Found | undefined {
  const [first, second] = found.filter(({ candidate }) => candidate.kind !== 'sha');
  if (first !== undefined && second !== undefined && first.sha !== second.sha) {
    throw new FetchError(
      'ambiguous_ref',
      `${quoted(wanted.asked)} is a branch and also a tag, of different commits. ` +
        `Ask for ${second.candidate.name} or ${first.candidate.name} instead.`,
    );
  }
  if (first === undefined && found.length > 1) {
    throw new FetchError('ambiguous_ref', `Several commits start with ${quoted(wanted.asked)}. Give more of the SHA.`);
  }
  return first ?? found[0];
}

async function notFound(session: Session, wanted: WantedRef, source: Source): Promise<FetchError> {
  if (wanted.by !== undefined) {
    return new FetchError(
      'ref_not_found',
      `The commit ${wanted.asked} is not in ${source.address.url} any more, and ${quoted(wanted.by)} does not lead to it: ` +
        'it was overwritten or deleted since. What it points to now has a request of its own, or is built when it is asked for.',
    );
  }
  const what = wanted.special !== undefined ? 'ref' : wanted.fullSha === undefined ? 'branch, tag or commit' : 'commit';
  return new FetchError(
    'ref_not_found',
    `There is no ${what} ${quoted(wanted.asked)} in ${source.address.url}. Check the spelling, and that it was pushed.${await presentBranches(session)}`,
  );
}

function raise(error: Error): never {
  throw error;
}

export function quoted(text: string): string {
  return `“${text}”`;
}

/** If the mirror is damaged, fetches all of it again and reruns `work`. */
export async function withRepair<T>(services: GitServices, source: Source, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof GitError && error.mayBeDamage)) throw error;
  }
  const mirror = mirrorOf(services, source);
  const { narrator, signal } = source;
  await whileLocked(mirror, narrator, signal, () =>
    reach(services, source, (remote) => rebuild(services.sessions, mirror, remote)),
  );
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof GitError && error.mayBeDamage)) throw error;
    // The remote has the same data.
    narrator.line(error.output);
    throw reason(source, 'malformed_repository');
  }
}

/** Writes a failure that the user can fix to the log before the output of git, ssh and the host. */
export async function reportingTrouble<T>(log: WriteLog, work: (writeLog: WriteLog) => Promise<T>): Promise<T> {
  const { writeLog, conclude, release } = patientLog(log);
  try {
    return await work(writeLog);
  } catch (error) {
    // A log that accepts no more output ends the job elsewhere.
    if (error instanceof FetchError) await conclude(error.message).catch(() => {});
    throw error;
  } finally {
    await release().catch(() => {});
  }
}

export async function inTime<T>(
  { timeoutMs }: GitServices,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(new FetchError('fetch_timed_out', tooSlow(timeoutMs))), timeoutMs);
  try {
    return await work(AbortSignal.any([signal, late.signal]));
  } finally {
    clearTimeout(timer);
  }
}
