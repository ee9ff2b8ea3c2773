import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aCommit } from '../../support/runner.ts';
import { describeSuiteRuns } from '../../support/suite-runs.ts';

describeSuiteRuns('the deletion of a suite', ({ service, runner, alice, begin }) => {
  test('cancels its builds that wait, whatever they wait for, and lets a running one end', async () => {
    const runs = await begin();
    const remove = async ({ id }: { id: bigint }): Promise<void> => {
      assert.equal((await alice().delete(`${runs.path}/suites/${id}`)).status, 200);
    };
    const busy = await runs.suite({ name: 'busy' });
    const request = await runs.fetched();
    const running = await runner.take('run_suite');
    const queued = await runs.suite({ name: 'queued' });
    const asking = await runs.suite({ name: 'asking', approval: 'true', concurrency_group: 'one' });
    const inLine = await runs.suite({ name: 'in line', concurrency_group: 'two' });
    const needing = await runs.suite({ name: 'needing', 'needs[]': busy.id_str });
    const other = await alice().requestBuild(runs.project, aCommit.sha);
    const second = await alice().requestBuild(runs.project, aCommit.sha);
    const stateOf = async ({ id }: { id: bigint }): Promise<unknown> =>
      (await alice().get(`${runs.path}/build_requests/${id}`)).record.build_state;
    const waiting = (await runs.seen('suite_name', 'build_state', 'failure_reason')).slice(1);
    assert.equal(waiting.filter((one) => one === 'asking waiting_for_approval ').length, 2);
    for (const suite of [needing, queued, asking, inLine, busy]) await remove(suite);
    const after = await runs.builds();
    for (const { suite_name: name, build_state: state, failure_reason: reason } of after.slice(1))
      assert.deepEqual([state, reason], ['cancelled', 'suite_deleted'], String(name));
    assert.deepEqual(
      [await stateOf(request), await stateOf(other), await stateOf(second)],
      ['building', 'cancelled', 'cancelled'],
    );
    assert.equal(after[0]?.build_state, 'running');
    await running.exit(0);
    await runner.assertIdle();
    assert.equal(await stateOf(request), 'passed');
  });

  test('lets the next one of its group begin, and those that do not need it go on', async () => {
    const runs = await begin();
    const doomed = await runs.suite({ name: 'doomed', concurrency_group: 'g' });
    await runs.suite({ name: 'next', concurrency_group: 'g' });
    await runs.fetched();
    assert.equal((await alice().delete(`${runs.path}/suites/${doomed.id}`)).status, 200);
    const task = await runner.take('run_suite');
    assert.equal(task.order.work.environment.HEADRACE_SUITE, 'next');
    await task.exit(0);
    assert.deepEqual(await runs.seen('suite_name', 'build_state'), ['doomed cancelled', 'next passed']);
  });

  test('that is refused cancels nothing', async () => {
    const runs = await begin();
    const needed = await runs.suite({ name: 'needed', approval: 'true' });
    await runs.suite({ name: 'needing', 'needs[]': needed.id_str });
    const request = await runs.fetched();
    assert.equal((await alice().delete(`${runs.path}/suites/${needed.id}`)).status, 403);
    assert.deepEqual(await runs.seen('suite_name', 'build_state'), ['needed waiting_for_approval', 'needing enqueued']);
    await alice().post(`${runs.path}/build_requests/${request.id}/cancel`);
  });

  test('by a document cancels those of all that it has no more, in one transaction', async () => {
    const runs = await begin();
    for (const name of ['one', 'two', 'three']) await runs.suite({ name, approval: 'true' });
    await runs.suite({ name: 'four' });
    const request = await runs.fetched();
    const config = `${runs.path}/config`;
    const { document } = (await alice().get(config)).record;
    const { suites, ...rest } = JSON.parse(String(document)) as { suites: { name: string }[] };
    const kept = suites.filter(({ name }) => name === 'three');
    const changed = JSON.stringify({ ...rest, name: 'renamed', suites: kept });
    const trial = await alice().put(config, { document: changed, prune: 'true', dry_run: 'true' });
    assert.equal(trial.status, 200);
    const waiting = 'waiting_for_approval';
    assert.deepEqual(await runs.seen('build_state'), [waiting, waiting, waiting, 'enqueued']);
    assert.equal((await alice().put(config, { document: changed, prune: 'true' })).status, 200);
    assert.deepEqual(await runs.seen('build_state'), ['cancelled', 'cancelled', waiting, 'cancelled']);
    await alice().post(`${runs.path}/build_requests/${request.id}/cancel`);
    assert.equal(await runs.rolledUp(request), 'cancelled cancelled cancelled');
  });

  test('by a document goes with other changes to hooks, and to the tags of what waits', async () => {
    const runs = await begin();
    await runs.suite({ name: 'doomed', approval: 'true' });
    await runs.suite({ name: 'kept' });
    const hooks = `${runs.path}/hooks`;
    await alice().post(hooks, { provider: 'github' });
    await runs.fetched();
    const config = `${runs.path}/config`;
    const { document } = (await alice().get(config)).record;
    const all = JSON.parse(String(document)) as { suites: { name: string }[]; hooks: object[] };
    const to = (tags: string[], events: string[]): string =>
      JSON.stringify({
        ...all,
        suites: all.suites.filter(({ name }) => name === 'kept').map((suite) => ({ ...suite, tags })),
        hooks: all.hooks.map((hook) => ({ ...hook, events })),
      });
    const tagged = await alice().put(config, { document: to(['gpu'], ['tag']), prune: 'true' });
    assert.equal(tagged.status, 200, tagged.text);
    assert.deepEqual(await runs.seen('suite_name', 'build_state'), ['doomed cancelled', 'kept enqueued']);
    assert.deepEqual(
      (await alice().get(hooks)).list.map(({ events }) => events),
      [['tag']],
    );
    await runner.assertIdle(); // it has no tags
    assert.equal((await alice().put(config, { document: to([], ['push']) })).status, 200);
    await (await runner.take('run_suite')).exit(0);
  });

  test('leaves alone what the file of a commit builds', async () => {
    const runs = await begin();
    const suite = await runs.suite({ name: 'filed', approval: 'true' });
    const request = await runs.fetched();
    await service.store.db.transaction((trx) =>
      trx.updateTable('build_requests').set({ config_digest: 'd' }).where('id', '=', request.id).execute(),
    );
    assert.equal((await alice().delete(`${runs.path}/suites/${suite.id}`)).status, 200);
    assert.deepEqual(await runs.seen('build_state'), ['waiting_for_approval']);
    await alice().post(`${runs.path}/build_requests/${request.id}/cancel`);
  });
});
