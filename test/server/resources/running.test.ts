import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { Record_ } from '../../support/client.ts';
import { assertNotFound, assertRefused, assertWrongFields } from '../../support/expect.ts';
import { aCommit, describeWithRunner } from '../../support/runner.ts';
import type { User } from '../../support/user.ts';

const unavailable = { generic: ['resource_temporary_unavailable'] };

describeWithRunner('a build request', (service, runner) => {
  let alice: User;
  before(async () => {
    alice = await service.user();
  });

  const look = async (project: Record_, request: Record_) => {
    const path = `/projects/${project.id}`;
    const seen = (await alice.get(`${path}/build_requests/${request.id}`)).record;
    const [commit] = (await alice.get(`${path}/commits`)).list;
    const builds = commit ? (await alice.get(`${path}/commits/${commit.id}/builds`)).list : [];
    return {
      request: seen.build_state,
      commit: commit?.build_state,
      project: (await alice.get(path)).record.build_state,
      builds: builds.map(({ build_state, attempt }) => `${String(build_state)} ${String(attempt)}`).toReversed(),
    };
  };
  const buildsOf = async (project: Record_): Promise<Record_[]> => {
    const [commit] = (await alice.get(`/projects/${project.id}/commits`)).list;
    return (await alice.get(`/projects/${project.id}/commits/${commit?.id}/builds`)).list.toReversed();
  };
  /** A project whose suites are about to run. */
  const fetchedProject = async (suites: number): Promise<[Record_, Record_]> => {
    const project = await alice.createProject();
    for (let made = 0; made < suites; made += 1) await alice.createSuite(project);
    const request = await alice.requestBuild(project);
    await (await runner.take('fetch_commit')).fetched();
    return [project, request];
  };

  test('names the branch that the fetch found, also when the commit is known and built again', async () => {
    const project = await alice.createProject();
    await alice.createSuite(project);
    await alice.requestBuild(project, 'v1');
    const report = { branches: ['aaa', 'main'], branch: 'main', ref: 'refs/tags/v1', tags: ['v1'] };
    await (await runner.take('fetch_commit')).fetched(report);
    await (await runner.take('run_suite')).exit(0);
    await alice.requestBuild(project, aCommit.sha);
    const build = await runner.take('run_suite');
    assert.equal(build.order.work.environment.HEADRACE_BRANCH, 'main');
    await build.exit(0);
  });

  test('tells the runner which commit of the default branch is the newest, and goes by what that makes of it', async () => {
    const project = await alice.createProject();
    const suite = await alice.createSuite(project);
    const state = async () => (await alice.get(`/projects/${project.id}`)).record.build_state;
    const build = async (sha: string, defaultHead: 'this' | 'kept' | 'none', exit: number) => {
      await alice.requestBuild(project, `b-${sha[0]}`);
      const fetch = await runner.take('fetch_commit');
      await fetch.fetched({ sha, defaultHead });
      await (await runner.take('run_suite')).exit(exit);
      return fetch.order.work.defaultHead;
    };
    const [a, b, c, d] = ['a', 'b', 'c', 'd'].map((digit) => digit.repeat(40)) as [string, string, string, string];
    assert.equal(await build(a, 'none', 1), null);
    assert.equal(await state(), 'failed');
    assert.equal(await build(b, 'this', 0), null);
    assert.equal(await build(c, 'kept', 1), b);
    assert.equal(await state(), 'passed', 'a side branch that fails leaves the project as it is');
    assert.equal(await build(d, 'none', 1), b);
    assert.equal(await state(), 'failed', 'nothing of the default branch is known any more');
    assert.equal(await build(a, 'this', 0), null);
    assert.equal(await state(), 'passed', 'an older one can be the newest after the branch was set back');
    await alice.delete(`/projects/${project.id}/suites/${suite.id}`);
  });

  test('is fetched, its suites run, and every state is seen on the way', async () => {
    const project = await alice.createProject();
    const suite = await alice.createSuite(project, { command: 'make check' });
    await alice.createVariable(project, suite, { name: 'KEY', content: 'open sesame' });
    await alice.createSuite(project);
    const request = await alice.requestBuild(project, 'main');
    assert.deepEqual([request.build_state, request.commit_id], ['enqueued', null]);
    const fetch = await runner.take('fetch_commit');
    assert.equal(fetch.order.work.commitRef, 'main');
    assert.deepEqual(await look(project, request), {
      request: 'fetching',
      commit: undefined,
      project: 'new',
      builds: [],
    });
    await fetch.fetched();
    const waiting = { request: 'building', commit: 'waiting_for_builds', project: 'waiting_for_builds' };
    assert.deepEqual(await look(project, request), { ...waiting, builds: ['enqueued 1', 'enqueued 1'] });
    const [one, two] = [await runner.take('run_suite'), await runner.take('run_suite')];
    assert.deepEqual(
      [one.order.work.steps[0]?.command, one.order.work.sha, one.order.work.environment.KEY],
      ['make check', aCommit.sha, 'open sesame'],
    );
    await one.exit(0);
    const building = { request: 'building', commit: 'building', project: 'building' };
    assert.deepEqual(await look(project, request), { ...building, builds: ['passed 1', 'running 1'] });
    await two.exit(3);
    const failed = { request: 'failed', commit: 'failed', project: 'failed' };
    assert.deepEqual(await look(project, request), { ...failed, builds: ['passed 1', 'failed 1'] });
    assert.equal((await buildsOf(project))[1]?.exit_status, 3);
  });

  test('for a known commit needs no fetch', async () => {
    const [project] = await fetchedProject(1);
    await (await runner.take('run_suite')).exit(0);
    const again = await alice.requestBuild(project, aCommit.sha);
    assert.deepEqual([again.build_state, again.commit_id], ['enqueued', null]);
    await (await runner.take('run_suite')).exit(0);
    assert.deepEqual((await look(project, again)).builds, ['passed 1', 'passed 2']);
  });

  test('that cannot be fetched says why in its log, and fetches again when it is run again', async () => {
    const project = await alice.createProject();
    const request = await alice.requestBuild(project, 'nowhere');
    const path = `/projects/${project.id}/build_requests/${request.id}`;
    const fetch = await runner.take('fetch_commit');
    await fetch.writeLog('There is no nowhere.\n');
    assertRefused(await alice.post(`${path}/rerun`), 403, unavailable);
    await fetch.finish({ kind: 'unfetchable', reason: 'no_such_ref' });
    const log = { offset: 0, next_offset: 21, size: 21, complete: true, text: 'There is no nowhere.\n' };
    assert.deepEqual((await alice.get(`${path}/log`)).response, log);
    assert.equal((await alice.get(path)).record.build_state, 'errored');
    const rerun = await alice.post(`${path}/rerun`);
    assert.deepEqual([rerun.status, rerun.record.build_state], [200, 'enqueued']);
    const second = await runner.take('fetch_commit');
    await second.writeLog('Now there is.\n');
    await second.fetched();
    assert.equal((await alice.get(`${path}/log.txt`)).text, 'There is no nowhere.\nNow there is.\n');
    assert.equal((await alice.get(path)).record.build_state, 'passed');
  });

  test('is cancelled: what waits at once, what runs when its runner has heard', async () => {
    const [project, request] = await fetchedProject(2);
    const running = await runner.take('run_suite');
    const answer = await alice.post(`/projects/${project.id}/build_requests/${request.id}/cancel`);
    assert.deepEqual([answer.status, answer.record.build_state], [200, 'building']);
    assert.deepEqual((await look(project, request)).builds, ['running 1', 'cancelled 1']);
    assert.equal(await running.hears(), 'cancel');
    await running.finish({ kind: 'cancelled' });
    const over = { request: 'cancelled', commit: 'cancelled', project: 'cancelled' };
    assert.deepEqual(await look(project, request), { ...over, builds: ['cancelled 1', 'cancelled 1'] });
    await runner.assertIdle();
  });

  test('is cancelled before it was fetched', async () => {
    const project = await alice.createProject();
    const request = await alice.requestBuild(project);
    const answer = await alice.post(`/projects/${project.id}/build_requests/${request.id}/cancel`);
    assert.equal(answer.record.build_state, 'cancelled');
    await runner.assertIdle();
  });

  test('is run again: what failed, or all of it', async () => {
    const [project, request] = await fetchedProject(2);
    await (await runner.take('run_suite')).exit(1);
    await (await runner.take('run_suite')).exit(0);
    const path = `/projects/${project.id}/build_requests/${request.id}/rerun`;
    assert.equal((await alice.post(path, { failed_only: 'true' })).record.build_state, 'building');
    assertRefused(await alice.post(path), 403, unavailable);
    await (await runner.take('run_suite')).exit(0);
    const passed = { request: 'passed', commit: 'passed', project: 'passed' };
    assert.deepEqual(await look(project, request), { ...passed, builds: ['failed 1', 'passed 1', 'passed 2'] });
    await alice.post(path);
    await (await runner.take('run_suite')).exit(0);
    await (await runner.take('run_suite')).exit(0);
    // In the query it means the same as in the body.
    assert.equal((await alice.post(`${path}?failed_only=true`)).record.build_state, 'passed');
    assertWrongFields(await alice.post(`${path}?failed_only=perhaps`), { failed_only: 'invalid_format' });
    await runner.assertIdle();
    assert.equal((await buildsOf(project)).length, 5);
  });

  test('that many ask to run again at once is run again once', async () => {
    const [project, request] = await fetchedProject(1);
    await (await runner.take('run_suite')).exit(1);
    const path = `/projects/${project.id}/build_requests/${request.id}/rerun`;
    const answers = await Promise.all(Array.from({ length: 6 }, () => alice.post(path)));
    assert.equal(answers.filter(({ status }) => status === 200).length, 1);
    assert.equal((await buildsOf(project)).length, 2);
    await (await runner.take('run_suite')).exit(0);
  });

  test('has builds that can be cancelled and restarted one by one', async () => {
    const [project] = await fetchedProject(1);
    const [build] = (await buildsOf(project)) as [Record_];
    const path = `/projects/${project.id}/builds/${build.id}`;
    assertRefused(await alice.post(`${path}/restart`), 403, unavailable);
    const cancelled = await alice.post(`${path}/cancel`);
    assert.deepEqual([cancelled.status, cancelled.record.build_state], [200, 'cancelled']);
    await runner.assertIdle();
    const next = await alice.post(`${path}/restart`);
    assert.deepEqual([next.status, next.record.attempt, next.record.build_state], [201, 2, 'enqueued']);
    assertRefused(await alice.post(`${path}/restart`), 403, unavailable);
    await (await runner.take('run_suite')).exit(0);
    await alice.delete(`/projects/${project.id}/suites/${build.suite_id as bigint}`);
    assertNotFound(await alice.post(`${path}/restart`));
  });

  test('outlives its runners: three attempts in all, then it is an error', async () => {
    const [project, request] = await fetchedProject(1);
    for (const name of ['first', 'second', 'third']) {
      const doomed = runner.beside(name);
      const task = await doomed.take('run_suite');
      await task.writeLog(`${name}\n`);
      await runner.dispatch.holderGone(name);
      assert.deepEqual(await task.finish({ kind: 'exited', status: 0 }), { gone: true });
    }
    await runner.assertIdle();
    const errored = { request: 'errored', commit: 'errored', project: 'errored' };
    assert.deepEqual(await look(project, request), { ...errored, builds: ['errored 1', 'errored 2', 'errored 3'] });
    const builds = await buildsOf(project);
    assert.deepEqual(new Set(builds.map((build) => build.failure_reason)), new Set(['runner_lost']));
    const logs = builds.map(async ({ id }) => (await alice.get(`/projects/${project.id}/builds/${id}/log.txt`)).text);
    assert.deepEqual(await Promise.all(logs), ['first\n', 'second\n', 'third\n']);
  });

  test('of one account does not hold up another’s [promise: account-turns]', async () => {
    const bob = await service.user();
    const [many, one] = [await alice.createProject(), await bob.createProject()];
    for (let asked = 0; asked < 5; asked += 1) await alice.requestBuild(many);
    await bob.requestBuild(one);
    const turns = [await runner.take('fetch_commit'), await runner.take('fetch_commit')];
    const projects = turns.map(({ order }) => order.work.source.projectId);
    assert.ok(projects.includes(one.id_str), 'the second turn at the latest');
    await alice.delete(`/projects/${many.id}`);
    await bob.delete(`/projects/${one.id}`);
  });

  test('goes with its project: nobody gets its work, and who has it is told', async () => {
    const [project] = await fetchedProject(2);
    const task = await runner.take('run_suite');
    await alice.delete(`/projects/${project.id}`);
    assert.equal(await task.hears(), 'gone');
    assert.deepEqual(await task.send(0, Buffer.from('x')), { gone: true });
    await runner.assertIdle();
    assert.deepEqual(
      await service.store.db.read.selectFrom('jobs').select('id').where('kind', '!=', 'pack_log').execute(),
      [],
    );
  });
});
