import { isRefName } from '../../shared/domain/ref-names.ts';
import { descends } from './commits.ts';
import { FetchError, type FetchFailure } from './failures.ts';
import { GitError, type GitOutput } from './git.ts';
import { talk, type Remote } from './remote.ts';
import { obtain } from './obtain.ts';
import { mirrorOf, reach, sourceOf, type Source, type SourceRequest, type GitDeps } from './sources.ts';
import type { WantedRef } from './refs.ts';
import { logWriter } from './narrator.ts';
import type { Session } from './session.ts';
import { containsAny, quoted } from './phrases.ts';
import { withRepair } from './repair.ts';
import { inTime } from './with-log.ts';

export interface PushRequest extends SourceRequest {
  sha: string;
  /** The branch of the project's repository that must contain the commit. */
  localBranch: string;
  remoteUrl: string;
  remoteBranch: string;
}

export type PushRefusal = FetchFailure | 'not_on_branch' | 'not_fast_forward' | 'refused_by_remote';

/** A refusal is a result: the log has the remote's own message, `message` explains it. */
export type PushOutcome =
  | { pushed: true; alreadyThere: boolean }
  | { pushed: false; reason: PushRefusal; message: string };

export async function push(deps: GitDeps, request: PushRequest): Promise<PushOutcome> {
  const narrator = logWriter(request.writeLog);
  const outcome = await attempt(deps, request).catch((error: unknown) => {
    if (!(error instanceof FetchError)) throw error;
    const harmless =
      error.kind === 'connection_lost' ? ' You can deploy again safely: commits that arrived are detected.' : '';
    return refusal(error.kind, error.message + harmless);
  });
  if (!outcome.pushed) narrator.line(outcome.message);
  else if (outcome.alreadyThere) narrator.line(`${request.remoteBranch} is already at ${request.sha}.`);
  else narrator.line(`${request.remoteBranch} of ${request.remoteUrl} is now at ${request.sha}.`);
  return outcome;
}

function refusal(reason: PushRefusal, message: string): PushOutcome {
  return { pushed: false, reason, message };
}

async function attempt(deps: GitDeps, request: PushRequest): Promise<PushOutcome> {
  const { sha, localBranch, remoteBranch, remoteUrl } = request;
  for (const branch of [localBranch, remoteBranch]) {
    if (!isRefName(branch)) return refusal('invalid_ref', `${quoted(branch)} cannot be the name of a branch.`);
  }
  const source = sourceOf(request);
  // The credential is for the project's own repository only, even if the target has the same address.
  const target = sourceOf({ ...request, repositoryUrl: remoteUrl, credential: undefined });
  source.narrator.line(`Looking for ${localBranch} in ${source.address.url}.`);
  const liesThere = await inTime(deps, source.signal, (signal) => {
    const inTimeOnly = { ...source, signal };
    return withRepair(deps, inTimeOnly, () => isOnBranch(deps, inTimeOnly, sha, localBranch));
  });
  if (!liesThere) {
    const message = `Commit ${sha} is not on the branch ${quoted(localBranch)} of ${source.address.url}, so it is not deployed. Merge it there first, or use a strategy for a branch that contains it.`;
    return refusal('not_on_branch', message);
  }
  target.narrator.line(`Pushing ${sha} to ${remoteBranch} of ${remoteUrl}.`);
  // Without a lock: a slow remote must not delay the project's fetches.
  const mirror = {
    directory: mirrorOf(deps, source).gitDir,
    access: 'read',
    limits: { timeoutMs: noLimitMs },
  } as const;
  return withRepair(deps, source, () =>
    reach(deps, target, (remote) =>
      deps.sessions.use({ ...mirror, signal: remote.signal, way: remote.way('git-receive-pack') }, (session) =>
        pushTo(session, remote, sha, remoteBranch),
      ),
    ),
  );
}

/** Checks the branch as it is now: a commit that was overwritten since its build must not be deployed. */
async function isOnBranch(deps: GitDeps, source: Source, sha: string, branch: string): Promise<boolean> {
  const name = `refs/heads/${branch}`;
  const wanted: WantedRef = { asked: branch, fullSha: undefined, candidates: [{ kind: 'branch', name }] };
  return obtain(deps, source, wanted, (session, tip) => descends(session, tip.sha, sha));
}

/** The caller's signal limits the time of a push. */
const noLimitMs = 2 ** 31 - 1;

async function pushTo(
  session: Session,
  remote: Remote,
  sha: string,
  branch: string,
  again = true,
): Promise<PushOutcome> {
  const how = ['push', '--porcelain', '--progress', '--no-verify', '--no-signed', '--no-follow-tags'];
  const args = [...how, '--end-of-options', remote.url, `${sha}:refs/heads/${branch}`];
  const finished = await talk(session, remote, args);
  const result = resultOf(finished);
  if (again && result?.flag === '!' && containsAny(result.summary, wasOvertaken)) {
    remote.narrator.line('The branch moved during the push. Pushing again.');
    return pushTo(session, remote, sha, branch, false);
  }
  return outcomeOf(finished, result, remote, branch);
}

/** The branch moved since the check, perhaps by this push: a dead runner's push may still be in progress there. */
const wasOvertaken = [
  'failed to update ref',
  'failed to lock ref',
  'cannot lock ref',
  'incorrect old value',
  'reference already exists',
].map((why) => `[remote rejected] (${why}`);

interface Result {
  flag: string;
  /** The full name of the branch. */
  to: string;
  summary: string;
}

/** A porcelain line: a flag, source and target, and a summary with the remote's reason in parentheses. */
function resultOf({ stdout }: GitOutput): Result | undefined {
  for (const line of stdout.toString().split('\n', mostLines)) {
    const [flag = '', where, summary] = line.slice(0, longestLine).split('\t');
    if (flag.length === 1 && ' =*!'.includes(flag) && where !== undefined && summary !== undefined)
      return { flag, to: where.slice(where.indexOf(':') + 1), summary };
  }
  return undefined;
}

const mostLines = 100;
const longestLine = 4096;

function outcomeOf(finished: GitOutput, result: Result | undefined, remote: Remote, branch: string): PushOutcome {
  const name = `refs/heads/${branch}`;
  const { flag, to, summary } = result ?? { flag: '', to: name, summary: '' };
  // git has no way to specify that a name is the full name of a branch of the remote.
  if (to !== name || finished.stderr.toString().includes(`dst refspec ${name} matches more than one`)) {
    const message = `${remote.url} has another branch whose name ends in ${quoted(name)}, and git cannot tell it from ${quoted(branch)}. Delete that branch there, then deploy again.`;
    return refusal('refused_by_remote', message);
  }
  if (finished.status === 0) return { pushed: true, alreadyThere: flag === '=' };
  if (flag === '!') {
    const notForward = containsAny(summary, ['non-fast-forward', 'fetch first', 'stale info', 'needs force']);
    if (notForward) {
      const message = `The branch ${quoted(branch)} of ${remote.url} has commits that this one does not include (not a fast-forward), and Headrace never forces a push. Deploy a commit that includes them, or reset the branch by hand.`;
      return refusal('not_fast_forward', message);
    }
    // git sends its packs unchanged, so the remote detects damage in our copy.
    if (containsAny(summary, ['unpacker error']) && containsAny(finished.stderr.toString(), ['inflate', 'corrupt'])) {
      throw new GitError('pushing', finished);
    }
    if (summary.startsWith('[remote failure]')) throw remote.failure('connection_lost');
    return refusal('refused_by_remote', `${remote.url} refused the push: ${summary}. Its output is above.`);
  }
  throw remote.explain(finished) ?? new GitError('pushing', finished);
}
