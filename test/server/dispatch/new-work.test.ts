import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Record_ } from '../../support/client.ts';
import { describeWithRunner } from '../../support/runner.ts';
import type { User } from '../../support/user.ts';

/* A runner that waits when work comes gets it at once, on PostgreSQL in the transaction that brings it. */
describeWithRunner('work that comes to a runner that waits for it', (service, runner) => {
  /** A project with a suite, and a commit that is known. */
  const built = async (user: User): Promise<{ project: Record_; suite: Record_; sha: string }> => {
    const project = await user.createProject();
    const suite = await user.createSuite(project);
    await user.requestBuild(project);
    await (await runner.take('fetch_commit')).fetched();
    const task = await runner.take('run_suite');
    await task.exit(0);
    return { project, suite, sha: task.order.work.sha };
  };
  const eventsOf = async (project: Record_): Promise<string[]> => {
    const events = service.store.db.read.selectFrom('events').selectAll().where('project_id', '=', project.id);
    return (await events.orderBy('sequence').execute()).map(({ type, state }) => `${type} ${state}`);
  };

  test('goes through all states, in the order in which others see them', async () => {
    const alice = await service.user();
    const { project, sha } = await built(alice);
    const before = (await eventsOf(project)).length;
    const waiting = runner.take('run_suite');
    await alice.requestBuild(project, sha);
    const task = await waiting;
    assert.deepEqual((await eventsOf(project)).slice(before), [
      'build_request enqueued',
      'build enqueued',
      'commit waiting_for_builds',
      'build_request building',
      'build running',
      'commit building',
    ]);
    assert.equal((await alice.get(`/projects/${project.id}`)).record.build_state, 'building');
    await task.exit(0);
    assert.equal((await alice.get(`/projects/${project.id}`)).record.build_state, 'passed');
  });

  test('is shared by all who wait, where there is more than one job', async () => {
    const alice = await service.user();
    const { project, sha } = await built(alice);
    for (let more = 0; more < 2; more += 1) await alice.createSuite(project);
    const waiting = ['one', 'two', 'three'].map((name) => runner.beside(name).take('run_suite'));
    await alice.requestBuild(project, sha);
    const tasks = await Promise.all(waiting);
    const builds = new Set(tasks.map(({ order }) => order.work.environment['HEADRACE_BUILD_ID']));
    assert.equal(builds.size, 3);
    for (const task of tasks) await task.exit(0);
    await runner.assertIdle();
  });

  test('is taken from nobody: older work comes first', async () => {
    const [alice, bob] = [await service.user(), await service.user()];
    const [hers, his] = [await built(alice), await built(bob)];
    await alice.requestBuild(hers.project, hers.sha);
    // Hers is due while the runner waits already, and nobody has told it so.
    const due = (at: number): Promise<unknown> =>
      service.store.db.transaction((trx) =>
        trx
          .updateTable('jobs')
          .set({ run_after: BigInt(at) })
          .where('kind', '=', 'run_suite')
          .execute(),
      );
    await due(Date.now() + 3_600_000);
    const waiting = runner.take('run_suite');
    await new Promise((resolve) => setTimeout(resolve, 100)); // too short, it would merely prove less
    await due(0);
    await bob.requestBuild(his.project, his.sha);
    const tasks = [await waiting, await runner.take('run_suite')];
    assert.deepEqual(
      tasks.map(({ order }) => order.work.source.projectId),
      [String(hers.project.id), String(his.project.id)],
    );
    for (const task of tasks) await task.exit(0);
  });

  test('does no harm to the request for it where it cannot be ordered', async () => {
    const alice = await service.user();
    const { project, suite, sha } = await built(alice);
    const variables = `/projects/${project.id}/suites/${suite.id}/environment_variables`;
    await alice.post(variables, { name: 'BROKEN', content: 'x' });
    await service.store.db.transaction((trx) =>
      trx.updateTable('environment_variables').set({ content: 'x' }).where('suite_id', '=', suite.id).execute(),
    );
    const leaving = new AbortController();
    const waiting = runner.dispatch.next(runner.self, { claim: 'a-claim-of-nothing' }, leaving.signal);
    const request = await alice.requestBuild(project, sha);
    assert.equal(await state(alice, `/projects/${project.id}/build_requests/${request.id}`), 'errored');
    leaving.abort();
    assert.equal(await waiting, undefined);
  });
});

/** The state of a record, once it has one that it keeps. */
async function state(user: User, path: string): Promise<unknown> {
  for (;;) {
    const { record } = await user.get(path);
    if (!['enqueued', 'building'].includes(String(record.build_state))) return record.build_state;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
