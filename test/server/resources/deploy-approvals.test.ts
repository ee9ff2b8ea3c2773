import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { entryView } from '../../../src/server/auth/audit.ts';
import { allEntries } from '../../support/audit.ts';
import type { Record_ } from '../../support/client.ts';
import { assertNotFound, assertRefused, assertWrongFields } from '../../support/expect.ts';
import { registerApplication } from '../../support/applications.ts';
import { describeWithRunner } from '../../support/runner.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

const refused = { generic: ['unauthorized'] };
const busy = { generic: ['resource_temporary_unavailable'] };

describeWithRunner('a deploy that needs an approval', (service, runner) => {
  let alice: User;
  let bob: User;
  let carol: User;
  let mallory: User;
  let project: Record_;
  let path: string;
  let strategy: Record_;
  before(async () => {
    [alice, bob, carol, mallory] = [
      await service.user(),
      await service.user(),
      await service.user(),
      await service.user(),
    ];
    project = await alice.createProject();
    path = `/projects/${project.id}`;
    for (const one of [bob, carol]) await alice.invite(project, one);
    await alice.requestBuild(project);
    await (
      await runner.take('fetch_commit')
    ).fetched({ sha: 'a'.repeat(40), branches: ['main'], defaultBranch: 'main' });
    await alice.createSuite(project, { name: 'unit' });
    await alice.requestBuild(project, 'a'.repeat(40));
    await (await runner.take('run_suite')).exit(0);
    strategy = await alice.createStrategy(project, { approval: 'true' });
  });
  const ask = async (by: User, of: Record_ = strategy): Promise<Record_> => {
    const { record, status, text } = await by.post(`${path}/deploys`, { deploy_strategy_id: of.id });
    assert.equal(status, 201, text);
    return record;
  };
  const judge = (by: User, { id }: Record_, verdict = 'approve') => by.post(`${path}/deploys/${id}/${verdict}`);
  const stateOf = async ({ id }: Record_) => (await alice.get(`${path}/deploys/${id}`)).record.state;

  test('waits until somebody else approves it, and then is pushed [promise: deploy-approval]', async () => {
    const deploy = await ask(bob);
    assert.deepEqual([deploy.state, deploy.approved_by, deploy.build_id], ['waiting_for_approval', '', null]);
    await runner.assertIdle();
    for (const verdict of ['approve', 'reject']) {
      assertRefused(await judge(bob, deploy, verdict), 401, refused);
      assertNotFound(await judge(mallory, deploy, verdict));
    }
    await runner.assertIdle();
    const { record, status } = await judge(carol, deploy);
    assert.deepEqual([status, record.state, record.approved_by], [200, 'enqueued', carol.email]);
    for (const verdict of ['approve', 'reject']) assertRefused(await judge(alice, deploy, verdict), 403, busy);
    await (await runner.take('push_deploy')).finish({ kind: 'pushed' });
    assert.equal(await stateOf(deploy), 'deployed');
    const entries = (await allEntries(service)).map(entryView);
    const entry = entries.find(({ action, subject }) => action === 'deploy.approved' && subject.id === deploy.id);
    assert.equal(entry?.actor?.email, carol.email);
  });

  test('is approved by nobody who requested it, whatever credentials they have [promise: deploy-approval]', async () => {
    const application = await registerApplication(service, alice);
    const headers = { authorization: `Bearer ${await application.token(alice, ['deploys', 'projects'])}` };
    const byKey = await ask(alice);
    const byToken = (await service.api.post(`${path}/deploys`, { form: { deploy_strategy_id: strategy.id }, headers }))
      .record;
    for (const deploy of [byKey, byToken]) {
      assertRefused(await judge(alice, deploy), 401, refused);
      assertRefused(await service.api.post(`${path}/deploys/${deploy.id}/approve`, { headers }), 401, refused);
      const tab = new Tab(service);
      await tab.signIn(alice.credentials);
      const page = `/ui/projects/${project.id}/deploys/${deploy.id}`;
      const { text } = await tab.get(page);
      assert.match(text, /It waits for approval/);
      assert.doesNotMatch(text, />\s*(Approve|Reject)\s*</);
    }
    // Bob's page has both buttons.
    const tab = new Tab(service);
    await tab.signIn(bob.credentials);
    const page = `/ui/projects/${project.id}/deploys/${byKey.id}`;
    assert.match((await tab.get(page)).text, />\s*Reject\s*</);
    const done = await tab.submit(await tab.get(page), page, { do: 'approve' });
    assert.equal(done.status, 303);
    const approved = (await tab.get(page)).text;
    assert.match(approved, new RegExp(bob.email));
    assert.equal(await stateOf(byKey), 'enqueued');
    await alice.post(`${path}/deploys/${byKey.id}/cancel`);
    // Who requested it may take it back.
    assert.equal((await alice.post(`${path}/deploys/${byToken.id}/cancel`)).record.state, 'cancelled');
    assertRefused(await judge(bob, byToken), 403, busy);
    await runner.assertIdle();
  });

  test('ends when somebody rejects it, and its log names them', async () => {
    const deploy = await ask(alice);
    const { record, status } = await judge(carol, deploy, 'reject');
    assert.deepEqual([status, record.state], [200, 'rejected']);
    assert.notEqual(record.deploy_finished_at, null);
    assert.match((await alice.get(`${path}/deploys/${deploy.id}/log.txt`)).text, new RegExp(`${carol.email} rejected`));
    assertRefused(await judge(bob, deploy), 403, busy);
    assert.equal((await alice.post(`${path}/deploys/${deploy.id}/cancel`)).record.state, 'rejected');
    await runner.assertIdle();
  });

  test('is approved by the named users alone, as they were named when it was requested', async () => {
    const own = `${path}/deploy_strategies/${strategy.id}`;
    assertRefused(await alice.put(own, { 'approvers[]': 'nobody@example.org' }), 404, { approvers: ['not_found'] });
    assertRefused(await alice.put(own, { 'approvers[]': mallory.email }), 404, { approvers: ['not_found'] });
    const named = await alice.put(own, { 'approvers[]': bob.email.toUpperCase() });
    assert.deepEqual(named.record.approvers, [bob.email]);
    const [one, another] = [await ask(alice), await ask(bob)];
    assert.deepEqual(one.approvers, [bob.email]);
    // What is set now is for later deploys.
    await alice.put(own, { 'approvers[]': carol.email, 'options[remote_branch]': 'elsewhere' });
    for (const [by, deploy] of [
      [alice, one],
      [carol, one],
      [bob, another],
      [alice, another],
    ] as const)
      for (const verdict of ['approve', 'reject']) assertRefused(await judge(by, deploy, verdict), 401, refused);
    await alice.put(own, { approval: 'false', 'approvers[]': '' });
    assert.equal((await judge(bob, one)).status, 200);
    const push = await runner.take('push_deploy');
    assert.equal(push.order.work.remoteBranch, 'production');
    await push.finish({ kind: 'pushed' });
    await alice.post(`${path}/deploys/${another.id}/cancel`);
    await alice.put(own, { approval: 'true', 'options[remote_branch]': 'production' });
  });

  test('runs its suite after the approval, and not before', async () => {
    const ship = await alice.createSuite(project, { name: 'ship', manual: 'true' });
    const form = { name: 'by suite', strategy_type: 'suite', 'options[suite_id]': ship.id, approval: 'true' };
    const made = await alice.post(`${path}/deploy_strategies`, form);
    assert.equal(made.status, 201, made.text);
    const cancelled = await ask(bob, made.record);
    assert.equal((await bob.post(`${path}/deploys/${cancelled.id}/cancel`)).record.state, 'cancelled');
    const deploy = await ask(bob, made.record);
    assert.equal(deploy.state, 'waiting_for_approval');
    await runner.assertIdle();
    assert.equal((await judge(alice, deploy)).status, 200);
    const task = await runner.take('run_suite');
    assert.equal(task.order.work.environment['HEADRACE_DEPLOY_ID'], deploy.id_str);
    await task.exit(0);
    assert.equal(await stateOf(deploy), 'deployed');
  });

  test('is approved once, or ended, if all come at the same time', async () => {
    for (let round = 0; round < 3; round += 1) {
      const deploy = await ask(alice);
      const answers = await Promise.all([
        judge(bob, deploy),
        judge(carol, deploy),
        judge(carol, deploy, 'reject'),
        alice.post(`${path}/deploys/${deploy.id}/cancel`),
      ]);
      const done = answers.slice(0, 3).filter(({ status }) => status === 200);
      assert.ok(done.length <= 1, answers.map(({ text }) => text).join());
      const state = await stateOf(deploy);
      // Cancelling comes after an approval, or before everything else.
      assert.ok(['cancelled', 'rejected'].includes(String(state)), String(state));
      await runner.assertIdle();
    }
  });

  test('is led round by no collaborator, nor by another strategy [promise: deploy-approval]', async () => {
    const options = {
      strategy_type: 'git',
      'options[repository_url]': 'deploy@example.org:live.git',
      'options[local_branch]': 'main',
      'options[remote_branch]': 'production',
    };
    const all = `${path}/deploy_strategies`;
    for (const fields of [
      {},
      { 'options[repository_url]': '', 'options[clone_url]': 'ssh://other@EXAMPLE.org/live' },
      { 'options[remote_branch]': 'other', approval: 'true' },
      { 'options[remote_branch]': 'other', 'refs[]': 'main' },
      { 'options[remote_branch]': 'other', 'approvers[]': bob.email },
    ])
      assertRefused(await bob.post(all, { name: 'round', ...options, ...fields }), 401, refused);
    const ship = (await alice.get(`${path}/suites`)).list.find(({ name }) => name === 'ship');
    const bySuite = { name: 'round', strategy_type: 'suite', 'options[suite_id]': ship?.id ?? '' };
    assertRefused(await bob.post(all, bySuite), 401, refused);
    const own = `${all}/${strategy.id}`;
    for (const fields of [
      { approval: 'false' },
      { 'refs[]': 'scratch' },
      { 'approvers[]': bob.email },
      { 'options[remote_branch]': 'other' },
      { 'options[repository_url]': 'deploy@example.org:other.git' },
    ])
      assertRefused(await bob.put(own, fields), 401, refused);
    // Another target is free, until it is led to this one.
    const free = await bob.post(all, { name: 'free', ...options, 'options[remote_branch]': 'staging' });
    assert.equal(free.status, 201, free.text);
    assertRefused(await bob.put(`${all}/${free.record.id}`, { 'options[remote_branch]': 'production' }), 401, refused);
    assert.equal((await bob.put(own, { name: 'renamed', approval: 'true' })).record.name, 'renamed');
    const again = await alice.post(all, { name: 'the owner’s', ...options });
    assert.equal(again.status, 201, again.text);
    assert.equal((await alice.delete(`${all}/${again.record.id}`)).status, 200);
  });

  test('has a commit that is on one of the refs of its strategy', async () => {
    const own = `${path}/deploy_strategies/${strategy.id}`;
    for (const wrong of ['refs/x', 'refs/heads/', 'refs/{heads,tags}/x', '../x', '!main', 'a{b'])
      assertWrongFields(await alice.put(own, { 'refs[]': wrong }), { refs: 'invalid_format' });
    const asked = { deploy_strategy_id: strategy.id };
    for (const [refs, isOn] of [
      ['release/*', false],
      ['refs/tags/main', false],
      ['refs/heads/m*', true],
      ['main/**', false],
      ['**', true],
    ] as const) {
      assert.deepEqual((await alice.put(own, { 'refs[]': refs })).record.refs, [refs]);
      const answer = await alice.post(`${path}/deploys`, asked);
      if (isOn) assert.equal((await alice.post(`${path}/deploys/${answer.record.id}/cancel`)).status, 200);
      else assertWrongFields(answer, { commit_id: 'invalid_format' });
    }
  });
});
