/*
 * The states of a commit, of a build request and of a project, calculated from their builds by pure functions.
 *
 * Only the newest attempt of each suite counts. So a rerun can repair a failure, and a build that was lost with its
 * runner does not show as an error while its next attempt is enqueued.
 *
 * While any build is unfinished there is no result, even if one has failed: the end is announced once. When all are
 * over, the first of these that occurs is the result:
 *
 *   failed, timed_out   The code is wrong. No rerun of the others can change that, so its author must hear this first.
 *                       A command that does not end in time is the code's fault as well.
 *   errored             We could not find out whether the code is good. This comes before a cancellation, because
 *                       nobody wanted it.
 *   cancelled           Nobody knows whether the code is good, but a user chose that. It must not look passed.
 *   passed              Every suite passed.
 */

import {
  type BuildRequestState,
  type BuildState,
  buildMachine,
  type CommitState,
  type FetchState,
  isFinal,
  type ProjectState,
} from './states.ts';

/** The facts about a build that a roll-up needs. No two have the same suite and attempt. */
export interface BuildFact {
  suiteId: bigint;
  attempt: number;
  state: BuildState;
  failureReason?: string | null;
}

type Verdict = 'passed' | 'failed' | 'errored' | 'cancelled';

/**
 * Before the rules have chosen the suites of a commit (`chosen`), having no builds says nothing; afterwards it says
 * that no suite applies.
 */
export function commitState(builds: readonly BuildFact[], suites: 'undecided' | 'chosen'): CommitState {
  const newest = newestAttempts(builds);
  if (newest.length === 0) return suites === 'chosen' ? 'skipped' : 'waiting_for_builds';
  return verdict(newest) ?? (newest.some((build) => begun(build, builds)) ? 'building' : 'waiting_for_builds');
}

const whileFetching = {
  unapproved: 'waiting_for_approval',
  waiting: 'enqueued',
  running: 'fetching',
  errored: 'errored',
  cancelled: 'cancelled',
} as const satisfies Record<Exclude<FetchState, 'done'>, BuildRequestState>;

/**
 * `builds` are those of the request. A request for which no suite applies is `passed`: a client that waits for its end
 * must see one, and nothing failed. Its commit is `skipped`, so nobody takes it for tested.
 */
export function buildRequestState(fetch: FetchState, builds: readonly BuildFact[]): BuildRequestState {
  if (fetch !== 'done') return whileFetching[fetch];
  const newest = newestAttempts(builds);
  return newest.length === 0 ? 'passed' : (verdict(newest) ?? 'building');
}

/** apply-rollup.ts chooses the commit that decides. */
export function projectState(decidingCommit: CommitState | null): ProjectState {
  return decidingCommit ?? 'new';
}

function newestAttempts(builds: readonly BuildFact[]): BuildFact[] {
  const newest = new Map<bigint, BuildFact>();
  for (const build of builds) {
    const known = newest.get(build.suiteId);
    if (!known || known.attempt < build.attempt) newest.set(build.suiteId, build);
  }
  return [...newest.values()];
}

/** Undefined while a build is unfinished. */
function verdict(newest: readonly BuildFact[]): Verdict | undefined {
  if (newest.some(({ state }) => !isFinal(buildMachine, state))) return undefined;
  const any = (...states: BuildState[]) => newest.some(({ state }) => states.includes(state));
  if (any('failed', 'timed_out')) return 'failed';
  if (any('errored')) return 'errored';
  return any('cancelled') ? 'cancelled' : 'passed';
}

/**
 * Whether work on the suite has begun. An attempt that follows a lost one continues the same work: a `building` commit
 * must not seem to wait again because a machine failed.
 */
function begun(build: BuildFact, all: readonly BuildFact[]): boolean {
  if (build.state !== 'enqueued') return true;
  return all.some(
    ({ suiteId, attempt, state, failureReason }) =>
      suiteId === build.suiteId &&
      attempt === build.attempt - 1 &&
      (state === 'running' || (state === 'errored' && failureReason === 'runner_lost')),
  );
}
