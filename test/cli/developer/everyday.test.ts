import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import type { ChildProcess } from 'node:child_process';
import { buffer } from 'node:stream/consumers';
import { test } from 'node:test';
import { describeCommands } from '../../support/commands.ts';
import type { Record_ } from '../../support/client.ts';
import { Developer } from '../../support/developer.ts';

const bytesOf = ({ stdout }: ChildProcess): Promise<Buffer> => buffer(stdout ?? assert.fail());

const sha = 'c0ffee'.padEnd(40, '0');

describeCommands('the everyday commands', ['unit', 'lint'], ({ service, runner, at }) => {
  /** Both suites of a request, as a runner does them. */
  async function build(statuses: Record<string, number>, message = 'Mend the sluice\n'): Promise<void> {
    await (await runner.take('fetch_commit')).fetched({ message });
    await suitesEnd(statuses);
  }
  async function suitesEnd(statuses: Record<string, number>): Promise<void> {
    for (const _ of Object.keys(statuses)) {
      const task = await runner.take('run_suite');
      const name = task.order.work.environment.HEADRACE_SUITE ?? '';
      await task.writeLog(`hello from ${name}\n\u001b[32mgreen\u001b[0m \u001b]0;owned\u0007\n`);
      await task.exit(statuses[name] ?? assert.fail(name));
    }
  }
  const json = async (...args: string[]): Promise<Record<string, unknown>> => {
    const { status, out, err } = await at.developer.run([...args, '--json']);
    assert.equal(status, 0, err);
    return JSON.parse(out) as Record<string, unknown>;
  };

  test('run -f shows every suite, then the log of what failed, and ends with the result', async () => {
    const passing = at.developer.run(['run', '-f']);
    await build({ unit: 0, lint: 0 });
    const passed = await passing;
    assert.deepEqual([passed.status, passed.err], [0, '']);
    assert.match(passed.out, /^request \d+ of main: enqueued\n/);
    for (const line of [/^unit: passed \(\d+s\)$/m, /^lint: passed \(\d+s\)$/m, /^request \d+: passed$/m])
      assert.match(passed.out, line);
    assert.doesNotMatch(passed.out, /hello from/);

    const failing = at.developer.run(['run', 'main', '--follow']);
    await build({ unit: 0, lint: 7 });
    const failed = await failing;
    assert.equal(failed.status, 1);
    assert.match(failed.out, /── log of lint, build \d+\nhello from lint\ngreen \n$/);
    assert.doesNotMatch(failed.out, /hello from unit/);
  });

  test('asks, follows, cancels and runs again', async () => {
    const asked = await at.developer.run(['run', sha]);
    assert.deepEqual([asked.status, asked.err], [0, '']);
    const [, id = ''] =
      /Requested a build of c0ffee0+ in Sluice\. Follow it with: headrace watch (\d+)\n$/.exec(asked.out) ?? [];
    const cancelled = await json('cancel', id);
    assert.deepEqual([cancelled.id_str, cancelled.build_state], [id, 'cancelled']);
    const watched = await at.developer.run(['watch', id]);
    assert.deepEqual(
      [watched.status, /^request \d+ of c0ffee0+: cancelled\n/.test(watched.out)],
      [0, true],
      watched.out,
    );
    for (const flag of ['-f', '--follow', '--wait'])
      assert.equal((await at.developer.run(['watch', id, flag])).status, 4, flag);

    const rerun = at.developer.run(['rerun', id, '--failed', '-f']);
    await suitesEnd({ unit: 0, lint: 0 });
    assert.deepEqual([(await rerun).status, (await rerun).err], [0, '']);
    assert.match((await rerun).out, /unit: passed/);
  });

  test('shows tables that a person can read, and JSON with whole identifiers', async () => {
    const status = await at.developer.run(['status']);
    assert.equal(status.status, 0, status.err);
    const [, request = ''] =
      /^request {2}(\d+) of main, (?:just now|\d+ minutes? ago), by person/m.exec(status.out) ?? [];
    assert.match(status.out, /^project {2}Sluice$/m);
    assert.match(status.out, /^commit {3}c0ffee000000 Mend the sluice$/m);
    assert.match(status.out, /^SUITE {2}STATE {3}TIME {2}WHY {2}BUILD$/m);
    const shown = await json('status', 'main');
    assert.deepEqual((shown.request as Record_).id_str, request);
    assert.deepEqual((shown.builds as { suite: string }[]).map(({ suite }) => suite).toSorted(), ['lint', 'unit']);
    const { out } = await at.developer.run(['projects', '--json']);
    assert.ok(out.includes(`"id": ${String(at.project.id)},`), 'no digit is lost');
    const projects = await at.developer.run(['projects']);
    assert.match(projects.out, /^NAME {4}STATE {3}REPOSITORY +ID\nSluice {2}passed {2}git@example\.org:team/);
    const builds = await at.developer.run(['builds', '--limit', '2']);
    assert.equal(builds.out.split('\n').length, 4);
    assert.match(builds.out, /^SUITE +STATE +TIME +MADE +BUILD\n/);
    const two = (await json('builds', '--limit', '2')) as unknown as { suite: string; attempt: number }[];
    assert.deepEqual([two.length, typeof two[0]?.attempt], [2, 'number']);
  });

  test('logs are copied byte for byte, and followed to their end', async () => {
    const asking = await at.developer.run(['run']);
    assert.equal(asking.status, 0);
    await (await runner.take('fetch_commit')).fetched();
    const first = await runner.take('run_suite');
    const second = await runner.take('run_suite');
    const id = first.order.work.environment.HEADRACE_BUILD_ID ?? '';
    await first.writeLog(Buffer.from([0x61, 0xff, 0x1b, 0x5b, 0x32, 0x4a, 0x0a]));
    const found = await at.developer.run(['grep', 'a.*']);
    assert.match(found.out, /^SUITE +STATE +MADE +BUILD +LINE +TEXT\n/);
    assert.match(found.out, new RegExp(`${id} +1 +a`));
    assert.ok(!found.out.includes('\u001b'), 'a line does nothing to the terminal');
    const none = await at.developer.run(['grep', 'no such line', '--suite', 'unit']);
    assert.deepEqual([none.status, none.out], [1, 'No log of Sluice has a line that matches no such line.\n']);
    assert.equal((await at.developer.run(['grep', '('])).status, 2);
    const following = at.developer.start(['logs', id, '-f']);
    const bytes = bytesOf(following.child);
    await first.writeLog('and more\n');
    const noise = randomBytes(19_000);
    await first.writeLog(noise);
    await first.writeLog(Buffer.from('€').subarray(0, 2));
    await first.exit(0);
    await second.exit(0);
    const whole = Buffer.concat([
      Buffer.from([0x61, 0xff, 0x1b, 0x5b, 0x32, 0x4a, 0x0a]),
      Buffer.from('and more\n'),
      noise,
      Buffer.from('€').subarray(0, 2),
    ]);
    assert.equal((await following.ended).status, 0);
    assert.ok(whole.equals(await bytes), 'followed into a pipe');
    const copying = at.developer.start(['logs', id]);
    assert.ok(whole.equals(await bytesOf(copying.child)), 'copied into a pipe');
    const over = at.developer.start(['logs', id, '-f']);
    assert.ok(whole.equals(await bytesOf(over.child)), 'followed when it was over');
    const copied = await at.developer.run(['logs', id]);
    const bySuite = await at.developer.run(['logs', 'nonsense']);
    assert.deepEqual([bySuite.status, /has no build and no suite nonsense/.test(bySuite.err)], [2, true]);
    const name = first.order.work.environment.HEADRACE_SUITE ?? '';
    assert.equal((await at.developer.run(['logs', name])).out, copied.out);
  });

  test('name the step in which a build failed, and what was skipped behind it', async () => {
    const stepStates = [
      { name: 'configure', state: 'passed' as const },
      { name: 'compile', state: 'failed' as const },
      { name: 'tidy up', state: 'skipped' as const },
    ];
    const steps = stepStates.flatMap(({ name }, nth) => [
      [`steps[${nth}][name]`, name],
      [`steps[${nth}][command]`, 'make'],
    ]);
    const stepwise = await at.alice.createSuite(at.project, {
      ...Object.fromEntries(steps),
      command: '',
      name: 'stepwise',
    });
    await at.alice.createSuite(at.project, { name: 'behind', 'needs[]': stepwise.id_str });
    const following = at.developer.run(['run', '-f', '--suite', 'behind']);
    await (await runner.take('fetch_commit')).fetched();
    const task = await runner.take('run_suite');
    await task.writeLog('no rule to make target\n');
    await task.exit(2, { stepStates });
    const { status, out, err } = await following;
    assert.deepEqual([status, err], [1, '']);
    assert.match(out, /^stepwise: failed \(\d+s\) in step compile$/m);
    assert.match(out, /^behind: skipped$/m);
    assert.match(out, /── log of stepwise, build \d+\nno rule to make target\n$/);
    assert.doesNotMatch(out, /log of behind/);
    const shown = await at.developer.run(['status']);
    assert.match(shown.out, /^stepwise +failed +\d+s +in step compile +\d+$/m);
    assert.match(shown.out, /^behind +skipped +needed_suite_failed +\d+$/m);
    const [request] = (await at.alice.get(`/projects/${at.project.id}/build_requests?limit=1`)).list;
    const watched = await at.developer.run(['watch', request?.id_str ?? '', '-f']);
    assert.deepEqual([watched.status, /in step compile/.test(watched.out)], [1, true], watched.out);
    for (const { id } of (await at.alice.get(`/projects/${at.project.id}/suites`)).list.slice(-2).toReversed())
      await at.alice.delete(`/projects/${at.project.id}/suites/${id}`);
  });

  test('a build is called what status calls it', async () => {
    const suite = await at.alice.createSuite(at.project, { name: 'test', 'matrix[]': 'NODE=22,24' });
    const ask = async (count: number): Promise<void> => {
      await at.developer.run(['run', '--suite', 'test']);
      await (await runner.take('fetch_commit')).fetched();
      for (let left = count; left > 0; left -= 1) {
        const task = await runner.take('run_suite');
        await task.writeLog(`this is ${task.order.work.environment.HEADRACE_VARIANT}\n`);
        await task.exit(0);
      }
    };
    await ask(2);
    for (const variant of ['NODE=22', 'NODE=24']) {
      const shown = (await at.developer.run(['status'])).out;
      const name = `test (${variant})`;
      assert.ok(shown.includes(`\n${name}  passed`), shown);
      const log = await at.developer.run(['logs', name]);
      assert.deepEqual([log.status, log.out, log.err], [0, `this is ${variant}\n`, '']);
      assert.match((await at.developer.run(['shell', name], 'true')).err, /Build \d+ did not fail: it is passed/);
    }
    assert.match((await at.developer.run(['logs', 'test'])).out, /^this is NODE=/);
    for (const [named, message] of [
      ['test (NODE=23)', /test \(NODE=23\) was not built on main\. See: headrace status/],
      ['other (NODE=22)', /has no build and no suite other \(NODE=22\)/],
    ] as const) {
      const refused = await at.developer.run(['logs', named]);
      assert.equal(refused.status, 2);
      assert.match(refused.err, message);
    }
    // What the matrix has no more is not shown any more.
    await at.alice.put(`/projects/${at.project.id}/suites/${suite.id}`, { 'matrix[]': 'NODE=24,26' });
    await ask(2);
    const { builds } = await json('status');
    const names = (builds as { suite: string }[]).map((one) => one.suite).filter((name) => name.startsWith('test'));
    assert.deepEqual(names.toSorted(), ['test (NODE=24)', 'test (NODE=26)']);
    await at.alice.delete(`/projects/${at.project.id}/suites/${suite.id}`);
  });

  test('names its mistakes, and which project it means', async () => {
    const lost = await Developer.of(service, at.alice);
    const cases: [string[], RegExp][] = [
      [['status'], /is not a git repository with a remote\. Name the project with --project NAME/],
      [['status', '--project', 'nonsense'], /There is no project named nonsense/],
      [['status', '--project', '123456'], /There is no project 123456 that you can see/],
      [['status', 'v9', '--project', 'Sluice'], /Nothing was built of v9 in Sluice\. Start with: headrace run v9/],
      [['deploy', 'nowhere', '--project', 'Sluice'], /has no deploy strategy nowhere\. It has: none/],
      [['run', '-f', '--suite', 'x', 'main', '--project', 'Sluice'], /has no suite x\. It has: unit, lint/],
      [['builds', '--limit', '0'], /--limit is a whole number/],
    ];
    for (const [args, message] of cases) {
      const { status, out, err } = await lost.run(args);
      assert.deepEqual([status, out], [2, ''], args.join(' '));
      assert.match(err, message);
    }
    assert.equal((await lost.run(['status'], '', { HEADRACE_PROJECT: String(at.project.id) })).status, 0);
    assert.equal((await lost.run(['status', '--project', 'Sluice'])).status, 0);
    const narrow = await Developer.of(service, at.alice, ['projects']);
    assert.equal((await narrow.run(['status', '--project', 'Sluice'])).status, 3);
  });
});
