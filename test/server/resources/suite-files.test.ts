import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Record_ } from '../../support/client.ts';
import { assertRefused, assertWrongFields } from '../../support/expect.ts';
import { describeSuiteRuns } from '../../support/suite-runs.ts';

describeSuiteRuns('suites that begin with files of another', ({ runner, alice, begin }) => {
  test('name one that they need, with the same variants', async () => {
    const runs = await begin();
    const post = (fields: Record<string, string>) =>
      alice().post(`${runs.path}/suites`, { command: 'make', ...fields });
    const put = (suite: Record_, fields: Record<string, string>) =>
      alice().put(`${runs.path}/suites/${suite.id}`, fields);
    const first = (await post({ name: 'first' })).record;
    const [needs, from] = [{ 'needs[]': String(first.id) }, { files_from_id: String(first.id) }];
    assertWrongFields(await post({ name: 'second', ...from }), { files_from_id: 'invalid_format' });
    assertRefused(await post({ name: 'second', ...needs, files_from_id: '12345' }), 404, {
      files_from_id: ['not_found'],
    });
    assertWrongFields(await post({ name: 'second', ...needs, files_from_id: 'x' }), {
      files_from_id: 'invalid_format',
    });
    const second = (await post({ name: 'second', ...needs, ...from })).record;
    assert.equal(second.files_from_id, first.id);
    assert.equal(second.files_from_id_str, first.id_str);
    assert.equal(first.files_from_id, null);
    assert.equal(first.files_from_id_str, '');
    assertWrongFields(await put(second, { 'needs[]': '' }), { files_from_id: 'invalid_format' });
    // One without a matrix serves every variant; one with a matrix serves those with the very same.
    assert.equal((await put(second, { 'matrix[]': 'N=1,2' })).status, 200);
    assertWrongFields(await put(first, { 'matrix[]': 'N=1,3' }), { matrix: 'invalid_format' });
    assert.equal((await put(first, { 'matrix[]': 'N=1,2' })).status, 200);
    assertWrongFields(await put(second, { 'matrix[]': '' }), { files_from_id: 'invalid_format' });
    const none = (await put(second, { files_from_id: '', 'needs[]': '' })).record;
    assert.equal(none.files_from_id, null);
  });

  test('get them from builds of their own request, in what the runner is ordered [promise: suite-files]', async () => {
    const runs = await begin();
    const first = await runs.suite({ name: 'first' });
    const fields = { 'needs[]': String(first.id), files_from_id: String(first.id) };
    await runs.suite({ name: 'second', ...fields });
    await runs.fetched();
    const task = await runner.take('run_suite');
    assert.equal(task.order.work.keep?.forSuites, 'passed');
    assert.equal(task.order.work.files, undefined);
    // It says that it keeps nothing: the first suite runs once more, and then the second one gives up, in words.
    await task.exit(0);
    const again = await runner.take('run_suite');
    assert.equal(again.order.work.environment.HEADRACE_SUITE, 'first');
    assert.equal(again.order.work.environment.HEADRACE_ATTEMPT, '2');
    const waiting = (await runs.builds()).find((build) => build.suite_name === 'second');
    assert.equal(waiting?.build_state, 'enqueued');
    assert.equal(waiting.waiting_reason, 'waits for first');
    await again.exit(0);
    await runner.assertIdle();
    const given = (await runs.builds()).find((build) => build.suite_name === 'second');
    assert.equal(given?.build_state, 'errored');
    assert.equal(given.failure_reason, 'files_not_kept');
    const log = await alice().get(`${runs.path}/builds/${given.id}/log.txt`);
    assert.equal(
      log.text,
      'The files of first are no longer stored. It runs again first.\nThe files of first are not stored, even after it ran again.\n',
    );
  });
});
