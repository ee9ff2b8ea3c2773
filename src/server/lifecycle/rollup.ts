/*
 * The states of a commit, of a build request and of a project, calculated from their builds by pure functions.
 *
 * Only the newest attempt of each suite counts, and of each of its variants where it has a matrix. So a rerun can
 * repair a failure, and a build that was lost with its runner, or failed and is retried, does not show as an error
 * while its next attempt is enqueued.
 *
 * The matrix or the name of a suite may have changed since an earlier request for the commit. Then those variants count
 * that the suite was last started with, under the name that it had then: they are one series. Later attempts at one of
 * them stay in its series. For the state of a request, all its builds count.
 *
 * While any build can go on by itself there is no result, even if one has failed: the end is announced once. A build that
 * waits for approval, and those behind it, may wait for days. If nothing else is open, they do not hold back a failure or
 * an error (decision 0235). When all are over, the first of these that occurs is the result:
 *
 *   failed, timed_out   The code is wrong. No rerun of the others can change that, so its author must know this first.
 *                       A command that does not end in time is the code's fault as well.
 *   errored             We could not find out whether the code is good. This comes before a cancellation, because
 *                       nobody wanted it.
 *   cancelled           Nobody knows whether the code is good, but a user chose that. It must not look passed. A commit
 *                       does not need its manual suites, so their cancelled attempts count only if nothing else was run.
 *   passed              Every suite passed.
 *
 * A skipped build does not count: the suite that it needed did not pass, and that one decides.
 *
 * A build that is allowed to fail counts as passed when it failed, timed out or errored: the commit is not to depend on
 * it. A cancelled build counts in any case, because nobody knows how it would have ended.
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

/** The facts about a build that a roll-up needs. No two have the same name of a suite, variant and attempt. */
export interface BuildFact {
  suite_id?: bigint | null;
  suite_name: string;
  variant?: string;
  attempt: number;
  state: BuildState;
  failureReason?: string | null;
  /** Its failure does not fail the commit. */
  isAllowedToFail?: boolean;
  /** It follows an attempt that failed, without anybody having asked for it. */
  isRetry?: boolean;
  /** Its suite runs only if somebody names it. */
  isManual?: boolean;
  /** It waits for suites that it needs, or for an approval. */
  isHeld?: boolean;
  series?: bigint;
}

type Verdict = 'passed' | 'failed' | 'errored' | 'cancelled';

/**
 * Before the rules have chosen the suites of a commit, having no builds says nothing. Afterwards (`chosen`) it means
 * that no suite applies.
 */
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
 * `builds` are those of the request. A request for which no suite applies is `passed`: a client that waits for its end
 * must see one, and nothing failed. Its commit is `skipped`, so nobody takes it for tested.
 *
 * `ofFirst` are the builds of the request that it joined. They count as well. If it was cancelled itself, after its fetch
 * too, it only waits for its own to end.
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

/** apply-rollup.ts chooses the commit that decides. */
export function projectState(decidingCommit: CommitState | null): ProjectState {
  return decidingCommit ?? 'new';
}

type Identified = Pick<BuildFact, 'suite_name' | 'variant' | 'attempt'>;

/** The newest attempt of each suite and variant. */
export function newestAttempts<Build extends Identified>(builds: readonly Build[]): Build[] {
  const newest = new Map<string, Build>();
  for (const build of builds) {
    const key = JSON.stringify([build.suite_name, build.variant ?? '']);
    const known = newest.get(key);
    if (!known || known.attempt < build.attempt) newest.set(key, build);
  }
  return [...newest.values()];
}

/** Without the variants and names that the suite no longer had when it was last started on the commit. */
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

/** Whether a build ended in a way that does not count because it is allowed to. */
export function isAllowedFailure(state: BuildState, isAllowedToFail = false): boolean {
  return isAllowedToFail && (state === 'failed' || state === 'timed_out' || state === 'errored');
}

/**
 * Without the cancelled attempts at manual suites. Nobody has to run such a suite, so the commit stays what it was
 * before. If nothing else was run, they count.
 */
function withoutCancelled(builds: readonly BuildFact[]): readonly BuildFact[] {
  const others = builds.filter(({ isManual, state }) => !(isManual && state === 'cancelled'));
  return others.length === builds.length || newestAttempts(others).every(isSkipped) ? builds : others;
}

const isSkipped = ({ state }: BuildFact): boolean => state === 'skipped';

/** Undefined while a build is unfinished, unless only an approval is awaited and the result is bad already. */
function verdict(newest: readonly BuildFact[]): Verdict | undefined {
  const open = newest.filter(({ state }) => !isFinal(buildMachine, state));
  // Needs have no cycle, so if all of them are held, the first ones wait for an approval.
  if (!open.every(({ isHeld }) => isHeld)) return undefined;
  const any = (...states: BuildState[]) =>
    newest.some(({ state, isAllowedToFail }) => states.includes(state) && !isAllowedFailure(state, isAllowedToFail));
  if (any('failed', 'timed_out')) return 'failed';
  if (any('errored')) return 'errored';
  if (open.length > 0) return undefined;
  return any('cancelled') ? 'cancelled' : 'passed';
}

/**
 * Whether work on a suite has begun. A retry, or an attempt after a lost one, continues the same work: a `building`
 * commit must not seem to wait again because a machine failed.
 */
function anyBegun(newest: readonly BuildFact[], all: readonly BuildFact[]): boolean {
  const nameOf = ({ suite_name: suite, variant = '' }: BuildFact, attempt: number): string =>
    JSON.stringify([suite, attempt, variant]);
  const isGoingOn = ({ state, failureReason }: BuildFact): boolean =>
    state === 'running' || (state === 'errored' && (failureReason === 'runner_lost' || failureReason === 'files_gone'));
  const goingOn = new Set(all.filter(isGoingOn).map((build) => nameOf(build, build.attempt)));
  const before: readonly BuildState[] = ['enqueued', 'waiting_for_approval', 'skipped'];
  const isBegun = ({ state }: BuildFact): boolean => !before.includes(state);
  return newest.some((build) => isBegun(build) || build.isRetry || goingOn.has(nameOf(build, build.attempt - 1)));
}
