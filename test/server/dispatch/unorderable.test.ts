import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describeWithRunner } from '../../support/runner.ts';
import { runningBuild } from '../../support/running-build.ts';

describeWithRunner('work that cannot be ordered', (service, runner) => {
  test('ends in an error after three tries, and keeps nobody else waiting', async () => {
    const [unlucky, lucky] = [await service.user(), await service.user()];
    const broken = await unlucky.createProject();
    await service.store.db.transaction((trx) =>
      trx.updateTable('projects').set({ ssh_private_key: 'not sealed' }).where('id', '=', broken.id).execute(),
    );
    const request = await unlucky.requestBuild(broken);
    const whole = await lucky.createProject();
    await lucky.requestBuild(whole);

    const task = await runner.take('fetch_commit');
    assert.equal(task.order.work.source.projectId, String(whole.id));
    await task.fetched();
    await runner.assertIdle();
    const { record } = await unlucky.get(`/projects/${broken.id}/build_requests/${request.id}`);
    assert.equal(record.build_state, 'errored');
  });

  test('does no harm to the outcome that it would have come after', async () => {
    const [lucky, unlucky] = [await service.user(), await service.user()];
    const { path, task } = await runningBuild(lucky, runner);
    const broken = await unlucky.createProject();
    await service.store.db.transaction((trx) =>
      trx.updateTable('projects').set({ ssh_private_key: 'not sealed' }).where('id', '=', broken.id).execute(),
    );
    const request = await unlucky.requestBuild(broken);
    const { claim } = task.order;
    const report = { claim, outcome: { kind: 'exited', status: 0 }, logSize: 0 } as const;
    assert.deepEqual(await runner.dispatch.finish(runner.self, report), { taken: true });
    assert.equal((await lucky.get(path)).record.build_state, 'passed');
    await runner.assertIdle();
    const { record } = await unlucky.get(`/projects/${broken.id}/build_requests/${request.id}`);
    assert.equal(record.build_state, 'errored', 'it was tried as often as anything');
  });
});
