/* oxlint-disable no-control-regex -- control characters are what this is about */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { recordHeartbeats } from '../../../src/server/auth/runner-heartbeats.ts';
import { describeCommands } from '../../support/commands.ts';
import type { Terminal } from '../../support/developer.ts';
import type { Task } from '../../support/runner.ts';
import type { SuiteOrder } from '../../../src/shared/protocol/index.ts';

describeCommands('on a terminal', ['unit', '水門の試験'], ({ service, runner, at }) => {
  async function begun(terminal: Terminal): Promise<Task<SuiteOrder>[]> {
    await (await runner.take('fetch_commit')).fetched({ message: 'Mend \u001b[2J the \u202esluice\n' });
    const tasks = [await runner.take('run_suite'), await runner.take('run_suite')];
    await terminal.until(/● unit .*running[^]*● 水門の試験 .*running/);
    return tasks.toSorted((a, b) => nameOf(a).localeCompare(nameOf(b), 'en'));
  }
  const nameOf = (task: Task<SuiteOrder>): string => task.order.work.environment.HEADRACE_SUITE ?? '';
  /** What a person sees, without what differs from run to run. */
  const seen = ({ text }: Terminal): string => text.replaceAll(/\d{15,}/g, 'ID').replaceAll(/ +\d+s/g, ' 0s');

  test('a build is followed in lines that change in place, and leaves them once', async () => {
    const terminal = at.developer.sit(['run', '-f']);
    const [unit, other] = await begun(terminal);
    await unit?.writeLog('compiling \u001b[2J\u001b]0;owned\u0007the gate\n');
    await terminal.until(/unit +running +\d+s +compiling the gate$/m);
    await unit?.exit(0);
    await other?.writeLog('\u001b[31mleaks\u001b[0m \u001b[6n\u202e\n');
    await other?.exit(1);
    assert.equal(await terminal.end(), 1);
    assert.equal(
      seen(terminal),
      [
        '✗ failed · request ID of main',
        '  ✓ unit        passed 0s',
        '  ✗ 水門の試験  failed 0s',
        '',
        '── log of 水門の試験, build ID',
        'leaks �',
      ].join('\n'),
    );
    assert.match(terminal.raw, /\u001b\[31mleaks\u001b\[0m/);
  });

  test('a request says why it has not begun', async () => {
    const terminal = at.developer.sit(['run', '-f']);
    await terminal.until(/^· enqueued \d+s · request \d+ of main · no runner is connected$/m);
    const plain = at.developer.sit(['watch', '--plain']);
    await plain.until(/^request \d+: no runner is connected$/m);
    for (const task of await begun(terminal)) await task.exit(0);
    assert.equal(await terminal.end(), 0);
    assert.equal(await plain.end(), 0);
    assert.doesNotMatch(terminal.text, /no runner/);
  });

  test('a shell is offered where one can be opened, and only there', async (t) => {
    // Its runner stays connected, however long the commands take.
    const heartbeats = recordHeartbeats(service.store.db, () => [runner.self.holder], 2000);
    t.after(() => heartbeats.close());
    await heartbeats.came(runner.self, { version: '', trouble: '' });
    const offer = 'Open a shell in its files with: headrace shell ID';
    const files = { location: 'location', name: 'name', key: 'ab'.repeat(32) };
    for (const [kept, offers] of [
      [files, [offer]],
      [undefined, []],
    ] as const) {
      const terminal = at.developer.sit(['run', '-f']);
      const [unit, other] = await begun(terminal);
      await unit?.exit(0);
      await other?.exit(1, kept && { kept });
      assert.equal(await terminal.end(), 1);
      const shown = (one: Terminal): string[] => seen(one).match(/^Open a shell.*$/gm) ?? [];
      assert.deepEqual(shown(terminal), offers);
      const log = at.developer.sit(['logs', '水門の試験']);
      assert.equal(await log.end(), 0);
      assert.deepEqual(shown(log), offers);
      if (kept) await refusesThird(terminal);
    }
  });

  /** Of the account's shells at one runner. */
  async function refusesThird({ text }: Terminal): Promise<void> {
    const [, id = ''] = /headrace shell (\d+)/.exec(text) ?? [];
    const path = `/projects/${at.project.id}/builds/${id}/shell`;
    const shells = [(await at.alice.post(path)).record, (await at.alice.post(path)).record];
    const { status, err } = await at.developer.run(['shell', id], 'echo no');
    assert.equal(status, 3);
    assert.match(err, /That runner is at its limit of open shells: four in total, two per account\./);
    for (const shell of shells) await at.alice.delete(`${path}/${shell.id}`);
  }

  test('no line is wider than a narrow screen', async () => {
    const terminal = at.developer.sit(['run', '-f'], { columns: 40 });
    const [unit, other] = await begun(terminal);
    await unit?.writeLog(`${'a long line '.repeat(20)}\n${'長い行'.repeat(40)}\n`);
    await terminal.until(/長/);
    for (const task of [unit, other]) await task?.exit(0);
    assert.equal(await terminal.end(), 0);
    assert.equal(
      seen(terminal),
      ['✓ passed · request ID …', '  ✓ unit        passed 0s', '  ✓ 水門の試験  passed 0s']
        .join('\n')
        .replace('ID …', terminal.text.includes('…') ? 'ID …' : 'ID of main'),
    );
    for (const args of [['status'], ['builds'], ['projects']]) {
      const table = at.developer.sit(args, { columns: 40 });
      assert.equal(await table.end(), 0);
      const { out } = await at.developer.run(args);
      assert.equal(table.text.split('\n').length, out.trimEnd().split('\n').length, table.text);
    }
  });

  test('Ctrl-C leaves the build running and says how to come back', async () => {
    const terminal = at.developer.sit(['run', '-f']);
    const tasks = await begun(terminal);
    terminal.type('\u0003');
    assert.equal(await terminal.end(), 130);
    const [, id = ''] = /The build continues\. Follow it with: headrace watch (\d+)$/.exec(terminal.text) ?? [];
    const { record } = await at.alice.get(`/projects/${at.project.id}/build_requests/${id}`);
    assert.equal(record.build_state, 'building');
    const back = at.developer.sit(['watch', id]);
    await back.until(/running/);
    for (const task of tasks) await task.exit(0);
    assert.equal(await back.end(), 0);
  });

  test('colours and changing lines are left out where they are not wanted', async () => {
    const plain = at.developer.sit(['status', '--plain']);
    assert.equal(await plain.end(), 0);
    assert.ok(!plain.raw.includes('\u001b'));
    assert.match(plain.text, /Mend �\[2J the �sluice/);
    const colourless = at.developer.sit(['status'], { env: { NO_COLOR: '1' } });
    assert.equal(await colourless.end(), 0);
    assert.ok(!colourless.raw.includes('\u001b'));
    const coloured = at.developer.sit(['status']);
    assert.equal(await coloured.end(), 0);
    assert.match(coloured.raw, /\u001b\[32mpassed\u001b\[0m/);
    assert.equal(coloured.text, plain.text);
  });

  test('every other command shows there what it says without one', async () => {
    const file = join(at.developer.folder, 'sluice.toml');
    writeFileSync(file, (await at.developer.run(['export'])).out);
    const commands = [
      ['whoami'],
      ['projects'],
      ['builds'],
      ['logs', 'unit'],
      ['explain'],
      ['export'],
      ['apply', '-f', file],
      ['completion', 'bash'],
      ['cancel'],
      ['deploy', 'nowhere'],
      ['help'],
    ];
    const aged = (text: string): string => text.replaceAll(/(\d+m)?\d+s|\d+ minutes? ago|just now/g, '0s').trimEnd();
    for (const args of commands) {
      const terminal = at.developer.sit(args, { columns: 500 });
      const status = await terminal.end();
      const piped = await at.developer.run(args);
      assert.equal(status, piped.status, terminal.text);
      assert.deepEqual(linesOf(aged(terminal.text)), linesOf(aged(piped.out + piped.err)), args.join(' '));
    }
  });
});

/** Without what only fills a line. */
function linesOf(text: string): string[] {
  return text.split('\n').map((line) => line.replaceAll(/\t| +/g, ' ').trim());
}
