import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { Record_ } from '../../support/client.ts';
import { assertWrongFields } from '../../support/expect.ts';
import { aCommit, describeWithRunner } from '../../support/runner.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

describeWithRunner('the priority of builds', (service, runner) => {
  let alice: User;
  let project: Record_;
  let path: string;
  before(async () => {
    alice = await service.user();
  });
  const fresh = async (fields: Record<string, string> = {}): Promise<void> => {
    project = await alice.createProject(fields);
    path = `/projects/${project.id}`;
  };
  const ask = (fields: Record<string, string> = {}) =>
    alice.post(`${path}/build_requests`, { commit_ref: 'main', ...fields });
  const fetched = async (more: object = {}) => (await runner.take('fetch_commit')).fetched(more);
  const priorities = async (): Promise<Record<string, number>> => {
    const builds = service.store.db.read.selectFrom('builds').select(['suite_name', 'priority']);
    const rows = await builds.where('project_id', '=', project.id).orderBy('id').execute();
    return Object.fromEntries(rows.map(({ suite_name: name, priority }) => [name, priority]));
  };
  const run = async (count: number, ending = 0): Promise<string[]> => {
    const names = [];
    for (let at = 0; at < count; at += 1) {
      const build = await runner.take('run_suite');
      names.push(build.order.work.environment['HEADRACE_SUITE'] ?? '');
      await build.exit(ending);
    }
    return names;
  };

  test('is the sum of the suite’s and the request’s, and orders what waits', async () => {
    await fresh({ most_priority: '40' });
    const none = await alice.createSuite(project, { name: 'plain' });
    assert.equal(none.priority, 0);
    for (const [name, priority] of [
      ['low', '-100'],
      ['high', '90'],
      ['middle', '5'],
    ] as const)
      await alice.createSuite(project, { name, priority });
    for (const priority of ['101', '-101', '1.5', 'x'])
      assertWrongFields(await alice.put(`${path}/suites/${none.id}`, { priority }), { priority: 'invalid_format' });
    for (const most of ['-1', '101'])
      assertWrongFields(await alice.put(path, { most_priority: most }), { most_priority: 'invalid_format' });
    for (const priority of ['41', '101', '-101'])
      assertWrongFields(await ask({ priority }), { priority: 'invalid_format' });
    assert.equal((await ask({ priority: '40' })).record.priority, 40);
    await fetched();
    assert.deepEqual(await priorities(), { plain: 40, low: -60, high: 100, middle: 45 });
    assert.deepEqual(await run(4), ['high', 'middle', 'plain', 'low']);
    // Its reruns have it again, and later requests come first where they ask for more.
    const [first] = (await alice.get(`${path}/build_requests`)).list as [Record_];
    await alice.put(path, { most_priority: '0' });
    await alice.post(`${path}/build_requests/${first.id}/rerun`);
    await ask({ priority: '-40' });
    assertWrongFields(await ask({ priority: '1' }), { priority: 'invalid_format' });
    await fetched({ sha: 'b'.repeat(40) });
    assert.deepEqual(await run(8), ['high', 'high', 'middle', 'plain', 'middle', 'plain', 'low', 'low']);
  });

  test('of an earlier fetch counts, and a group keeps its order', async () => {
    await fresh({ most_priority: '100' });
    await alice.createSuite(project, { name: 'one', concurrency_group: 'deploys', priority: '-50' });
    await alice.createSuite(project, { name: 'two', concurrency_group: 'deploys', priority: '50' });
    await alice.createSuite(project, { name: 'other' });
    await ask();
    const urgent = (await ask({ priority: '10' })).record;
    const task = await runner.take('fetch_commit');
    await task.fetched({ sha: 'c'.repeat(40) });
    assert.notEqual((await alice.get(`${path}/build_requests/${urgent.id}`)).record.commit_id, null);
    await fetched();
    const inTurn = ['other', 'other', 'one', 'two', 'one', 'two'];
    assert.deepEqual(await run(6), inTurn, 'the build of the group that came first is first');
  });

  test('cannot be raised by a branch’s file [promise: branch-file]', async () => {
    await fresh({ config_file: '.headrace.toml' });
    await alice.createSuite(project, { name: 'known', priority: '20' });
    const file = (known: number, fresh_: number) =>
      `[[suites]]\nname = "known"\ncommand = "x"\npriority = ${known}\n[[suites]]\nname = "new"\ncommand = "x"\npriority = ${fresh_}\n`;
    const onBranch = {
      ...aCommit,
      branches: ['topic'],
      branch: 'topic',
      ref: 'refs/heads/topic',
      defaultHead: 'none' as const,
    };
    const build = async (text: string, sha: string) => {
      await ask({ commit_ref: 'topic' });
      const config = { text, path: '.headrace.toml', before: null };
      const task = await runner.take('fetch_commit');
      await task.finish({ kind: 'fetched', commit: { ...onBranch, sha }, config });
      const found = await priorities();
      await run(2, 1);
      return found;
    };
    assert.deepEqual(await build(file(100, 100), 'd'.repeat(40)), { known: 20, new: 0 });
    assert.deepEqual(await build(file(-7, -3), 'e'.repeat(40)), { known: -7, new: -3 });
    // Also not by a rerun.
    const [, raised] = (await alice.get(`${path}/build_requests`)).list as [Record_, Record_];
    await alice.post(`${path}/build_requests/${raised.id}/rerun`);
    assert.deepEqual(await priorities(), { known: 20, new: 0 });
    await run(2);
  });

  test('is set on the pages of a suite, of the triggers and of a run', async () => {
    await fresh();
    const suite = await alice.createSuite(project, { name: 'unit', command: 'make' });
    const tab = new Tab(service);
    await tab.signIn(alice.credentials);
    const send = async (at: string, fields: Record<string, string>) => tab.submit(await tab.get(at), at, fields);
    const ofSuite = `/ui${path}/settings/suites/${suite.id}`;
    assert.equal((await send(ofSuite, { do: 'save', name: 'unit', command: 'make', priority: '-4' })).status, 303);
    assert.match((await tab.get(ofSuite)).text, /priority: -4/);
    const triggers = `/ui${path}/settings/triggers`;
    assert.equal((await send(triggers, { do: 'save_policies', most_priority: '3' })).status, 303);
    const at = `/ui${path}/run`;
    const refused = await send(at, { do: 'run', commit_ref: 'main', priority: '4' });
    assert.match(refused.text, /more than the project allows/);
    assert.equal((await send(at, { do: 'run', commit_ref: 'main', priority: '3' })).status, 303);
    const [request] = (await alice.get(`${path}/build_requests`)).list as [Record_];
    assert.equal(request.priority, 3);
    await fetched();
    await run(1);
  });
});
