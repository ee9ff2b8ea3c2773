import { SilenceError } from '../../lib/process-groups.ts';
import type { Finished } from '../../lib/processes.ts';
import { descends } from './commits.ts';
import { FetchError, recognize, type FetchFailure } from './failures.ts';
import { GitError, longGit } from './git.ts';
import type { Mirror, Remote } from './mirror.ts';
import { mirrorOf, obtain, quoted, reach, sourceOf, withRepair } from './obtain.ts';
import type { Source, SourceRequest, Workshop } from './obtain.ts';
import { isRefName, type WantedRef } from './refs.ts';
import { narrate } from './narrator.ts';

/** `repositoryUrl` is the project's own repository, where the commit comes from. */
export interface PushRequest extends SourceRequest {
  sha: string;
  /** The branch of the project's repository that the commit must lie on. */
  localBranch: string;
  /** Where it goes. */
  remoteUrl: string;
  remoteBranch: string;
}

export type PushRefusal = FetchFailure | 'not_on_branch' | 'not_fast_forward' | 'refused_by_remote';

/** A refusal is an answer: the log has the other side's own words, `message` what to make of them. */
export type PushOutcome =
  { pushed: true; alreadyThere: boolean } | { pushed: false; reason: PushRefusal; message: string };

export async function push(workshop: Workshop, request: PushRequest): Promise<PushOutcome> {
  const narrator = narrate(request.say);
  let outcome: PushOutcome;
  try {
    outcome = await attempt(workshop, request);
  } catch (error) {
    if (!(error instanceof FetchError)) throw error;
    const harmless = error.kind === 'connection_lost' ? ' To push again does no harm: what has arrived is found.' : '';
    outcome = refusal(error.kind, error.message + harmless);
  }
  if (!outcome.pushed) narrator.line(outcome.message);
  else if (outcome.alreadyThere) narrator.line(`${request.remoteBranch} is at ${request.sha} already.`);
  else narrator.line(`${request.remoteBranch} of ${request.remoteUrl} is now at ${request.sha}.`);
  return outcome;
}

function refusal(reason: PushRefusal, message: string): PushOutcome {
  return { pushed: false, reason, message };
}

async function attempt(workshop: Workshop, request: PushRequest): Promise<PushOutcome> {
  const { sha, localBranch, remoteBranch, remoteUrl } = request;
  for (const branch of [localBranch, remoteBranch]) {
    if (!isRefName(branch)) return refusal('invalid_ref', `${quoted(branch)} cannot be the name of a branch.`);
  }
  const source = sourceOf(request);
  const target = sourceOf({ ...request, repositoryUrl: remoteUrl });
  const mirror = mirrorOf(workshop, source);
  source.narrator.line(`Looking for ${localBranch} in ${source.address.url}.`);
  const liesThere = await withRepair(workshop, source, () => isOnBranch(workshop, source, mirror, sha, localBranch));
  if (!liesThere) {
    const message = `Commit ${sha} does not lie on the branch ${quoted(localBranch)} of ${source.address.url}, so it is not deployed. Merge it there first, or take a strategy for a branch that it lies on.`;
    return refusal('not_on_branch', message);
  }
  target.narrator.line(`Pushing ${sha} to ${remoteBranch} of ${remoteUrl}.`);
  return withRepair(workshop, source, () =>
    reach(workshop, target, (remote) => pushTo(mirror, remote, sha, remoteBranch)),
  );
}

/** The branch as it is now: what was overwritten since the build must not go out. */
async function isOnBranch(
  workshop: Workshop,
  source: Source,
  mirror: Mirror,
  sha: string,
  branch: string,
): Promise<boolean> {
  const name = `refs/heads/${branch}`;
  const wanted: WantedRef = { asked: branch, fullSha: undefined, places: [{ kind: 'branch', name }] };
  const tip = await obtain(workshop, source, wanted);
  return descends(mirror, tip.sha, sha);
}

/** Without a lock: what runs on the other side for minutes must not hold up the project's fetches meanwhile. */
async function pushTo(mirror: Mirror, remote: Remote, sha: string, branch: string, again = true): Promise<PushOutcome> {
  const { url, ssh, signal, narrator, longestSilenceMs } = remote;
  const how = ['push', '--porcelain', '--progress', '--no-verify', '--no-signed', '--no-follow-tags'];
  const args = [`--git-dir=${mirror.gitDir}`, ...how, '--end-of-options', url, `${sha}:refs/heads/${branch}`];
  const options = { cwd: mirror.gitDir, ssh, signal, longestSilenceMs, onStderr: narrator.output };
  const finished = await longGit(args, options).catch((error: unknown) => {
    throw error instanceof SilenceError ? remote.failure('connection_lost') : error;
  });
  if (again && wasOvertaken.test(finished.stdout.toString())) {
    narrator.line('The branch moved in that very moment. Pushing once more.');
    return pushTo(mirror, remote, sha, branch, false);
  }
  return judge(finished, remote, branch);
}

/**
 * Somebody else moved the branch between the look at it and the push. It may have been this very push: when a runner
 * dies, what it had sent may yet be taken in while the next one pushes again.
 */
const wasOvertaken =
  /^!\t.*\[remote rejected\] \((failed to (update|lock) ref|cannot lock ref|incorrect old value|reference already exists)/m;

/** The porcelain line of a ref: a flag, what went where, and a summary with the remote's reason in parentheses. */
function judge(finished: Finished, remote: Remote, branch: string): PushOutcome {
  const [, flag, summary = ''] = /^([ =*!])\t[^\t]*\t(.*)$/m.exec(finished.stdout.toString()) ?? [];
  if (finished.status === 0) return { pushed: true, alreadyThere: flag === '=' };
  if (flag === '!') {
    const notForward = /non-fast-forward|fetch first|stale info|needs force/.test(summary);
    if (notForward) {
      const message = `The branch ${quoted(branch)} of ${remote.url} has commits that this one does not build on (not a fast-forward), and nothing is ever overwritten by force. Deploy a commit that builds on them, or set the branch back by hand.`;
      return refusal('not_fast_forward', message);
    }
    // git sends what it has packed as it is, so it is the other side that finds our copy damaged.
    if (/unpacker error/.test(summary) && /inflate|corrupt/i.test(finished.stderr.toString())) {
      throw new GitError('pushing', finished);
    }
    if (summary.startsWith('[remote failure]')) throw remote.failure('connection_lost');
    return refusal(
      'refused_by_remote',
      `${remote.url} refused the push: ${summary}. What it says to that stands above.`,
    );
  }
  const kind = recognize(finished.stderr.toString());
  if (kind === undefined) throw new GitError('pushing', finished);
  throw remote.failure(kind);
}
