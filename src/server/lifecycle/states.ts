/*
 * The state machines: the moves between all states. Their words are in records/states.ts, because records have them too.
 *
 * A **build request** asks for a ref. It waits (`enqueued`) until a runner fetches the commit (`fetching`), and is
 * `building` from the moment the commit's suites are known until the last of its builds is over. A commit that is
 * known already needs no fetch, so a request may go to `building` at once; one for which no suite applies has nothing
 * to build and is `passed` at once. A ref that does not exist or a key that is not installed ends it `errored`.
 *
 * A pull request from a fork may be `waiting_for_approval` first: nothing is fetched until a user of the project
 * approves it.
 *
 * A **commit** has no work of its own: its state follows from its builds (rollup.ts). It is `waiting_for_builds` until
 * the first one starts, then `building`, then their result; `skipped` when no suite applies to it.
 *
 * A **build** is one attempt at one suite. It waits (`enqueued`), perhaps for a person (`waiting_for_approval`, and
 * then again `enqueued`), runs (`running`) and ends: `passed` or `failed` by the command's exit status, `timed_out` when
 * the command did not end in time, `errored` when we could not run it, `cancelled` when a user stopped it. It can end
 * before it runs: cancelled, errored when it cannot be started, or `skipped` when a suite that it needs did not pass. A
 * build whose runner is lost ends `errored`, and its next attempt is enqueued in the same transaction. A finished build
 * stays as it is, with its log; another attempt is a new build.
 *
 * A **deploy** waits (`enqueued`), pushes (`deploying`) and ends `deployed`, `failed` or `cancelled`. When its runner
 * is lost it stays `deploying` and another runner repeats it; after the last try it is `failed`. It may be
 * `waiting_for_approval` first: a user approves it, or it ends `rejected`.
 *
 * A **dependency** waits for its source (`waiting_archive_upload`; the answer to its creation says `private`, which is
 * no state), then for a runner (`enqueued_for_compile`), is `compiling`, and ends `compiled` or `compile_failed`. Its
 * owner may share it with all accounts and end that. A new archive is compiled in the same way, while suites get the
 * last result; a shared dependency is shared again after it.
 *
 * A **delivery** of a webhook waits (`pending`) until its receiver takes it (`delivered`), or has not taken it for a
 * day (`failed`). A user may send either again.
 *
 * A **project** is `new` until it has a commit, and then has the state of its default head, or of its newest commit
 * while the default branch was never built (apply-rollup.ts).
 *
 * Only a user's new request leads out of a final state. A runner that reports late, a sweep and a second cancel change
 * nothing. So the moves are in two tables: `moves` has those of the work itself, `again` those of a user who asks for
 * more: a rerun, a restart, a new request for the same commit, an approval, a new archive, sharing, sending again.
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
  /** The first state of a record that needs an approval before it goes on. */
  readonly held?: State;
  /** The moves that the work itself makes. A state without any is final. */
  readonly moves: Moves<State>;
  /** The moves that only a user's new request makes. */
  readonly again: Moves<State>;
}

/** Whether no work leads out of this state. */
export function isFinal<State extends string>(machine: Machine<State>, state: State): boolean {
  return machine.moves[state].length === 0;
}

/** The states from which the work may move to `next`: the guard of the write that moves it. */
export function statesBefore<State extends string>(machine: Machine<State>, next: State): State[] {
  return machine.states.filter((state) => machine.moves[state].includes(next));
}

/** The states from which a user's new request may move to `next`. */
export function statesBeforeAgain<State extends string>(machine: Machine<State>, next: State): State[] {
  return machine.states.filter((state) => machine.again[state].includes(next));
}

export type BuildState = (typeof buildStates)[number];

export const buildMachine: Machine<BuildState> = {
  states: buildStates,
  initial: 'enqueued',
  moves: {
    enqueued: ['waiting_for_approval', 'running', 'errored', 'cancelled', 'skipped'],
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
    // `building` is skipped when no build ran: all were cancelled or errored in the queue.
    waiting_for_builds: ['building', 'errored', 'cancelled', 'skipped'],
    building: ['passed', 'failed', 'errored', 'cancelled'],
    passed: [],
    failed: [],
    errored: [],
    cancelled: [],
    skipped: [],
  },
  again: {
    waiting_for_builds: [],
    // A new request while builds of the last one are over or still wait: all builds that count now are waiting.
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
    // Such a request may have ended before there was a commit, and then begins with the fetch again.
    errored: ['enqueued', 'building'],
    cancelled: ['enqueued', 'building'],
  },
};

/** How far the fetch of a request has come. The request's state is made of this and of its builds (rollup.ts). */
export const fetchStates = ['unapproved', 'waiting', 'running', 'done', 'errored', 'cancelled'] as const;
export type FetchState = (typeof fetchStates)[number];

export const fetchMachine: Machine<FetchState> = {
  states: fetchStates,
  initial: 'waiting',
  held: 'unapproved',
  moves: {
    // A pull request from a fork may need an approval.
    unapproved: ['waiting', 'cancelled'],
    // A known commit needs no fetch.
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
    // A request that only waits for the one that it joined can be cancelled.
    done: ['cancelled'],
    errored: ['waiting'],
    // A user who asks for it again has approved it.
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

/** Has the state of one commit, which moves, or is replaced by another commit in any state. */
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
