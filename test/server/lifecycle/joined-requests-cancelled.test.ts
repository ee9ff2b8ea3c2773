import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertRefused } from '../../support/expect.ts';
import { Brought, pull, push } from '../../support/joined.ts';
import { describeWithRunner } from '../../support/runner.ts';

const later = 'd'.repeat(40);

describeWithRunner('of two requests for one commit, what is cancelled', (service, runner) => {
  const cancel = (brought: Brought, id: bigint) => brought.user.post(`${brought.path}/build_requests/${id}/cancel`);
  const rerun = (brought: Brought, id: bigint, fields = {}) =>
    brought.user.post(`${brought.path}/build_requests/${id}/rerun`, fields);

  test('ends both where it is the first, while it is fetched and while it is built', async () => {
    const waiting = await Brought.begin(service, runner);
    const one = [await waiting.bring(push), await waiting.bring(pull)] as const;
    await cancel(waiting, one[0]);
    await runner.assertIdle();
    assert.deepEqual(await waiting.seen(one[0]), ['cancelled', null]);
    assert.deepEqual(await waiting.seen(one[1]), ['cancelled', one[0]]);

    const brought = await Brought.begin(service, runner, ['unit']);
    await brought.suiteFor('pull_request', { name: 'preview' });
    const [first, second] = [await brought.bring(push), await brought.bring(pull)];
    await brought.fetched();
    await brought.fetched();
    const tasks = await brought.take(2);
    await cancel(brought, first);
    for (const task of tasks.values()) assert.equal(await task.hears(), 'cancel');
    await tasks.get('unit')?.finish({ kind: 'cancelled' });
    assert.deepEqual(await brought.seen(first), ['cancelled', null]);
    assert.deepEqual(await brought.seen(second), ['building', first]);
    await tasks.get('preview')?.finish({ kind: 'cancelled' });
    assert.deepEqual(await brought.seen(second), ['cancelled', first]);
  });

  test('leaves the first alone where it is the second, which is over at once', async () => {
    const brought = await Brought.begin(service, runner, ['unit']);
    await brought.suiteFor('pull_request', { name: 'preview' });
    const [first, second] = [await brought.bring(push), await brought.bring(pull)];
    await brought.fetched();
    await brought.fetched();
    await cancel(brought, second);
    assert.deepEqual(await brought.seen(second), ['cancelled', first]);
    assert.deepEqual(await brought.ran(second), ['preview 1 cancelled']);
    assert.deepEqual(await brought.run(1), ['unit']);
    assert.deepEqual(await brought.seen(first), ['passed', null]);
    assert.deepEqual(await brought.seen(second), ['cancelled', first]);
    // Whoever asks for it again gets all that it shows.
    assert.equal((await rerun(brought, second)).status, 200);
    assert.deepEqual(await brought.run(2), ['preview', 'unit']);
    assert.deepEqual(await brought.seen(second), ['passed', first]);
    assert.deepEqual(await brought.ran(first), ['unit 1 passed', 'unit 2 passed']);
  });

  test('leaves the first alone where the second has no builds, and the second can wait for it again', async () => {
    const brought = await Brought.begin(service, runner, ['unit']);
    const [first, second] = [await brought.bring(push), await brought.bring(pull)];
    await brought.fetched();
    await brought.fetched();
    assert.equal((await cancel(brought, second)).record.build_state, 'cancelled');
    assert.deepEqual(await brought.seen(first), ['building', null]);
    assert.equal((await rerun(brought, second)).record.build_state, 'building');
    assert.deepEqual(await brought.run(1), ['unit']);
    assert.deepEqual(await brought.seen(second), ['passed', first]);
    assert.deepEqual(await brought.ran(first), ['unit 1 passed']);
  });

  test('is joined by nothing that comes later', async () => {
    const brought = await Brought.begin(service, runner, ['unit']);
    const first = await brought.bring(push);
    await brought.fetched();
    await cancel(brought, first);
    const second = await brought.bring(pull);
    assert.deepEqual(await brought.run(1), ['unit']);
    assert.deepEqual(await brought.seen(second), ['passed', null]);
  });

  test('is built anew where the first was errored', async () => {
    const brought = await Brought.begin(service, runner, ['unit']);
    const first = await brought.bring(push);
    await brought.fetched();
    await (await runner.take('run_suite')).finish({ kind: 'unfetchable', reason: 'key_refused' });
    assert.deepEqual(await brought.seen(first), ['errored', null]);
    const second = await brought.bring(pull);
    assert.deepEqual(await brought.run(1), ['unit']);
    assert.deepEqual(await brought.seen(second), ['passed', null]);
  });

  test('are both that a newer push supersedes, and a newer head supersedes the second alone', async () => {
    const brought = await Brought.begin(service, runner, ['unit'], { cancel_superseded: 'running' });
    const [first, second] = [await brought.bring(push), await brought.bring(pull)];
    await brought.fetched();
    await brought.fetched();
    const newer = await brought.bring(pull, later);
    assert.deepEqual(await brought.seen(first), ['building', null]);
    assert.deepEqual(await brought.seen(second), ['cancelled', first]);
    const newest = await brought.bring(push, later);
    assert.deepEqual(await brought.seen(first), ['cancelled', null]);
    assert.deepEqual(await brought.seen(newest), ['enqueued', newer]);
    await brought.fetched({ sha: later });
    await brought.fetched({ sha: later });
    // The next push takes the pull request's own suites with it only where it was the first.
    const last = await brought.bring(push, 'e'.repeat(40));
    assert.deepEqual(await brought.seen(newest), ['cancelled', newer]);
    assert.deepEqual(await brought.seen(newer), ['building', null]);
    await brought.bring(pull, 'e'.repeat(40));
    assert.deepEqual(await brought.seen(newer), ['cancelled', null]);
    assert.deepEqual(await brought.seen(last), ['enqueued', null]);
    await cancel(brought, last);
  });

  test('is nothing where only what waits is superseded, and a build of either runs', async () => {
    const brought = await Brought.begin(service, runner, ['unit'], { cancel_superseded: 'waiting' });
    const [first, second] = [await brought.bring(push), await brought.bring(pull)];
    await brought.fetched();
    await brought.fetched();
    const tasks = await brought.take(1);
    const newer = [await brought.bring(pull, later), await brought.bring(push, later)] as const;
    await tasks.get('unit')?.exit(0);
    assert.deepEqual(await brought.seen(first), ['passed', null]);
    assert.deepEqual(await brought.seen(second), ['passed', first]);
    await cancel(brought, newer[0]);
  });

  test('runs again with the first, and a failure of either with the second', async () => {
    const brought = await Brought.begin(service, runner, ['unit', 'lint']);
    await brought.suiteFor('pull_request', { name: 'preview' });
    const [first, second] = [await brought.bring(push), await brought.bring(pull)];
    await brought.fetched();
    await brought.fetched();
    await brought.run(3, 'unit');
    assert.deepEqual(await brought.seen(second), ['failed', first]);
    assert.equal((await rerun(brought, first, { failed_only: 'true' })).status, 200);
    assert.deepEqual(await brought.seen(second), ['building', first]);
    assertRefused(await rerun(brought, second), 403, { generic: ['resource_temporary_unavailable'] });
    assert.deepEqual(await brought.run(1, 'unit'), ['unit']);
    assert.equal((await rerun(brought, second, { failed_only: 'true' })).status, 200);
    assert.deepEqual(await brought.seen(first), ['building', null]);
    assert.deepEqual(await brought.run(1), ['unit']);
    assert.deepEqual(await brought.seen(first), ['passed', null]);
    assert.deepEqual(await brought.seen(second), ['passed', first]);
    assert.deepEqual(await brought.ran(second), ['preview 1 passed']);
    const [unit] = (await brought.builds(first)).filter(({ suite_name: name }) => name === 'lint');
    assert.equal((await brought.user.post(`${brought.path}/builds/${unit?.id}/restart`)).status, 201);
    assert.deepEqual(await brought.seen(second), ['building', first]);
    await brought.run(1, 'lint');
    assert.deepEqual(await brought.seen(second), ['failed', first]);
  });
});
