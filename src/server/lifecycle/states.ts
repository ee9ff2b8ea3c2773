/*
 * The moves between all states. Their names are in records/states.ts.
 *
 * A **build request** waits (`enqueued`) until a runner fetches the commit (`fetching`). It is `building` from the
 * moment its suites are known until its last build is over. If no suite applies, it is `passed` at once. A missing ref
 * or key ends it `errored`. A fork's pull request may first be `waiting_for_approval`: nothing is fetched before.
 *
 * A **commit** follows its builds (rollup.ts). It is `waiting_for_builds` until the first starts, then `building`, then
 * has their result. It is `skipped` if no suite applies.
 *
 * A **build** is one attempt at one suite. It waits (`enqueued`) and then runs (`running`). It may first wait for a
 * user (`waiting_for_approval`), and is then `enqueued` again. The command's exit status ends it `passed` or `failed`. If
 * a build with the same inputs passed before, it may be `passed` without running (reuse.ts).
 * Its other ends are `timed_out`, `errored` if we could not run it, and `cancelled` by a user. It is `skipped` if a
 * needed suite did not pass. If its runner is lost, it ends `errored` and its next attempt is enqueued in the same
 * transaction.
 *
 * A **deploy** waits (`enqueued`), pushes (`deploying`) and ends `deployed`, `failed` or `cancelled`. If its runner is
 * lost, another runner repeats the deploy. After the last try the deploy is `failed`. It may first be
 * `waiting_for_approval`, and then be `rejected`.
 *
 * A **dependency** waits for its source (`waiting_archive_upload`). Its creation returns `private`, which is not a
 * state. Then it waits for a runner (`enqueued_for_compile`), is `compiling`, and ends `compiled` or `compile_failed`.
 * A shared dependency is shared again after a new compile.
 *
 * A webhook **delivery** is `pending` until its receiver accepts it (`delivered`). It is `failed` if the receiver has
 * not accepted it for a day. A user may send either again.
 *
 * A **project** is `new` until it has a commit. Then it has the state of its default head, or of its newest commit
 * while the default branch was never built (apply-rollup.ts).
 *
 * Only a user's new request leads out of a final state: a rerun, a restart, an approval, a new archive, sharing,
 * sending again. Late runner reports, sweeps and second cancels change nothing.
 */

import {
  buildRequestStates,
  buildStates,
  commitStates,
  deliveryStates,
  dependencyStates,
  deployStates,
  projectStates,
} from '../../shared/records/states.ts';

type Moves<State extends string> = Readonly<Record<State, readonly State[]>>;

export interface Machine<State extends string> {
  readonly states: readonly State[];
  readonly initial: State;
  readonly held?: State;
  /** The moves of the work itself. A state without any is final. */
  readonly moves: Moves<State>;
  readonly again: Moves<State>;
}

export function isFinal<State extends string>(machine: Machine<State>, state: State): boolean {
  return machine.moves[state].length === 0;
}

/** The guard of a write that moves the work to `next`. */
export function statesBefore<State extends string>(machine: Machine<State>, next: State): State[] {
  return machine.states.filter((state) => machine.moves[state].includes(next));
}

export function statesBeforeAgain<State extends string>(machine: Machine<State>, next: State): State[] {
  return machine.states.filter((state) => machine.again[state].includes(next));
}

export type BuildState = (typeof buildStates)[number];

export const buildMachine: Machine<BuildState> = {
  states: buildStates,
  initial: 'enqueued',
  moves: {
    // `passed` if a build with the same inputs passed before: then it does not run.
    enqueued: ['waiting_for_approval', 'running', 'passed', 'errored', 'cancelled', 'skipped'],
    waiting_for_approval: ['cancelled'],
    running: ['passed', 'failed', 'errored', 'timed_out', 'cancelled'],
    passed: [],
    failed: [],
    errored: [],
    timed_out: [],
    cancelled: [],
    skipped: [],
  },
  again: { ...nowhere(buildStates), waiting_for_approval: ['enqueued'] },
};

export type CommitState = (typeof commitStates)[number];

export const commitMachine: Machine<CommitState> = {
  states: commitStates,
  initial: 'waiting_for_builds',
  moves: {
    // `building` is skipped if no build ran: all were passed, cancelled or errored in the queue.
    waiting_for_builds: ['building', 'passed', 'errored', 'cancelled', 'skipped'],
    building: ['passed', 'failed', 'errored', 'cancelled'],
    passed: [],
    failed: [],
    errored: [],
    cancelled: [],
    skipped: [],
  },
  again: {
    waiting_for_builds: [],
    building: ['waiting_for_builds'],
    passed: ['waiting_for_builds', 'building'],
    failed: ['waiting_for_builds', 'building'],
    errored: ['waiting_for_builds', 'building'],
    cancelled: ['waiting_for_builds', 'building'],
    skipped: ['waiting_for_builds', 'building'],
  },
};

export type BuildRequestState = (typeof buildRequestStates)[number];

export const buildRequestMachine: Machine<BuildRequestState> = {
  states: buildRequestStates,
  initial: 'enqueued',
  held: 'waiting_for_approval',
  moves: {
    waiting_for_approval: ['enqueued', 'fetching', 'building', 'passed', 'errored', 'cancelled'],
    enqueued: ['fetching', 'building', 'passed', 'errored', 'cancelled'],
    fetching: ['building', 'passed', 'errored', 'cancelled'],
    building: ['passed', 'failed', 'errored', 'cancelled'],
    passed: [],
    failed: [],
    errored: [],
    cancelled: [],
  },
  again: {
    waiting_for_approval: [],
    enqueued: [],
    fetching: [],
    building: [],
    passed: ['building'],
    failed: ['building'],
    // A request may have ended before there was a commit. Then it begins with the fetch again.
    errored: ['enqueued', 'building'],
    cancelled: ['enqueued', 'building'],
  },
};

/** A request's state follows from this state and its builds (rollup.ts). */
export const fetchStates = ['unapproved', 'waiting', 'running', 'done', 'errored', 'cancelled'] as const;
export type FetchState = (typeof fetchStates)[number];

export const fetchMachine: Machine<FetchState> = {
  states: fetchStates,
  initial: 'waiting',
  held: 'unapproved',
  moves: {
    unapproved: ['waiting', 'cancelled'],
    waiting: ['running', 'done', 'errored', 'cancelled'],
    // Another runner begins again after the last one was lost.
    running: ['running', 'done', 'errored', 'cancelled'],
    done: [],
    errored: [],
    cancelled: [],
  },
  again: {
    unapproved: [],
    waiting: [],
    running: [],
    // A request that only waits for the request that it joined can be cancelled.
    done: ['cancelled'],
    errored: ['waiting'],
    // A user who requests it again has approved it.
    cancelled: ['waiting', 'done'],
  },
};

export type DeployState = (typeof deployStates)[number];

export const deployMachine: Machine<DeployState> = {
  states: deployStates,
  initial: 'enqueued',
  held: 'waiting_for_approval',
  moves: {
    waiting_for_approval: ['enqueued', 'rejected', 'cancelled'],
    enqueued: ['deploying', 'failed', 'cancelled'],
    deploying: ['deployed', 'failed', 'cancelled'],
    deployed: [],
    failed: [],
    rejected: [],
    cancelled: [],
  },
  again: nowhere(deployStates),
};

export type DependencyState = (typeof dependencyStates)[number];

export const dependencyMachine: Machine<DependencyState> = {
  states: dependencyStates,
  initial: 'waiting_archive_upload',
  moves: {
    waiting_archive_upload: ['enqueued_for_compile'],
    enqueued_for_compile: ['compiling', 'compile_failed'],
    compiling: ['compiled', 'shared', 'compile_failed'],
    compiled: [],
    compile_failed: [],
    shared: [],
  },
  again: {
    waiting_archive_upload: [],
    enqueued_for_compile: [],
    compiling: [],
    compiled: ['shared', 'enqueued_for_compile'],
    compile_failed: ['enqueued_for_compile'],
    shared: ['compiled', 'enqueued_for_compile'],
  },
};

export type DeliveryState = (typeof deliveryStates)[number];

export const deliveryMachine: Machine<DeliveryState> = {
  states: deliveryStates,
  initial: 'pending',
  moves: { pending: ['delivered', 'failed'], delivered: [], failed: [] },
  again: { pending: [], delivered: ['pending'], failed: ['pending'] },
};

export type ProjectState = (typeof projectStates)[number];

/** A project has the state of one commit. That commit moves, or another commit in any state replaces it. */
export const projectMachine: Machine<ProjectState> = {
  states: projectStates,
  initial: 'new',
  moves: { new: commitStates, ...commitMachine.moves },
  again: { new: [], ...mirrored() },
};

function mirrored(): Moves<CommitState> {
  const others = (state: CommitState) => commitStates.filter((other) => other !== state);
  return Object.fromEntries(commitStates.map((state) => [state, others(state)])) as Record<CommitState, CommitState[]>;
}

function nowhere<State extends string>(states: readonly State[]): Moves<State> {
  return Object.fromEntries(states.map((state) => [state, []])) as unknown as Record<State, State[]>;
}
