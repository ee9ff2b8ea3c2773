import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import type { Record_ } from '../../support/client.ts';
import { Brought, pull, push, sha } from '../../support/joined.ts';
import { describeWithRunner } from '../../support/runner.ts';

const described = 'the suites of a request that joined another one';

describeWithRunner(described, (service, runner) => {
  const build = (all: readonly Record_[], suite: string): Record_ =>
    all.findLast(({ suite_name: name }) => name === suite) ?? assert.fail(`no build of ${suite}`);

  /** A suite `compile` of every request, and one of pull requests alone that needs it. */
  const begin = async (fields: (compile: Record_) => Record<string, string> = () => ({})): Promise<Brought> => {
    const brought = await Brought.begin(service, runner, []);
    const compile = await brought.user.createSuite(brought.project, { name: 'compile' });
    await brought.suiteFor('pull_request', { name: 'preview', 'needs[]': compile.id_str, ...fields(compile) });
    return brought;
  };
  const both = async (brought: Brought): Promise<[first: bigint, second: bigint]> => {
    const made: [bigint, bigint] = [await brought.bring(push), await brought.bring(pull)];
    await brought.fetched();
    await brought.fetched();
    return made;
  };

  test('wait for what they need of the first, and begin when that has passed', async () => {
    const brought = await begin();
    const [first, second] = await both(brought);
    const waiting = build(await brought.builds(second), 'preview');
    assert.equal(waiting.waiting_reason, 'waits for compile');
    assert.deepEqual(await brought.run(1), ['compile']);
    assert.deepEqual(await brought.run(1), ['preview']);
    assert.deepEqual(await brought.ran(first), ['compile 1 passed']);
    assert.deepEqual(await brought.ran(second), ['preview 1 passed']);
    const details = (await brought.user.get(`${brought.path}/builds/${waiting.id}/details`)).record;
    const [needed] = details.needs as Record_[];
    assert.deepEqual([needed?.suite_name, needed?.build_state], ['compile', 'passed']);
  });

  test('are skipped where it fails, and run after it where either is restarted', async () => {
    const brought = await begin();
    const [first, second] = await both(brought);
    await brought.run(1, 'compile');
    assert.deepEqual(await brought.ran(second), ['preview 1 skipped']);
    assert.deepEqual(await brought.seen(second), ['failed', first]);
    const restart = (one: Record_) => brought.user.post(`${brought.path}/builds/${one.id}/restart`);
    assert.equal((await restart(build(await brought.builds(second), 'preview'))).status, 201);
    assert.deepEqual(await brought.seen(first), ['building', null]);
    assert.deepEqual(await brought.run(1, 'compile'), ['compile']);
    assert.equal((await restart(build(await brought.builds(first), 'compile'))).status, 201);
    assert.deepEqual(await brought.run(1), ['compile']);
    assert.deepEqual(await brought.run(1), ['preview']);
    assert.deepEqual(await brought.ran(first), ['compile 1 failed', 'compile 2 failed', 'compile 3 passed']);
    assert.deepEqual(await brought.ran(second), ['preview 1 skipped', 'preview 2 skipped', 'preview 3 passed']);
    assert.deepEqual(await brought.seen(second), ['passed', first]);
  });

  test('begin with the files of the first, also where they joined after these were left', async () => {
    for (const isLate of [false, true]) {
      const brought = await begin((compile) => ({ files_from_id: compile.id_str }));
      const first = await brought.bring(push);
      let second = isLate ? 0n : await brought.bring(pull);
      await brought.fetched();
      if (!isLate) await brought.fetched();
      const [task] = (await brought.take(1)).values();
      assert.equal(task?.order.work.keep?.forSuites, 'passed');
      const kept = { location: randomUUID(), name: randomUUID(), key: 'a'.repeat(64) };
      await task.exit(0, { kept });
      if (isLate) {
        assert.deepEqual(await brought.seen(first), ['passed', null]);
        second = await brought.bring(pull);
      }
      const preview = await runner.take('run_suite', { location: kept.location });
      const build = task.order.work.environment.HEADRACE_BUILD_ID;
      assert.deepEqual(preview.order.work.files, { suite: 'compile', build, kept: { name: kept.name, key: kept.key } });
      const rows = service.store.db.read.selectFrom('kept_builds').select('free_since').where('name', '=', kept.name);
      assert.equal((await rows.executeTakeFirstOrThrow()).free_since, null);
      await preview.exit(0);
      assert.notEqual((await rows.executeTakeFirstOrThrow()).free_since, null);
      assert.deepEqual(await brought.ran(first), ['compile 1 passed']);
      assert.deepEqual(await brought.seen(second), ['passed', first]);
    }
  });

  test('have the first run again what left the files where these are gone', async () => {
    const brought = await begin((compile) => ({ files_from_id: compile.id_str }));
    const [first, second] = await both(brought);
    await brought.run(1); // nothing is kept
    assert.deepEqual(await brought.run(1), ['compile']);
    assert.deepEqual(await brought.ran(first), ['compile 1 passed', 'compile 2 passed']);
    await runner.assertIdle();
    assert.deepEqual(await brought.ran(second), ['preview 1 errored']);
    assert.deepEqual(await brought.seen(second), ['errored', first]);
  });

  test('are built for each where variables that are limited to refs make them differ [promise: limited-variables]', async () => {
    const brought = await Brought.begin(service, runner, []);
    const suite = (name: string) => brought.user.createSuite(brought.project, { name });
    const [ship, own, far] = [await suite('ship'), await suite('own'), await suite('far')];
    await brought.user.createVariable(brought.project, ship, { name: 'KEY', 'refs[]': 'topic' });
    await brought.user.createVariable(brought.project, far, { name: 'KEY', 'refs[]': 'main' });
    // What the suite has itself takes the place of what the project has for some branches.
    const shared = { name: 'SITE', content: 'x', 'refs[]': 'topic' };
    await brought.user.post(`${brought.path}/environment_variables`, shared);
    for (const one of [own, far]) await brought.user.createVariable(brought.project, one, { name: 'SITE' });
    for (const [one, other, commit] of [
      [push, pull, sha],
      [pull, push, 'd'.repeat(40)],
    ] as const) {
      const [first, second] = [await brought.bring(one, commit), await brought.bring(other, commit)];
      await brought.fetched({ sha: commit });
      await brought.fetched({ sha: commit });
      const tasks = [];
      for (let at = 0; at < 4; at += 1) tasks.push(await runner.take('run_suite'));
      await runner.assertIdle();
      const given = tasks.map(
        ({ order: { work } }) => `${work.environment.HEADRACE_SUITE} ${'KEY' in work.environment}`,
      );
      assert.deepEqual(given.toSorted(), ['far false', 'own false', 'ship false', 'ship true']);
      for (const task of tasks) await task.exit(0);
      assert.deepEqual(
        (await brought.builds(second)).map(({ suite_name: name }) => name),
        ['ship'],
      );
      assert.deepEqual(await brought.seen(second), ['passed', first]);
    }
  });

  test('get no files of the first that came about with variables that are limited to refs [promise: limited-variables]', async () => {
    for (const isLate of [false, true]) {
      const brought = await Brought.begin(service, runner, []);
      const from = ({ id_str: id }: Record_) => ({ 'needs[]': id, files_from_id: id });
      const make = await brought.suiteFor('push', { name: 'make' });
      const sign = await brought.user.createSuite(brought.project, { name: 'sign', ...from(make) });
      await brought.suiteFor('pull_request', { name: 'peek', ...from(make) });
      await brought.suiteFor('pull_request', { name: 'preview', ...from(sign) });
      const key = await brought.user.createVariable(brought.project, make, { name: 'KEY', 'refs[]': 'topic' });
      const location = randomUUID();
      const ran: string[] = [];
      /** Runs the builds that wait; each leaves its files. */
      const run = async (count: number): Promise<void> => {
        for (let at = 0; at < count; at += 1) {
          const task = await runner.take('run_suite', { location });
          const { environment, files } = task.order.work;
          const { HEADRACE_EVENT: event, HEADRACE_SUITE: suite } = environment;
          const has = files === undefined ? '' : ` with files of ${files.suite}`;
          ran.push(`${event} ${suite}${'KEY' in environment ? ' with KEY' : ''}${has}`);
          await task.exit(0, { kept: { location, name: randomUUID(), key: 'a'.repeat(64) } });
        }
        await runner.assertIdle();
      };
      await brought.bring(push);
      let second = isLate ? 0n : await brought.bring(pull);
      await brought.fetched();
      if (!isLate) await brought.fetched();
      if (isLate) {
        await run(2);
        // The variable does not count any more for what is built now, but for what was built with it.
        await brought.user.delete(`${brought.path}/suites/${make.id}/environment_variables/${key.id}`);
        second = await brought.bring(pull);
      }
      await run(isLate ? 2 : 5);
      const ofPull = isLate
        ? ['pull_request peek', 'pull_request preview']
        : ['pull_request peek', 'pull_request preview with files of sign', 'pull_request sign'];
      assert.deepEqual(ran.toSorted(), [...ofPull, 'push make with KEY', 'push sign with files of make']);
      assert.equal((await brought.seen(second))[0], 'passed');
    }
  });

  test('wait for the approval of the first', async () => {
    const brought = await Brought.begin(service, runner, []);
    await brought.user.createSuite(brought.project, { name: 'careful', approval: 'true' });
    const [first, second] = await both(brought);
    assert.equal((await brought.request(second)).waiting_reason, 'waits for approval');
    const held = build(await brought.builds(first), 'careful');
    assert.equal((await brought.user.post(`${brought.path}/builds/${held.id}/approve`)).status, 200);
    assert.deepEqual(await brought.run(1), ['careful']);
    assert.deepEqual(await brought.seen(second), ['passed', first]);
  });

  test('are those of the file of the commit, as for the first', async () => {
    const brought = await Brought.begin(service, runner, [], { config_file: '.headrace.toml' });
    const text =
      '[[suites]]\nname = "compile"\ncommand = "make"\n\n[[suites]]\nname = "test"\ncommand = "make check"\nneeds = ["compile"]\nfiles_from = "compile"\n[[suites.rules]]\nsubject = "request.event"\noperator = "equals"\nvalue = "pull_request"\n';
    const [first, second] = [await brought.bring(push), await brought.bring(pull)];
    for (const _ of [first, second]) await brought.fetchedBy({ text, path: '.headrace.toml', before: null });
    const [task] = (await brought.take(1)).values();
    assert.equal(task?.order.work.keep?.forSuites, 'passed');
    await task.exit(0);
    assert.deepEqual(await brought.ran(second), ['test 1 enqueued']);
    await brought.user.post(`${brought.path}/build_requests/${first}/cancel`);
  });
});
