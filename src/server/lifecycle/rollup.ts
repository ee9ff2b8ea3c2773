/*
 * The states of a commit, a build request and a project, calculated from their builds by pure functions.
 *
 * Only the newest attempt of each suite and variant counts. So a rerun can repair a failure. A lost build, or a failed
 * one with a retry, does not show as an error while its next attempt is enqueued.
 *
 * A suite's matrix or name may have changed since an earlier request for the commit. Then only the variants and the
 * name of its last start count: one series, which later attempts stay in. For a request's state, all its builds count.
 *
 * There is no result while a build can continue without a user, even if one has failed: the end is announced once.
 * Builds that wait for approval, and builds that wait for these, may wait for days. If only such builds are open, they
 * do not delay a failure or an error (decision 0235). When all builds are over, the first of these that occurs is the
 * result:
 *
 *   failed, timed_out   The code is wrong. No rerun of other builds can change that, so its author must know first.
 *                       A command that does not end in time is the code's fault as well.
 *   errored             We could not test the code. This precedes a cancellation, because no user wanted it.
 *   cancelled           Untested by a user's choice, so it must not look passed. A commit does not need its manual
 *                       suites, so their cancelled attempts count only if no other suite ran.
 *   passed              Every suite passed.
 *
 * A skipped build does not count: the suite that it needed did not pass, and decides instead. A build that is allowed
 * to fail counts as passed if it failed, timed out or errored. A cancelled build always counts, because its end is
 * unknown.
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

/** No two have the same suite name, variant and attempt. */
export interface BuildFact {
  suite_id?: bigint | null;
  suite_name: string;
  variant?: string;
  attempt: number;
  state: BuildState;
  isAllowedToFail?: boolean;
  isRetry?: boolean;
  isManual?: boolean;
  isHeld?: boolean;
  series?: bigint;
}

type Verdict = 'passed' | 'failed' | 'errored' | 'cancelled';

/** Having no builds means that no suite applies only once the suites are `chosen`. */
export function commitState(builds: readonly BuildFact[], suites: 'undecided' | 'chosen'): CommitState {
  const newest = ofLastSeries(newestAttempts(withoutCancelled(builds)));
  if (newest.every(isSkipped)) return suites === 'chosen' ? 'skipped' : 'waiting_for_builds';
  return verdict(newest) ?? (anyBegun(newest, builds) ? 'building' : 'waiting_for_builds');
}

const whileFetching = {
  unapproved: 'waiting_for_approval',
  waiting: 'enqueued',
  running: 'fetching',
  errored: 'errored',
  cancelled: 'cancelled',
} as const satisfies Record<Exclude<FetchState, 'done'>, BuildRequestState>;

/**
 * If no suite applies, it is `passed`: clients wait for an end, and nothing failed. Its commit is `skipped`, so that it
 * does not look tested. A request cancelled after its fetch only waits for its own builds.
 */
export function buildRequestState(
  fetch: FetchState,
  builds: readonly BuildFact[],
  ofFirst: readonly BuildFact[] = [],
): BuildRequestState {
  const own = newestAttempts(builds);
  const isEnding = fetch === 'cancelled' && own.some(({ state }) => !isFinal(buildMachine, state));
  if (fetch !== 'done' && !isEnding) return whileFetching[fetch];
  const newest = fetch === 'done' ? [...own, ...newestAttempts(ofFirst)] : own;
  if (newest.length === 0) return 'passed';
  return newest.every(isSkipped) ? 'cancelled' : (verdict(newest) ?? 'building');
}

/** apply-rollup.ts chooses the deciding commit. */
export function projectState(decidingCommit: CommitState | null): ProjectState {
  return decidingCommit ?? 'new';
}

type Identified = Pick<BuildFact, 'suite_name' | 'variant' | 'attempt'>;

export function newestAttempts<Build extends Identified>(builds: readonly Build[]): Build[] {
  const newest = new Map<string, Build>();
  for (const build of builds) {
    const key = JSON.stringify([build.suite_name, build.variant ?? '']);
    const known = newest.get(key);
    if (!known || known.attempt < build.attempt) newest.set(key, build);
  }
  return [...newest.values()];
}

/** Drops variants and names that the suite no longer had at its last start on the commit. */
export function ofLastSeries<Build extends Pick<BuildFact, 'suite_id' | 'suite_name' | 'series'>>(
  newest: readonly Build[],
): Build[] {
  const last = new Map<string | bigint, bigint>();
  const namesOf = ({ suite_id: id, suite_name: name }: Build) =>
    id === undefined || id === null ? [name] : [name, id];
  for (const build of newest)
    for (const name of namesOf(build))
      if ((build.series ?? 0n) >= (last.get(name) ?? 0n)) last.set(name, build.series ?? 0n);
  return newest.filter((build) => namesOf(build).every((name) => (build.series ?? 0n) === last.get(name)));
}

export function isAllowedFailure(state: BuildState, isAllowedToFail = false): boolean {
  return isAllowedToFail && (state === 'failed' || state === 'timed_out' || state === 'errored');
}

/** A commit does not need manual suites. If no other suite ran, their cancelled attempts count. */
function withoutCancelled(builds: readonly BuildFact[]): readonly BuildFact[] {
  const others = builds.filter(({ isManual, state }) => !(isManual && state === 'cancelled'));
  return others.length === builds.length || newestAttempts(others).every(isSkipped) ? builds : others;
}

const isSkipped = ({ state }: BuildFact): boolean => state === 'skipped';

/** Undefined while a build is unfinished, unless only an approval is awaited and the result is bad already. */
function verdict(newest: readonly BuildFact[]): Verdict | undefined {
  const open = newest.filter(({ state }) => !isFinal(buildMachine, state));
  // Needs have no cycle, so if all are held, the first ones wait for an approval.
  if (!open.every(({ isHeld }) => isHeld)) return undefined;
  const any = (...states: BuildState[]) =>
    newest.some(({ state, isAllowedToFail }) => states.includes(state) && !isAllowedFailure(state, isAllowedToFail));
  if (any('failed', 'timed_out')) return 'failed';
  if (any('errored')) return 'errored';
  if (open.length > 0) return undefined;
  return any('cancelled') ? 'cancelled' : 'passed';
}

/** A retry continues the same work: a `building` commit must not seem to wait again because a machine failed. */
function anyBegun(newest: readonly BuildFact[], all: readonly BuildFact[]): boolean {
  const nameOf = ({ suite_name: suite, variant = '' }: BuildFact, attempt: number): string =>
    JSON.stringify([suite, attempt, variant]);
  const goingOn = new Set(all.filter(({ state }) => state === 'running').map((build) => nameOf(build, build.attempt)));
  const before: readonly BuildState[] = ['enqueued', 'waiting_for_approval', 'skipped'];
  const isBegun = ({ state }: BuildFact): boolean => !before.includes(state);
  return newest.some((build) => isBegun(build) || build.isRetry || goingOn.has(nameOf(build, build.attempt - 1)));
}
