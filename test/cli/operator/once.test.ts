import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { command } from '../../support/command.ts';
import { temporaryFolder } from '../../support/folders.ts';
import { lacks } from '../../support/machine.ts';
import { commandsWith } from '../../support/process-list.ts';
import { headrace, serve, startProgram, type Serving, type Started } from '../../support/program.ts';

describe('runner --once', () => {
  const cleanUps: (() => void | Promise<void>)[] = [];
  const place = { afterwards: (cleanUp: () => void | Promise<void>) => void cleanUps.push(cleanUp) };
  const folder = temporaryFolder();
  const scratch = join(folder, 'scratch');
  let server: Serving;
  before(async () => {
    place.afterwards(() => rmSync(folder, { recursive: true, force: true }));
    const data = join(folder, 'data');
    mkdirSync(data);
    server = await serve(place, data);
    const made = await command(['admin', 'runner', 'create', 'r', '--data-dir', data]);
    const { token } = JSON.parse(made.stdout.toString()) as { token: string };
    writeFileSync(join(folder, 'token'), token);
  });
  after(async () => {
    server.api.close();
    server.process.kill('SIGTERM');
    await server.exited;
    for (const cleanUp of cleanUps.toReversed()) await cleanUp();
  });

  const runner = (...more: string[]): Started => {
    const args = ['--url', server.address, '--ca-file', join(folder, 'data', 'tls', 'cert.pem')];
    args.push('--token-file', join(folder, 'token'), '--data-dir', join(folder, 'none'));
    return startProgram(place, ['runner', ...args, ...more], { HEADRACE_BUILD_NETWORK: 'none' });
  };
  /** The folders of runners, beside each of which its lock lies. */
  const folders = (): string[] =>
    (existsSync(scratch) ? readdirSync(scratch) : []).filter((name) => !name.endsWith('.lock'));
  /** It has asked for work: everything it needs is open. */
  const untilOpen = async (started: Started): Promise<void> => {
    while (!folders().some((name) => existsSync(join(scratch, name, 'remote-runner', 'spool')))) {
      assert.equal(started.process.exitCode, null, started.said());
      await pause(20);
    }
  };

  const isolated = { skip: lacks('isolated runner') };
  test('ends with 0 when nothing waits, and leaves nothing, not even of one that was killed', isolated, async () => {
    const killed = runner('--once', '--scratch', scratch);
    await untilOpen(killed);
    killed.process.kill('SIGKILL');
    await killed.exited;
    const kept = runner('--once', '--idle', '600', '--scratch', scratch); // it lives until it is stopped below
    while (folders().length > 1 || !kept.said().includes('git: limits')) {
      assert.equal(kept.process.exitCode, null, kept.said());
      await pause(20);
    }
    const startedAt = performance.now();
    const idle = runner('--once', '--idle', '1', '--scratch', scratch);
    assert.equal(await idle.exited, 0, idle.said());
    assert.ok(performance.now() - startedAt >= 1000);
    assert.equal(folders().length, 1, 'the folder of one that lives stays');
    kept.process.kill('SIGTERM');
    assert.equal(await kept.exited, 0, kept.said());
    assert.deepEqual(readdirSync(scratch), []);
    assert.deepEqual(commandsWith(scratch), []);
  });

  test('works in no folder that others can write to', async () => {
    const open = join(folder, 'open');
    mkdirSync(open);
    chmodSync(open, 0o777);
    const refused = runner('--once', '--idle', '0', '--scratch', open);
    assert.equal(await refused.exited, 1);
    assert.match(refused.said(), /belongs to the runner's user and that no other user can write to/);
    assert.deepEqual(readdirSync(open), []);
  });

  test('is told what is wrong with its command line', async () => {
    for (const [more, words] of [
      [['--idle', '5'], /--idle is for a runner with --once or --until-idle/],
      [['--once', '--until-idle'], /--once does one job, --until-idle several: choose one of them/],
      [['--once', '--idle', 'soon'], /--idle is a whole number of seconds/],
      [['--once', '--tag', 'a;b'], /a tag is a word/],
    ] as const) {
      const { status, stderr } = await headrace(['runner', '--url', 'https://x', '--token-file', '/x', ...more]);
      assert.equal(status, 2);
      assert.match(stderr.toString(), words);
    }
    const printed = join(folder, 'printed.json');
    writeFileSync(printed, '{"name":"r","token":"hrr_0"}\n');
    const { status, stderr } = await headrace(['runner', '--url', 'https://x', '--token-file', printed]);
    assert.deepEqual([status, stderr.toString().includes('printed.json must contain only the token')], [1, true]);
  });
});
