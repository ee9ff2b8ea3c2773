import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { stringify } from 'smol-toml';
import { recordHeartbeat } from '../../../src/server/auth/runner-heartbeats.ts';
import type { Record_ } from '../../support/client.ts';
import { assertRefused, assertWrongFields } from '../../support/expect.ts';
import { aCommit, describeWithRunner } from '../../support/runner.ts';
import { Tab } from '../../support/tab.ts';
import { trigger } from '../../support/triggered.ts';
import type { User } from '../../support/user.ts';

const refused = { generic: ['unauthorized'] };
const shaOf = (digit: string): string => digit.repeat(40);

describeWithRunner('variables and suites whose secrets are limited to refs', (service, runner) => {
  let alice: User;
  let bob: User;
  let project: Record_;
  let path: string;
  let deploy: Record_;
  let unit: Record_;
  before(async () => {
    alice = await service.user();
    bob = await service.user('collaborator');
    project = await alice.createProject();
    path = `/projects/${project.id}`;
    await alice.invite(project, bob);
    unit = await alice.createSuite(project, { name: 'unit' });
    deploy = await alice.createSuite(project, {
      name: 'deploy',
      'needs[]': unit.id_str,
      files_from_id: unit.id_str,
    });
  });

  test('are seen, made, changed and deleted by the owner alone [promise: limited-variables]', async () => {
    for (const list of [`${path}/environment_variables`, `${path}/suites/${deploy.id}/environment_variables`]) {
      const form = { name: 'KEY', content: 'open sesame' };
      assertRefused(await bob.post(list, { ...form, 'refs[]': 'main' }), 401, refused);
      const { record: limited } = await alice.post(list, { ...form, 'refs[]': 'main' });
      assert.deepEqual(limited.refs, ['main']);
      const { record: plain } = await bob.post(list, { name: 'PLAIN', content: 'x' });
      assert.deepEqual(plain.refs, []);
      const one = `${list}/${limited.id}`;
      for (const answer of [
        await bob.get(one),
        await bob.put(one, { content: 'mine' }),
        await bob.put(one, { 'refs[]': '' }),
        await bob.delete(one),
        await bob.put(`${list}/${plain.id}`, { 'refs[]': 'main' }),
      ])
        assertRefused(answer, 401, refused);
      assert.deepEqual(
        (await bob.get(list)).list.map(({ name }) => name),
        ['PLAIN'],
      );
      assert.equal((await alice.get(one)).record.content, 'open sesame');
      assert.equal((await bob.put(`${list}/${plain.id}`, { content: 'y', 'refs[]': '' })).status, 200);
      assert.equal((await bob.delete(`${list}/${plain.id}`)).status, 200);
      const wrong = await alice.put(one, { 'refs[]': 'refs/notes/x' });
      assertWrongFields(wrong, { refs: 'invalid_format' });
      if (!list.includes('suites')) assert.equal((await alice.delete(one)).status, 200);
    }
  });

  test('keep what runs in their suite to the owner, also by way of its files [promise: limited-variables]', async () => {
    for (const { id } of [deploy, unit]) {
      const own = `${path}/suites/${id}`;
      const service_ = { name: 'db', image: 'db:1' };
      for (const json of [
        { command: 'printenv' },
        { steps: [{ name: 'x', command: 'printenv' }] },
        { image: 'mine:1' },
        { services: [service_] },
        { approval: true },
        { approvers: [bob.email] },
      ])
        assertRefused(await service.api.put(own, { as: bob.credentials, json }), 401, refused);
      const same = await bob.put(own, { command: 'make', timeout: '1', description: 'as before', approval: 'false' });
      assert.equal(same.status, 200, same.text);
      const dependency = await alice.createDependency();
      const attached = await bob.post(`${own}/dependencies`, { dependency_id: dependency.id });
      assertRefused(attached, 401, refused);
      assert.equal((await alice.post(`${own}/dependencies`, { dependency_id: dependency.id })).status, 201);
      assertRefused(await bob.delete(`${own}/dependencies/${dependency.id}`), 401, refused);
      assert.equal((await alice.delete(`${own}/dependencies/${dependency.id}`)).status, 200);
    }
    assertRefused(await bob.put(`${path}/suites/${deploy.id}`, { files_from_id: '' }), 401, refused);
    // A suite that can get none of them is free; one of the project is for all suites.
    const free = await bob.createSuite(project);
    assert.equal((await bob.put(`${path}/suites/${free.id}`, { command: 'printenv' })).status, 200);
    const form = { name: 'WIDE', content: 'x', 'refs[]': 'main' };
    const wide = (await alice.post(`${path}/environment_variables`, form)).record;
    for (const fields of [{ command: 'other' }, { 'matrix[]': 'BASH_ENV=/build/x' }])
      assertRefused(await bob.put(`${path}/suites/${free.id}`, fields), 401, refused);
    assertRefused(await bob.post(`${path}/suites`, { name: 'new', command: 'printenv' }), 401, refused);
    await alice.delete(`${path}/environment_variables/${wide.id}`);
    await alice.delete(`${path}/suites/${free.id}`);
  });

  test('show on pages which refs have them, and in which builds they are withheld', async () => {
    const tab = new Tab(service);
    await tab.signIn(alice.credentials);
    const page = `/ui/projects/${project.id}/settings/suites/${deploy.id}`;
    const shown = await tab.get(page);
    assert.match(shown.text, /KEY<\/code>[^]*?<code>main<\/code>/);
    const added = await tab.submit(shown, page, {
      do: 'add_variable',
      name: 'OTHER',
      content: 'x',
      'refs[]': 'release/*\nrefs/tags/v*',
    });
    assert.equal(added.status, 303, added.text);
    const { list } = await alice.get(`${path}/suites/${deploy.id}/environment_variables`);
    const other = list.find(({ name }) => name === 'OTHER');
    assert.deepEqual(other?.refs, ['release/*', 'refs/tags/v*']);
    await alice.delete(`${path}/suites/${deploy.id}/environment_variables/${other?.id}`);
    const his = new Tab(service);
    await his.signIn(bob.credentials);
    assert.doesNotMatch((await his.get(page)).text, /KEY|name="refs/);
    await alice.requestBuild(project, 'scratch');
    const commit = { sha: shaOf('b'), ref: 'refs/heads/scratch', branches: ['scratch'], branch: 'scratch' };
    await (await runner.take('fetch_commit')).fetched({ ...commit, defaultHead: 'kept' });
    await (await runner.take('run_suite')).exit(0);
    const kept = (await alice.get(`${path}/builds`)).list;
    for (const build of kept) await alice.post(`${path}/builds/${build.id}/cancel`);
    await alice.put(`${path}/suites/${deploy.id}`, { files_from_id: '', 'needs[]': '' });
    await trigger(service.store, project, shaOf('b'), { fetchRef: 'refs/heads/scratch', targetBranch: 'scratch' });
    await (await runner.take('run_suite')).exit(0);
    const task = await runner.take('run_suite');
    const own = `/ui/projects/${project.id}/builds/${task.order.work.environment['HEADRACE_BUILD_ID']}`;
    const withheld = (await his.get(own)).text;
    assert.match(withheld, /1 variable withheld[^]*<code>KEY<\/code>, which only main has: the commit was not built/);
    assert.doesNotMatch(withheld, /open sesame/);
    await task.exit(0);
    await alice.put(`${path}/suites/${deploy.id}`, { files_from_id: unit.id_str, 'needs[]': unit.id_str });
  });

  test('are in a shell of the owner, and in none of a collaborator [promise: limited-variables]', async () => {
    const own = await alice.createProject();
    await alice.invite(own, bob);
    const suite = await alice.createSuite(own);
    await alice.createVariable(own, suite, { name: 'KEY', content: 'open sesame', 'refs[]': 'main' });
    const later = await alice.createVariable(own, suite, { name: 'LATER', content: 'x' });
    await alice.createVariable(own, suite, { name: 'PLAIN', content: 'y' });
    await alice.requestBuild(own);
    await (await runner.take('fetch_commit')).fetched();
    const task = await runner.take('run_suite');
    assert.equal(task.order.work.environment['KEY'], 'open sesame');
    await recordHeartbeat(service.store.db, runner.self, { version: '', trouble: '' });
    const files = { location: 'where-the-files-of-it-are', name: 'name-of-the-files-of-it', key: 'ab'.repeat(32) };
    await task.finishAt(0, { kind: 'exited', status: 1 }, { kept: files });
    const build = `/projects/${own.id}/builds/${task.order.work.environment['HEADRACE_BUILD_ID']}`;
    await alice.put(`/projects/${own.id}/suites/${suite.id}/environment_variables/${later.id}`, { 'refs[]': 'main' });
    // The variable may be gone by now: the build had it all the same.
    const all = `/projects/${own.id}/suites/${suite.id}/environment_variables`;
    const [key] = (await alice.get(all)).list;
    await alice.delete(`${all}/${key?.id}`);
    const orderFor = async (user: User) => {
      await recordHeartbeat(service.store.db, runner.self, { version: '', trouble: '' });
      assert.equal((await user.post(`${build}/shell`)).status, 201);
      const asked = { location: files.location, running: [], room: 4 };
      const orders = await runner.dispatch.shells(runner.self, asked, new AbortController().signal);
      const [order] = orders.toReversed();
      await runner.dispatch.shellEnd(runner.self, { shell: order?.id ?? '', reason: 'exited' });
      return order;
    };
    assert.deepEqual((await orderFor(alice))?.withheld, []);
    assert.deepEqual((await orderFor(bob))?.withheld.toSorted(), ['KEY', 'LATER']);
  });

  test('are not loosened by the file of the default branch [promise: limited-variables]', async () => {
    const own = await alice.createProject({ config_file: '.headrace.toml' });
    const suites = `/projects/${own.id}/suites`;
    const ship = await alice.createSuite(own, { name: 'ship', command: 'make', manual: 'true' });
    const free = await alice.createSuite(own, { name: 'free', command: 'make' });
    await alice.put(`${suites}/${ship.id}`, { approval: 'true', 'approvers[]': alice.email });
    await alice.createVariable(own, ship, { name: 'KEY', content: 'x', 'refs[]': 'release/*' });
    const url = { name: 'URL', content: 'https://ours', secret: 'false', 'refs[]': 'release/*' };
    await alice.createVariable(own, ship, url);
    const strategy = await alice.createStrategy(own, {
      name: 'live',
      'refs[]': 'main',
      approval: 'true',
      'approvers[]': alice.email,
    });
    const options = {
      repository_url: 'deploy@example.org:live.git',
      local_branch: 'main',
      remote_branch: 'production',
    };
    const build = async (branch: string, file: object, digit: string, before: string | null) => {
      const request = await alice.requestBuild(own, branch);
      const task = await runner.take('fetch_commit');
      const found = { ref: `refs/heads/${branch}`, branches: [branch], branch, sha: shaOf(digit) };
      const config = { text: stringify(file), path: '.headrace.toml', before };
      await task.finish({ kind: 'fetched', commit: { ...aCommit, ...found }, config });
      const { text } = await alice.get(`/projects/${own.id}/build_requests/${request.id}/log.txt`);
      for (const one of (await alice.get(`/projects/${own.id}/builds`)).list)
        await alice.post(`/projects/${own.id}/builds/${one.id}/cancel`);
      return text;
    };
    const hostile = {
      suites: [
        {
          name: 'ship',
          command: 'printenv',
          image: 'mine:1',
          manual: true,
          variables: [
            { name: 'KEY', keep: true },
            { name: 'URL', content: 'https://theirs', secret: false },
          ],
        },
        { name: 'free', command: 'make all' },
      ],
      deploy_strategies: [{ name: 'live', strategy_type: 'git', ...options }],
    };
    const log = await build('main', hostile, '1', null);
    assert.match(log, /What runs in the suite ship stays unchanged/);
    const shipped = (await alice.get(`${suites}/${ship.id}`)).record;
    assert.deepEqual([shipped.command, shipped.image, shipped.approval], ['make', '', true]);
    assert.deepEqual(shipped.approvers, [alice.email]);
    const variables = (await alice.get(`${suites}/${ship.id}/environment_variables`)).list;
    assert.deepEqual(
      variables.map(({ refs, content }) => [refs, content]),
      [
        [['release/*'], 'x'],
        [['release/*'], 'https://ours'],
      ],
    );
    const live = `/projects/${own.id}/deploy_strategies/${strategy.id}`;
    const { refs, approval, approvers } = (await alice.get(live)).record;
    assert.deepEqual([refs, approval, approvers], [['main'], true, [alice.email]]);
    assert.equal((await alice.get(`${suites}/${free.id}`)).record.command, 'make all', 'the rest is as it says');
    // The same file on a branch that the variables are limited to, were it the default branch.
    await build('release/1', hostile, '2', shaOf('1'));
    assert.equal((await alice.get(`${suites}/${ship.id}`)).record.command, 'printenv');
    assert.equal((await alice.get(`${suites}/${ship.id}`)).record.approval, true);
    // It makes no other way to the same target either.
    const round = { name: 'round', strategy_type: 'git', ...options };
    const refusal = await build('release/1', { ...hostile, deploy_strategies: [round] }, '3', shaOf('2'));
    assert.match(refusal, /Nothing was changed/);
    assert.equal((await alice.get(`/projects/${own.id}/deploy_strategies`)).list.length, 1);
  });

  test('name approvers of builds, of whom nobody approves what they requested [promise: deploy-approval]', async () => {
    const own = await alice.createProject();
    const carol = await service.user('collaborator');
    for (const one of [bob, carol]) await alice.invite(own, one);
    const suites = `/projects/${own.id}/suites`;
    const suite = await alice.createSuite(own, { approval: 'true', 'approvers[]': bob.email });
    assert.deepEqual(suite.approvers, [bob.email]);
    const stranger = await alice.put(`${suites}/${suite.id}`, { 'approvers[]': 'nobody@example.org' });
    assertRefused(stranger, 404, { approvers: ['not_found'] });
    const held = async () => (await alice.get(`/projects/${own.id}/builds`)).list[0] as Record_;
    const approve = (by: User, build: Record_) => by.post(`/projects/${own.id}/builds/${build.id}/approve`);
    await bob.requestBuild(own);
    await (await runner.take('fetch_commit')).fetched();
    const first = await held();
    assert.equal(first.build_state, 'waiting_for_approval');
    for (const one of [bob, carol, alice]) assertRefused(await approve(one, first), 401, refused);
    await alice.post(`/projects/${own.id}/builds/${first.id}/cancel`);
    // Who restarts or reruns has requested it, too.
    const again = await bob.post(`/projects/${own.id}/builds/${first.id}/restart`);
    assertRefused(await approve(bob, again.record), 401, refused);
    await alice.post(`/projects/${own.id}/builds/${again.record.id}/cancel`);
    const third = await carol.post(`/projects/${own.id}/builds/${first.id}/restart`);
    assert.equal((await approve(bob, third.record)).record.approved_by, bob.email);
    await (await runner.take('run_suite')).exit(0);
    const request = (await alice.get(`/projects/${own.id}/build_requests`)).list[0] as Record_;
    await bob.post(`/projects/${own.id}/build_requests/${request.id}/rerun`);
    assertRefused(await approve(bob, await held()), 401, refused);
    await alice.post(`/projects/${own.id}/builds/${(await held()).id}/cancel`);
    // A push was requested by nobody, although it is built in the owner's name.
    await alice.put(`${suites}/${suite.id}`, { 'approvers[]': alice.email });
    await trigger(service.store, own, aCommit.sha);
    assertRefused(await approve(bob, await held()), 401, refused);
    assert.equal((await approve(alice, await held())).status, 200);
    await (await runner.take('run_suite')).exit(0);
    // Without approvers it is anybody of the project, also who requested it.
    await alice.put(`${suites}/${suite.id}`, { 'approvers[]': '' });
    await bob.requestBuild(own, aCommit.sha);
    assert.equal((await approve(bob, await held())).status, 200);
    await (await runner.take('run_suite')).exit(0);
  });
});
