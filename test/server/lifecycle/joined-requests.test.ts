import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Brought, pull, push, sha } from '../../support/joined.ts';
import { describeWithRunner } from '../../support/runner.ts';

describeWithRunner('a commit that a push and a pull request bring', (service, runner) => {
  const begin = (...suites: string[]) => Brought.begin(service, runner, suites.length > 0 ? suites : undefined);

  test('is built once, whichever comes first, and both requests are over together', async () => {
    for (const [one, other] of [
      [push, pull],
      [pull, push],
    ] as const) {
      const brought = await begin();
      const [first, second] = [await brought.bring(one), await brought.bring(other)];
      assert.deepEqual(await brought.seen(first), ['enqueued', null]);
      assert.deepEqual(await brought.seen(second), ['enqueued', first]);
      await brought.fetched();
      await brought.fetched();
      assert.deepEqual(await brought.seen(second), ['building', first]);
      const tasks = await brought.take(2);
      await tasks.get('unit')?.exit(0);
      assert.deepEqual(await brought.seen(second), ['building', first]);
      await tasks.get('lint')?.exit(0);
      assert.deepEqual(await brought.seen(first), ['passed', null]);
      assert.deepEqual(await brought.seen(second), ['passed', first]);
      assert.deepEqual(await brought.ran(first), ['unit 1 passed', 'lint 1 passed']);
      assert.deepEqual(await brought.ran(second), []);
      assert.ok((await brought.log(second)).includes(`Joined to build request ${first}, of `));
      assert.ok(!(await brought.log(first)).includes('Joined'));
    }
  });

  test('has only the suites run for the second that the first did not choose', async () => {
    const brought = await begin();
    await brought.suiteFor('pull_request', { name: 'preview' });
    await brought.suiteFor('push', { name: 'nightly' });
    const [first, second] = [await brought.bring(push), await brought.bring(pull)];
    await brought.fetched();
    assert.deepEqual(await brought.seen(second), ['enqueued', first]);
    await brought.fetched();
    assert.deepEqual(await brought.run(4, 'preview'), ['lint', 'nightly', 'preview', 'unit']);
    assert.deepEqual(await brought.ran(second), ['preview 1 failed']);
    assert.equal((await brought.ran(first)).length, 3);
    assert.deepEqual(await brought.seen(first), ['passed', null]);
    assert.deepEqual(await brought.seen(second), ['failed', first]);
    const { list } = await brought.user.get(`${brought.path}/build_requests/${second}/explanation`);
    const why = new Map(list.map((one) => [one.name, [one.runs, one.why]]));
    assert.deepEqual(why.get('unit'), [false, `Build request ${first} runs it.`]);
    assert.deepEqual(why.get('preview'), [true, 'All its rules match.']);
    assert.match(String(why.get('nightly')?.[1]), /^Its rule /);
  });

  test('has the second fail with the first, and not before it is over', async () => {
    const brought = await begin();
    const [first, second] = [await brought.bring(push), await brought.bring(pull)];
    await brought.fetched();
    await brought.fetched();
    const tasks = await brought.take(2);
    await tasks.get('unit')?.exit(1);
    assert.deepEqual(await brought.seen(second), ['building', first]);
    await tasks.get('lint')?.exit(0);
    assert.deepEqual(await brought.seen(first), ['failed', null]);
    assert.deepEqual(await brought.seen(second), ['failed', first]);
  });

  test('is not fetched again where the first is over, not even for a pull request of a week later', async () => {
    const brought = await begin();
    const first = await brought.bring(push);
    await brought.fetched();
    await brought.run(2);
    const second = await brought.bring(pull);
    await runner.assertIdle();
    assert.deepEqual(await brought.seen(second), ['passed', first]);
    assert.ok((await brought.log(second)).includes(`Joined to build request ${first}, of the push to topic`));
    // A third one, of the same pull request or of another, finds the same.
    const third = await brought.bring(pull);
    const other = await brought.bring({ ...pull, pullRequest: 8n, fetchRef: 'refs/pull/8/head' });
    assert.deepEqual(await brought.seen(third), ['passed', first]);
    assert.deepEqual(await brought.seen(other), ['passed', first]);
  });

  test('is joined by what comes again, also where the pull request was the first', async () => {
    const brought = await begin();
    const first = await brought.bring(pull);
    await brought.fetched();
    const second = await brought.bring(push);
    const third = await brought.bring(pull);
    assert.deepEqual(await brought.seen(second), ['building', first]);
    assert.deepEqual(await brought.seen(third), ['building', first]);
    await brought.run(2);
    assert.deepEqual(await brought.seen(third), ['passed', first]);
  });

  test('is built for each where the project says so, or only one kind of request brings it', async () => {
    const brought = await begin('unit');
    const made = [await brought.bring(pull), await brought.bring({ ...pull, pullRequest: 8n })];
    await brought.user.put(brought.path, { build_twice: 'true' });
    made.push(await brought.bring(push));
    await brought.fetched();
    await brought.fetched();
    await brought.fetched();
    await brought.run(3);
    for (const id of made) assert.deepEqual(await brought.seen(id), ['passed', null]);
    assert.equal((await brought.user.get(brought.path)).record.build_twice, true);
  });

  test('is built for each where it is another branch, a fork, a tag, a schedule or a person', async () => {
    const brought = await begin('unit');
    const first = await brought.bring(push);
    await brought.fetched({ branches: ['topic', 'other'], tags: ['v1'] });
    await brought.run(1);
    const others = [
      await brought.bring({ ...pull, headBranch: 'other' }),
      await brought.bring({ ...pull, headBranch: '', fromFork: true }),
      await brought.bring({ ...push, event: 'tag', headBranch: '', targetBranch: '', fetchRef: 'refs/tags/v1' }),
      await brought.bring({ source: 'schedule:3', event: 'schedule', headBranch: '', fetchRef: '', group: '' }),
      (await brought.user.requestBuild(brought.project, sha)).id,
    ];
    await brought.run(others.length);
    for (const id of [first, ...others]) assert.deepEqual(await brought.seen(id), ['passed', null]);
  });

  test('is built for each where no branch has it any more when it is fetched', async () => {
    const brought = await begin('unit');
    const [first, second] = [await brought.bring(push), await brought.bring(pull)];
    await brought.fetched();
    await brought.fetched({ branches: [], branch: null, ref: null });
    await brought.run(2);
    assert.deepEqual(await brought.seen(first), ['passed', null]);
    assert.deepEqual(await brought.seen(second), ['passed', null]);
  });

  test('is found again by a poll, by a short SHA, and by a push that names none', async () => {
    const brought = await begin('unit');
    const first = await brought.bring(pull, sha.slice(0, 12));
    const second = await brought.bring({ ...push, source: 'poll', event: 'poll' });
    assert.deepEqual(await brought.seen(second), ['enqueued', first]);
    await brought.fetched();
    await brought.fetched();
    const third = await brought.bring({ ...push, fetchRef: '' }, 'refs/heads/topic');
    assert.deepEqual(await brought.seen(third), ['enqueued', null]);
    await brought.fetched();
    assert.deepEqual(await brought.seen(third), ['building', first]);
    await brought.run(1);
    for (const id of [second, third]) assert.deepEqual(await brought.seen(id), ['passed', first]);
  });

  test('is built for the second where the fetch of the first fails', async () => {
    const brought = await begin('unit');
    const [first, second] = [await brought.bring(push), await brought.bring(pull)];
    await (await runner.take('fetch_commit')).finish({ kind: 'unfetchable', reason: 'host_unreachable' });
    assert.deepEqual(await brought.seen(first), ['errored', null]);
    assert.deepEqual(await brought.seen(second), ['enqueued', null]);
    await brought.fetched();
    await brought.run(1);
    assert.deepEqual(await brought.seen(second), ['passed', null]);
    // And the first one joins the second when it is asked for again.
    await brought.user.post(`${brought.path}/build_requests/${first}/rerun`);
    await brought.fetched();
    assert.deepEqual(await brought.seen(first), ['passed', second]);
    await runner.assertIdle();
  });
});
