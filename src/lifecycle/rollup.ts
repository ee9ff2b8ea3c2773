/*
 * What many builds amount to: the states of a commit, of a build request and of a project, as pure functions.
 *
 * Of each suite the newest attempt counts and no other, so that a rerun can make good what went wrong, and a build
 * lost with its runner does not show as an error when its next attempt is enqueued already.
 *
 * While any build is unfinished nothing is decided, though one may have failed: the end is announced once. When all
 * are over, the gravest word counts:
 *
 *   failed, timed_out   The code was judged and found wanting. No rerun of the others can change that, so it is what
 *                       its author must hear first. A command that does not end in time is the code's fault as well.
 *   errored             Nobody knows whether the code is good: we could not find out. More urgent than a
 *                       cancellation, for nobody wanted it.
 *   cancelled           Nobody knows either, but somebody chose that. It must not look passed.
 *   passed              Every suite said so.
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

/** What a roll-up needs to know of a build. No two have the same suite and attempt. */
export interface BuildFact {
  suiteId: bigint;
  attempt: number;
  state: BuildState;
  failureReason?: string | null;
}

type Verdict = 'passed' | 'failed' | 'errored' | 'cancelled';

/** Before the suites of a commit are `chosen` by their rules, having no builds says nothing; afterwards, that none applies. */
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
 * `builds` are those of the request. A request for which no suite applies is `passed`: whoever waits for its end must
 * see one, nothing failed, and there is no error to look into. Its commit says `skipped`, so nobody takes it for tested.
 */
export function buildRequestState(fetch: FetchState, builds: readonly BuildFact[]): BuildRequestState {
  if (fetch !== 'done') return whileFetching[fetch];
  const newest = newestAttempts(builds);
  return newest.length === 0 ? 'passed' : (verdict(newest) ?? 'building');
}

/** The commit that decides is chosen in apply-rollup.ts. */
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

/** Undefined while one is unfinished. */
function verdict(newest: readonly BuildFact[]): Verdict | undefined {
  if (newest.some(({ state }) => !isFinal(buildMachine, state))) return undefined;
  const any = (...states: BuildState[]) => newest.some(({ state }) => states.includes(state));
  if (any('failed', 'timed_out')) return 'failed';
  if (any('errored')) return 'errored';
  return any('cancelled') ? 'cancelled' : 'passed';
}

/**
 * Whether work on the suite is under way. An attempt that follows one lost with its runner goes on with the same work:
 * a commit that is `building` must not seem to wait again because a machine broke down.
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
