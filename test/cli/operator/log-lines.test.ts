import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { countRepeats, inWords } from '../../../src/cli/operator/log-lines.ts';
import { longestWait } from '../../support/pauses.ts';
import { folderFor } from '../../support/folders.ts';
import { startProgram } from '../../support/program.ts';

const line = (more: object, time = 1_760_000_000_000): string => `${JSON.stringify({ level: 40, time, ...more })}\n`;

describe('the log', () => {
  test('on a terminal is a line for people', () => {
    const err = {
      type: 'Error',
      message: 'lost',
      stack: 'Error: lost\n  at x',
      cause: { type: 'Error', message: 'dead' },
    };
    assert.match(
      inWords(line({ msg: 'a call failed', err, id: 'r1' })),
      /^\d\d:\d\d:\d\d warning: a call failed: lost: dead \[id=r1\]\n$/,
    );
    assert.match(inWords(line({ level: 30, msg: 'well' })), /^\d\d:\d\d:\d\d well\n$/);
    assert.match(inWords(line({ msg: 'x', err }), true), /\n {2}at x\n$/);
  });

  test("gives a stranger's words no power over the terminal", () => {
    const attack = '\u001b]0;gone\u0007\r\u009b2J\u202eevil\nheadrace: all is well';
    for (const showsStack of [false, true]) {
      const err = { type: 'Error', message: attack, stack: `Error: ${attack}` };
      const text = inWords(line({ msg: attack, branch: attack, err }), showsStack);
      assert.doesNotMatch(text.replaceAll('\n', ''), /[\p{Cc}\u202e]/u);
      if (!showsStack) assert.equal(text.split('\n').length, 2, 'it is one line');
    }
  });

  test('counts what repeats, and says how often it did', (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const said: string[] = [];
    const lines = countRepeats((one) => void said.push(one), 1000);
    for (const time of [1, 2, 3]) lines.write(line({ msg: 'away' }, time));
    lines.write(line({ msg: 'other' }));
    assert.equal(said.length, 2);
    t.mock.timers.tick(1000);
    assert.deepEqual(
      said.slice(2).map((one) => JSON.parse(one) as unknown),
      [{ level: 40, time: 3, msg: 'away', repeated: 2 }],
    );
    assert.match(inWords(said[2] ?? ''), /away \(2 more times\)\n$/);
    t.mock.timers.tick(1000);
    lines.write(line({ msg: 'away' }, 4));
    assert.equal(said.length, 4, 'after a quiet while it is news again');
    lines.write(line({ msg: 'away' }, 5));
    lines.flush();
    assert.equal(said.length, 5, 'nothing is lost at the end');
  });

  test('has the form that is asked for, and the address is said in both', { timeout: longestWait }, async (t) => {
    const afterwards = (cleanUp: () => void | Promise<void>): void => t.after(cleanUp);
    for (const [format, form] of [
      ['text', /^\d\d:\d\d:\d\d stopping \[signal=SIGTERM/m],
      ['json', /^\{.*"msg":"stopping"\}$/m],
    ] as const) {
      const args = ['serve', '--no-runner', '--port', '0', '--data-dir', folderFor(afterwards)];
      const started = startProgram({ afterwards }, args, { HEADRACE_LOG_FORMAT: format });
      const { promise: listening, resolve } = Promise.withResolvers<void>();
      started.process.stdout?.on('data', () => /^listening on https:/m.test(started.said()) && resolve());
      await Promise.race([listening, started.exited]);
      started.process.kill('SIGTERM');
      assert.equal(await started.exited, 0, started.said());
      assert.match(started.said(), form);
    }
  });
});
