import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  sortWaiting,
  notYetPassed,
  standingsOf,
  withNeeded,
  type NeedingBuild,
} from '../../../src/server/lifecycle/needs.ts';
import type { BuildState } from '../../../src/server/lifecycle/states.ts';

/** Builds in words: `name state`, then what it needs; `name/2` is its second attempt, `name@v` its variant. */
function builds(...lines: string[]): NeedingBuild[] {
  return lines.map((line) => {
    const [place = '', state = '', ...needs] = line.split(' ');
    const [, suite_name = '', variant = '', attempt = '1'] = /^(\w+)(?:@(\w+))?(?:\/(\d))?$/.exec(place) ?? [];
    const isAllowedToFail = suite_name.startsWith('soft');
    return { suite_name, variant, attempt: Number(attempt), state: state as BuildState, isAllowedToFail, needs };
  });
}

const names = (some: readonly NeedingBuild[]): string => some.map(({ suite_name: name }) => name).join(' ');

describe('builds that need others', () => {
  it('are ready, in vain or waiting as this table says', () => {
    const table: [string[], ready: string, vain: string, awaited: string][] = [
      [['a passed', 'b enqueued a'], 'b', '', ''],
      [['a running', 'b enqueued a'], '', '', 'a'],
      [['a waiting_for_approval', 'b enqueued a'], '', '', 'a'],
      [['a enqueued', 'c passed', 'b enqueued a c'], '', '', 'a'],
      [['a failed', 'b enqueued a'], '', 'b', 'a'],
      [['a errored', 'b enqueued a'], '', 'b', 'a'],
      [['a timed_out', 'b enqueued a'], '', 'b', 'a'],
      [['a cancelled', 'b enqueued a'], '', 'b', 'a'],
      [['a skipped', 'b enqueued a'], '', 'b', 'a'],
      [['soft failed', 'b enqueued soft'], 'b', '', ''],
      [['soft cancelled', 'b enqueued soft'], '', 'b', 'soft'],
      [['b enqueued nobody'], 'b', '', ''],
      [['a failed', 'a/2 enqueued', 'b enqueued a'], '', '', 'a'],
      [['a passed', 'a/2 failed', 'b enqueued a'], '', 'b', 'a'],
      [['a@x passed', 'a@y passed', 'b enqueued a'], 'b', '', ''],
      [['a@x passed', 'a@y running', 'b enqueued a'], '', '', 'a'],
      [['a@x failed', 'a@y running', 'b enqueued a'], '', 'b', 'a'],
      [['a@x running', 'a@y failed', 'a@z passed', 'b enqueued a'], '', 'b', 'a'],
    ];
    for (const [lines, ready, vain, awaited] of table) {
      const all = builds(...lines);
      const judged = sortWaiting(all.slice(-1), all);
      const waits = notYetPassed(all.at(-1) ?? assert.fail(), standingsOf(all)).join(' ');
      assert.deepEqual([names(judged.ready), names(judged.vain), waits], [ready, vain, awaited], lines.join(', '));
    }
  });

  it('are in vain with all that is behind them, however long the line', () => {
    const line = Array.from({ length: 5000 }, (_, at) => `s${at + 1} enqueued s${at}`);
    const all = builds('s0 failed', ...line, 'other enqueued');
    assert.equal(sortWaiting(all.slice(1), all).vain.length, 5000);
    assert.equal(names(sortWaiting(all.slice(1), all).ready), 'other');
  });

  it('run again with what was skipped behind them, and with what these need and did not pass', () => {
    const all = builds(
      'a failed',
      'x passed',
      'b skipped a x',
      'c skipped b d',
      'd skipped a',
      'e skipped a',
      'f running',
    );
    const again = (name: string): string =>
      names(
        withNeeded(
          all.filter(({ suite_name: own }) => own === name),
          all,
        ),
      )
        .split(' ')
        .toSorted()
        .join(' ');
    assert.equal(again('a'), 'a b c d e');
    assert.equal(again('c'), 'a b c d');
    assert.equal(again('e'), 'a e');
    assert.equal(again('x'), 'a b c d x', 'what is skipped behind it needs more than it');
  });
});
