import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  buildMachine,
  buildRequestMachine,
  commitMachine,
  deliveryMachine,
  dependencyMachine,
  deployMachine,
  isFinal,
  type Machine,
  projectMachine,
  statesBefore,
} from '../../../src/server/lifecycle/states.ts';

const finals: Record<string, [Machine<string>, string[]]> = {
  build: [buildMachine, ['passed', 'failed', 'errored', 'timed_out', 'cancelled', 'skipped']],
  commit: [commitMachine, ['passed', 'failed', 'errored', 'cancelled', 'skipped']],
  'build request': [buildRequestMachine, ['passed', 'failed', 'errored', 'cancelled']],
  deploy: [deployMachine, ['deployed', 'failed', 'rejected', 'cancelled']],
  dependency: [dependencyMachine, ['compiled', 'compile_failed', 'shared']],
  delivery: [deliveryMachine, ['delivered', 'failed']],
  project: [projectMachine, ['passed', 'failed', 'errored', 'cancelled', 'skipped']],
};

/** The states that the work can come to from `start`. */
function reachable({ moves }: Machine<string>, start: string): Set<string> {
  const seen = new Set([start]);
  for (const state of seen) for (const next of moves[state] ?? []) seen.add(next);
  return seen;
}

for (const [name, [machine, expected]] of Object.entries(finals)) {
  describe(`the life of a ${name}`, () => {
    it('ends in its final states, and there alone', () => {
      assert.deepEqual(
        machine.states.filter((state) => isFinal(machine, state)),
        machine.states.filter((state) => expected.includes(state)),
      );
      assert.equal(machine.states.filter((state) => expected.includes(state)).length, expected.length);
    });

    it('leads from its beginning to every state', () => {
      assert.deepEqual(reachable(machine, machine.held ?? machine.initial), new Set(machine.states));
    });

    it('can end, and never comes back, from wherever it is', () => {
      for (const state of machine.states) {
        assert.ok(
          [...reachable(machine, state)].some((end) => isFinal(machine, end)),
          state,
        );
        for (const next of machine.moves[state] ?? []) {
          assert.ok(!reachable(machine, next).has(state), `${state} → ${next} leads back`);
        }
      }
    });

    it('names known states, none twice, and no move to where it is', () => {
      assert.equal(new Set(machine.states).size, machine.states.length);
      for (const table of [machine.moves, machine.again]) {
        assert.deepEqual(Object.keys(table).sort(), [...machine.states].sort());
        for (const [state, next] of Object.entries(table)) {
          assert.equal(new Set(next).size, next.length);
          assert.ok(next.every((other) => machine.states.includes(other) && other !== state));
        }
      }
    });
  });
}

describe('a state that is final', () => {
  it('is left on a wish alone, and where attempts are records of their own not even then', () => {
    for (const machine of [buildMachine, deployMachine] as Machine<string>[]) {
      for (const state of machine.states.filter((each) => isFinal(machine, each)))
        assert.equal(machine.again[state]?.length, 0, state);
    }
    for (const machine of [commitMachine, buildRequestMachine, dependencyMachine] as Machine<string>[]) {
      for (const state of machine.states.filter((each) => isFinal(machine, each))) {
        assert.notEqual(machine.again[state]?.length, 0, state);
      }
    }
    assert.deepEqual(commitMachine.again.building, ['waiting_for_builds']);
  });

  it('guards writes', () => {
    assert.deepEqual(statesBefore(buildMachine, 'passed'), ['enqueued', 'running']);
    assert.deepEqual(statesBefore(buildMachine, 'cancelled'), ['enqueued', 'waiting_for_approval', 'running']);
    assert.deepEqual(statesBefore(buildMachine, 'enqueued'), []);
    assert.deepEqual(statesBefore(dependencyMachine, 'compiled'), ['compiling']);
    assert.deepEqual(statesBefore(deployMachine, 'deployed'), ['deploying']);
  });
});
