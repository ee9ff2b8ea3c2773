import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as fc from '../../support/properties.ts';
import {
  type BuildFact,
  buildRequestState,
  commitState,
  newestAttempts,
  projectState,
} from '../../../src/server/lifecycle/rollup.ts';
import {
  buildMachine,
  buildRequestMachine,
  type BuildState,
  commitMachine,
  isFinal,
} from '../../../src/server/lifecycle/states.ts';
import { buildStates, commitStates } from '../../../src/shared/records/states.ts';

/** One build for each state, each of another suite. */
const suites = (...states: BuildState[]): BuildFact[] =>
  states.map((state, index) => ({ suite_name: String(index), attempt: 1, state }));

/** The attempts at one suite, the first one first. After a lost one the next is made by itself. */
const attempts = (...states: (BuildState | 'lost')[]): BuildFact[] =>
  states.map((state, index) => ({
    suite_name: '7',
    attempt: index + 1,
    state: state === 'lost' ? 'errored' : state,
    isRetry: states[index - 1] === 'lost',
  }));

const commit = (...builds: BuildFact[]) => commitState(builds, 'chosen');
const request = (...builds: BuildFact[]) => buildRequestState('done', builds);

/** Every way to give `count` suites a state. */
function combinations(count: number): BuildState[][] {
  if (count === 0) return [[]];
  return combinations(count - 1).flatMap((states) => buildStates.map((state) => [...states, state]));
}

describe('the state of a commit', () => {
  it('is of its only build', () => {
    const expected = {
      enqueued: 'waiting_for_builds',
      waiting_for_approval: 'waiting_for_builds',
      running: 'building',
      passed: 'passed',
      failed: 'failed',
      errored: 'errored',
      timed_out: 'failed',
      cancelled: 'cancelled',
      skipped: 'skipped',
    } as const;
    for (const state of buildStates) assert.equal(commit(...suites(state)), expected[state], state);
  });

  it('is of its two builds as this table says', () => {
    const table = `
                enqueued  held      running   passed    failed    errored   timed_out cancelled skipped
      enqueued  waiting   waiting   building  building  building  building  building  building  waiting
      held      waiting   waiting   building  building  building  building  building  building  waiting
      running   building  building  building  building  building  building  building  building  building
      passed    building  building  building  passed    failed    errored   failed    cancelled passed
      failed    building  building  building  failed    failed    failed    failed    failed    failed
      errored   building  building  building  errored   failed    errored   failed    errored   errored
      timed_out building  building  building  failed    failed    failed    failed    failed    failed
      cancelled building  building  building  cancelled failed    errored   failed    cancelled cancelled
      skipped   waiting   waiting   building  passed    failed    errored   failed    cancelled skipped`;
    const [header = [], ...rows] = table
      .trim()
      .split('\n')
      .map((line) => line.trim().split(/\s+/))
      .map((words) => words.map((word) => (word === 'held' ? 'waiting_for_approval' : word)));
    assert.deepEqual(header, buildStates);
    assert.equal(rows.length, buildStates.length);
    for (const [first, ...cells] of rows) {
      assert.equal(cells.length, header.length);
      for (const [index, cell] of cells.entries()) {
        const states = [first, header[index]] as BuildState[];
        assert.equal(
          commit(...suites(...states)),
          cell === 'waiting' ? 'waiting_for_builds' : cell,
          states.join(' + '),
        );
      }
    }
  });

  it('is of any number of builds the gravest when all are over, and undecided before', () => {
    const gravity = ['failed', 'timed_out', 'errored', 'cancelled', 'passed'];
    for (const count of [1, 2, 3, 4]) {
      for (const states of combinations(count)) {
        const counted = states.filter((state) => state !== 'skipped');
        const over = counted.filter((state) => gravity.includes(state)).length;
        const gravest = gravity.find((state) => (states as string[]).includes(state)) ?? 'skipped';
        const decided = gravest === 'timed_out' ? 'failed' : gravest;
        const waiting = counted.every((state) => state === 'enqueued' || state === 'waiting_for_approval');
        const expected = over === counted.length ? decided : waiting ? 'waiting_for_builds' : 'building';
        assert.equal(commit(...suites(...states)), expected, states.join(' + '));
      }
    }
  });

  it('is skipped when no suite applies, and waits while that is not known', () => {
    assert.equal(commitState([], 'chosen'), 'skipped');
    assert.equal(commitState([], 'undecided'), 'waiting_for_builds');
  });

  it('counts the newest attempt of each suite, in every combination of old and new', () => {
    for (const [earlier, later] of combinations(2) as [BuildState, BuildState][]) {
      for (const other of buildStates) {
        const builds = [...attempts(earlier, later), ...suites(other)];
        const withoutEarlier = commit(...attempts(earlier, later).slice(1), ...suites(other));
        const notBegun = ['enqueued', 'waiting_for_approval', 'skipped'];
        const isOver = later === 'skipped' && other === 'skipped';
        const goesOn = earlier === 'running' && notBegun.includes(later) && notBegun.includes(other) && !isOver;
        assert.equal(commit(...builds), goesOn ? 'building' : withoutEarlier, `${earlier}, ${later} + ${other}`);
      }
    }
    assert.equal(commit(...attempts('failed', 'errored', 'passed')), 'passed');
  });

  it('does not turn to errored, nor back to waiting, when a runner is lost and the next attempt follows', () => {
    assert.equal(commit(...attempts('running')), 'building');
    assert.equal(commit(...attempts('lost', 'enqueued')), 'building');
    assert.equal(commit(...attempts('lost', 'running')), 'building');
    assert.equal(commit(...attempts('lost', 'lost', 'enqueued')), 'building');
    assert.equal(commit(...attempts('lost', 'lost', 'lost')), 'errored');
    assert.equal(commit(...attempts('lost', 'passed')), 'passed');
    // A rerun of what is over begins anew.
    assert.equal(commit(...attempts('failed', 'enqueued')), 'waiting_for_builds');
    assert.equal(commit(...attempts('lost', 'failed', 'enqueued')), 'waiting_for_builds');
  });

  it('counts the newest attempt of each variant', () => {
    const of = (variant: string, attempt: number, state: BuildState): BuildFact => ({
      suite_name: '7',
      variant,
      attempt,
      state,
    });
    assert.equal(commit(of('A=1', 1, 'failed'), of('A=2', 1, 'passed')), 'failed');
    assert.equal(commit(of('A=1', 1, 'failed'), of('A=2', 2, 'passed')), 'failed', 'another variant mends nothing');
    assert.equal(commit(of('A=1', 1, 'failed'), of('A=2', 1, 'passed'), of('A=1', 2, 'passed')), 'passed');
  });

  it('counts the variants of each suite’s last series; a request counts all that it has', () => {
    const of = (suite_name: string, variant: string, series: bigint, state: BuildState): BuildFact => ({
      suite_name,
      variant,
      attempt: 1,
      state,
      series,
    });
    const builds = [of('7', 'A=1', 1n, 'failed'), of('7', 'A=2', 2n, 'passed'), of('8', '', 1n, 'passed')];
    assert.equal(commit(...builds), 'passed');
    assert.equal(request(...builds), 'failed');
    assert.equal(commit(...builds, of('8', 'A=1', 1n, 'failed')), 'failed');
  });

  it('counts a suite that was renamed under the name with which it was last started', () => {
    const of = (suite_id: bigint | null, suite_name: string, series: bigint, state: BuildState): BuildFact => ({
      suite_id,
      suite_name,
      attempt: Number(series),
      state,
      series,
    });
    const before = of(7n, 'unit', 1n, 'failed');
    assert.equal(commit(before, of(7n, 'tests', 2n, 'passed')), 'passed');
    assert.equal(commit(before, of(8n, 'tests', 2n, 'passed')), 'failed', 'that is another suite');
    assert.equal(commit(before, of(8n, 'unit', 2n, 'passed')), 'passed', 'it was made again under its old name');
    assert.equal(commit(of(null, 'unit', 1n, 'failed'), of(7n, 'unit', 2n, 'passed')), 'passed');
    assert.equal(commit(of(null, 'unit', 1n, 'failed'), of(null, 'tests', 2n, 'passed')), 'failed');
  });

  it('is not failed by what is allowed to fail, timed out or errored; it is cancelled by what is cancelled', () => {
    for (const state of buildStates) {
      const allowed: BuildFact = { suite_name: '7', attempt: 1, state, isAllowedToFail: true };
      const expected = { failed: 'passed', timed_out: 'passed', errored: 'passed' } as Partial<
        Record<BuildState, string>
      >;
      const plain = commit({ ...allowed, isAllowedToFail: false }, ...suites('passed'));
      assert.equal(commit(allowed, ...suites('passed')), expected[state] ?? plain, state);
      assert.equal(commit(allowed, ...suites('failed')), isFinal(buildMachine, state) ? 'failed' : 'building', state);
    }
  });

  it('goes on building while a retry waits', () => {
    const [first, second] = attempts('failed', 'enqueued') as [BuildFact, BuildFact];
    assert.equal(commit(first, { ...second, isRetry: true }), 'building');
    assert.equal(commit(first, { ...second, isRetry: true, state: 'failed' }), 'failed');
  });

  it('is failed or errored while only an approval is awaited; a good or a cancelled result waits for it', () => {
    const asked: BuildFact = { suite_name: '8', attempt: 1, state: 'waiting_for_approval', isHeld: true };
    const behind: BuildFact = { suite_name: '9', attempt: 1, state: 'enqueued', isHeld: true };
    const expected = { failed: 'failed', timed_out: 'failed', errored: 'errored', skipped: 'waiting_for_builds' };
    for (const state of buildStates.filter((one) => isFinal(buildMachine, one)))
      assert.equal(
        commit(...suites(state), asked, behind),
        (expected as Partial<Record<BuildState, string>>)[state] ?? 'building',
        state,
      );
    assert.equal(request(...suites('failed'), asked, behind), 'failed');
    assert.equal(commit(...suites('failed', 'running'), asked, behind), 'building', 'something can go on');
    assert.equal(commit(...suites('failed'), { ...asked, state: 'enqueued', isHeld: false }), 'building', 'approved');
    assert.equal(commit({ ...asked, state: 'failed', isAllowedToFail: true }, behind), 'building');
  });

  it('stays what it was if a manual suite is cancelled, which counts only if nothing else was run', () => {
    const manual = (attempt: number, state: BuildState): BuildFact => ({
      suite_name: '8',
      attempt,
      state,
      isManual: true,
    });
    assert.equal(commit(...suites('passed'), manual(1, 'running')), 'building');
    assert.equal(commit(...suites('passed'), manual(1, 'cancelled')), 'passed');
    assert.equal(commit(...suites('failed'), manual(1, 'cancelled')), 'failed');
    assert.equal(commit(...suites('passed', 'cancelled'), manual(1, 'cancelled')), 'cancelled');
    assert.equal(commit(...suites('passed'), manual(1, 'failed'), manual(2, 'cancelled')), 'failed');
    assert.equal(commit(...suites('passed'), manual(1, 'passed'), manual(2, 'cancelled')), 'passed');
    assert.equal(commit(manual(1, 'cancelled')), 'cancelled');
    assert.equal(commit(...suites('skipped'), manual(1, 'cancelled')), 'cancelled');
    assert.equal(request(manual(1, 'cancelled')), 'cancelled', 'the request was for nothing else');
  });

  it('does not depend on the order in which builds are listed', () => {
    const fact = fc.record({
      suite_name: fc.constantFrom('1', '2', '3'),
      variant: fc.constantFrom('', 'A=1'),
      series: fc.bigInt(1n, 2n),
      isAllowedToFail: fc.boolean(),
      attempt: fc.integer({ min: 1, max: 3 }),
      state: fc.constantFrom(...buildStates),
      isRetry: fc.boolean(),
      isHeld: fc.boolean(),
      isManual: fc.boolean(),
    });
    const builds = fc.uniqueArray(fact, {
      selector: ({ suite_name, variant, attempt }) => `${suite_name}/${variant}/${attempt}`,
      maxLength: 12,
    });
    const shuffled = builds.chain((all) =>
      fc.tuple(fc.constant(all), fc.shuffledSubarray(all, { minLength: all.length })),
    );
    fc.assert(
      fc.property(shuffled, ([one, other]) => {
        assert.equal(commit(...one), commit(...other));
        assert.equal(request(...one), request(...other));
      }),
    );
  });
});

describe('the state of a build request', () => {
  it('follows the fetch until that is done, whatever builds there are', () => {
    const expected = { waiting: 'enqueued', running: 'fetching', errored: 'errored', cancelled: 'cancelled' } as const;
    for (const fetch of ['waiting', 'running', 'errored', 'cancelled'] as const) {
      assert.equal(buildRequestState(fetch, []), expected[fetch]);
      for (const state of buildStates) {
        const isEnding = fetch === 'cancelled' && !isFinal(buildMachine, state);
        assert.equal(buildRequestState(fetch, suites(state)), isEnding ? 'building' : expected[fetch]);
      }
    }
  });

  it('counts the newest attempts of the request that it joined as well, each by itself', () => {
    const joined = (own: BuildState[], ofFirst: BuildState[]) =>
      buildRequestState('done', suites(...own), suites(...ofFirst));
    assert.equal(joined([], ['passed', 'passed']), 'passed');
    assert.equal(joined([], ['passed', 'running']), 'building');
    assert.equal(joined(['failed'], ['running']), 'building');
    assert.equal(joined(['running'], ['failed']), 'building');
    assert.equal(joined(['failed'], ['passed']), 'failed');
    assert.equal(joined(['passed'], ['failed']), 'failed');
    assert.equal(joined(['skipped'], ['failed']), 'failed');
    assert.equal(joined(['passed'], ['cancelled']), 'cancelled');
    assert.equal(joined([], []), 'passed');
    assert.equal(buildRequestState('cancelled', suites('cancelled'), suites('running')), 'cancelled');
    assert.equal(buildRequestState('waiting', [], suites('passed')), 'enqueued');
  });

  it('is then that of the commit, but is building while its builds wait', () => {
    for (const count of [1, 2, 3, 4]) {
      for (const states of combinations(count)) {
        const builds = suites(...states);
        const ofCommit = commit(...builds);
        const expected = { waiting_for_builds: 'building', skipped: 'cancelled' }[ofCommit as string] ?? ofCommit;
        assert.equal(request(...builds), expected, states.join(' + '));
      }
    }
  });

  it('is passed when no suite applies', () => {
    assert.equal(request(), 'passed');
  });

  it('counts the newest attempts', () => {
    assert.equal(request(...attempts('failed', 'passed')), 'passed');
    assert.equal(request(...attempts('passed', 'failed')), 'failed');
    assert.equal(request(...attempts('lost', 'enqueued')), 'building');
    assert.equal(request(...attempts('lost', 'lost', 'lost')), 'errored');
  });
});

describe('the state of a project', () => {
  it('is new, and then that of its newest commit', () => {
    assert.equal(projectState(null), 'new');
    for (const state of commitStates) assert.equal(projectState(state), state);
  });
});

const ended: readonly BuildState[] = ['failed', 'errored', 'timed_out', 'cancelled'];

/** All that one step can make of some builds: any build moves on, or is lost or fails and gets its next attempt. */
function* steps(builds: BuildFact[]): Generator<BuildFact[]> {
  for (const [index, build] of builds.entries()) {
    const others = newestAttempts(builds).filter(({ suite_name }) => suite_name !== build.suite_name);
    // Only what never began is skipped, when another one that is over did not pass.
    const isVain = build.attempt === 1 && others.some(({ state }) => ended.includes(state));
    for (const state of [...buildMachine.moves[build.state], ...buildMachine.again[build.state]])
      if (state !== 'skipped' || isVain) yield builds.with(index, { ...build, state });
    if (build.state !== 'running') continue;
    const lost: BuildFact = { ...build, state: 'errored' };
    const { suite_name } = build;
    const next: BuildFact = { suite_name, attempt: build.attempt + 1, state: 'enqueued', isRetry: true };
    yield build.attempt < 3 ? [...builds.with(index, lost), next] : builds.with(index, lost);
    const failed: BuildFact = { ...build, state: 'failed' };
    if (build.attempt < 2 && builds.length < 5) yield [...builds.with(index, failed), next];
  }
}

function keyOf(builds: BuildFact[]): string {
  return builds
    .map((build) => `${build.suite_name}/${build.attempt} ${build.state} ${build.isRetry ?? false}`)
    .sort()
    .join();
}

describe('everything that can happen to the builds of a commit', () => {
  it('moves the commit and the request along their own tables, to a final state with the last build', () => {
    for (const start of [
      suites('enqueued'),
      suites('enqueued', 'enqueued'),
      suites('enqueued', 'enqueued', 'enqueued'),
    ]) {
      const seen = new Map([[keyOf(start), start]]);
      for (const builds of seen.values()) {
        const before = { commit: commit(...builds), request: request(...builds) };
        let ended = true;
        for (const next of steps(builds)) {
          ended = false;
          const after = { commit: commit(...next), request: request(...next) };
          if (after.commit !== before.commit) {
            assert.ok(commitMachine.moves[before.commit].includes(after.commit), `${before.commit} → ${after.commit}`);
          }
          if (after.request !== before.request) {
            assert.ok(buildRequestMachine.moves[before.request].includes(after.request));
          }
          seen.set(keyOf(next), next);
        }
        assert.equal(isFinal(commitMachine, before.commit), ended);
        assert.equal(isFinal(buildRequestMachine, before.request), ended);
      }
    }
  });
});
