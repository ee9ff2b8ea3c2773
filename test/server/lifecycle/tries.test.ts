import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { reasons } from '../../../src/server/lifecycle/reasons.ts';
import { isMachineFault, isTriedAgain, pauseAfter } from '../../../src/server/lifecycle/tries.ts';
import type { CannotRunReason } from '../../../src/runner/cannot-run.ts';
import type { FetchFailure } from '../../../src/runner/git/failures.ts';
import { uploadsLost, type CutReason } from '../../../src/shared/protocol/index.ts';

type Decided = keyof typeof isMachineFault;
/** Does not compile while a runner can send a reason that is not in the table. */
const undecided: Exclude<CannotRunReason | FetchFailure | CutReason, Decided>[] = [];

/** Only requests end with it. */
const ofRequests = ['configuration_invalid', 'merge_conflict'];

describe('every reason that a build ends with', () => {
  test('is decided: tried again or not', () => {
    assert.deepEqual(undecided, []);
    const ofBuilds = Object.keys(reasons).filter((reason) => ![...uploadsLost, ...ofRequests].includes(reason));
    assert.deepEqual(Object.keys(isMachineFault).toSorted(), ofBuilds.toSorted());
  });

  test('is in the table of the documentation', () => {
    const page = readFileSync('docs/suites.md', 'utf8');
    const [, section = ''] = page.split('## Again, when it was the machine\n');
    const rows = section.split('\n## ')[0]?.matchAll(/^\| (`.*`) +\| (yes|no) +\|/gm) ?? [];
    const told = Array.from(rows).flatMap(([, names = '', again]) =>
      Array.from(names.matchAll(/`(\w+)`/g), ([, name = '']): [string, boolean] => [name, again === 'yes']),
    );
    assert.deepEqual(Object.fromEntries(told), isMachineFault);
    assert.equal(told.length, Object.keys(isMachineFault).length, 'each once');
  });

  test('leads to another try if the machine is at fault, after a pause', () => {
    const byDefault = { retry_on: '["errored"]' };
    for (const [reason, isFault] of Object.entries(isMachineFault)) {
      const ended = { state: 'errored', reason, exitStatus: null, isInLog: false } as const;
      assert.equal(isTriedAgain(byDefault, ended), isFault, reason);
      assert.equal(isTriedAgain({ retry_on: '[]' }, ended), false, reason);
      assert.equal(isTriedAgain(byDefault, { ...ended, state: 'failed' }), false, `${reason} of the command`);
    }
    const unknown = { state: 'errored', reason: 'of_a_newer_runner', exitStatus: null, isInLog: false } as const;
    assert.equal(isTriedAgain(byDefault, unknown), false);
    assert.deepEqual([0, 1].map(pauseAfter), [1000, 3000]);
  });
});
