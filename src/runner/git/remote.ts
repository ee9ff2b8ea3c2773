import type { Service, Way } from './channel.ts';
import { FetchError, type RemoteFailure } from './failures.ts';
import { expectSuccess, GitError, type GitOutput } from './git.ts';
import { listRefs, refsIn } from './known-refs.ts';
import type { LogWriter } from './narrator.ts';
import { withoutProgress } from './progress.ts';
import { nobodysBranch, remoteHead, specialRef } from './refs.ts';
import { SilenceError, type RunOptions, type Session } from './session.ts';

/* Requests to a remote, in a session that can reach it. */

export interface Remote {
  url: string;
  way(...services: Service[]): Way;
  narrator: LogWriter;
  signal: AbortSignal;
  longestSilenceMs: number;
  failure(kind: RemoteFailure): FetchError;
  /** Undefined if the output does not point to the remote. */
  explain(output: GitOutput): FetchError | undefined;
}

const everything = ['+refs/heads/*:refs/heads/*', '+refs/tags/*:refs/tags/*', `+HEAD*:${remoteHead}*`];

export async function update(session: Session, remote: Remote): Promise<void> {
  await fetchInto(session, remote, everything, '--prune');
  await followHead(session, remote);
}

/** A fetch reports the commit of the remote's HEAD but not its branch. If several match, this asks the remote. */
async function followHead(session: Session, remote: Remote): Promise<void> {
  const listed = await session.git([...listRefs, `--points-at=${remoteHead}`, 'refs/heads']);
  const ending = listed.status === 0 ? refsIn(listed) : [];
  if (ending.length === 1 && ending[0]?.isDefault) return;
  const name = ending.length > 1 ? await askForHead(session, remote) : ending[0]?.name;
  const known = ending.find((branch) => branch.name === name)?.name ?? `refs/heads/${nobodysBranch}`;
  expectSuccess('noting the default branch', await session.git(['symbolic-ref', 'HEAD', known]));
}

async function askForHead(session: Session, remote: Remote): Promise<string | undefined> {
  const listed = await talk(session, remote, ['ls-remote', '--symref', remote.url, 'HEAD']);
  return headIn(listed);
}

/** The full name of the default branch, as `git ls-remote --symref` prints it. */
export function headIn({ stdout }: GitOutput): string | undefined {
  return /^ref: (refs\/heads\/\S{1,512})\tHEAD$/m.exec(stdout.subarray(0, 4096).toString())?.[1];
}

/** Fetches a commit that no branch or tag reaches, or a special ref. False if the remote does not have it. */
export async function fetchSpecial(session: Session, remote: Remote, what: string): Promise<boolean> {
  try {
    await fetchInto(session, remote, [`+${what}:${specialRef}`]);
    return true;
  } catch (error) {
    if (error instanceof FetchError && error.kind === 'commit_withheld') return false;
    throw error;
  }
}

async function fetchInto(
  session: Session,
  remote: Remote,
  refspecs: readonly string[],
  ...flags: string[]
): Promise<void> {
  const how = ['fetch', '--progress', '--no-tags', '--no-write-fetch-head', ...flags];
  const args = [...how, '--end-of-options', remote.url, ...refspecs];
  expectAnswer('fetching', remote, await talk(session, remote, args));
}

export async function talk(
  session: Session,
  remote: Remote,
  args: readonly string[],
  options: Pick<RunOptions, 'maxOutput'> = {},
): Promise<GitOutput> {
  const { narrator, longestSilenceMs } = remote;
  const filtered = withoutProgress(narrator.output);
  try {
    return await session.git(args, { ...options, onStderr: filtered.output, longestSilenceMs });
  } catch (error) {
    throw error instanceof SilenceError ? remote.failure('connection_lost') : error;
  } finally {
    await filtered.flush().catch(() => {}); // a log that accepts no more output ends the job elsewhere
  }
}

export function expectAnswer(what: string, remote: Remote, finished: GitOutput): GitOutput {
  if (finished.status === 0) return finished;
  throw remote.explain(finished) ?? new GitError(what, finished);
}
