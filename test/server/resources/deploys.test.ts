import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  assertCreated,
  assertDestroyed,
  assertFields,
  assertNotFound,
  assertRefused,
  assertWrongFields,
} from '../../support/expect.ts';
import { addCommit } from '../../support/rows.ts';
import { describeService } from '../../support/service.ts';

describeService('deploy strategies', (service) => {
  test('are created, fetched, listed without options, changed and deleted', async () => {
    const alice = await service.user();
    const project = await alice.createProject();
    const path = `/projects/${project.id}/deploy_strategies`;
    const sent = { repository_url: 'live@example.org:site.git', local_branch: 'main', remote_branch: 'release/1' };
    const options = { ...sent, clone_url: sent.repository_url };
    const answer = await service.api.post(path, {
      as: alice.credentials,
      json: { name: 'live', strategy_type: 'git', options: sent },
    });
    assertCreated(answer, 'id id_str name strategy_type refs approval approvers options');
    const strategy = answer.record;
    assert.deepEqual(strategy, { ...strategy, name: 'live', strategy_type: 'git', options });
    assert.deepEqual((await alice.get(`${path}/${strategy.id}`)).record, strategy);
    const { options: _, refs: __, approval: ___, approvers: ____, ...item } = answer.record;
    assert.deepEqual((await alice.get(path)).list, [item]);
    const changed = await alice.put(`${path}/${strategy.id}`, { 'options[remote_branch]': 'next' });
    const expected = { ...strategy, options: { ...options, remote_branch: 'next' } };
    assert.deepEqual(changed.record, expected);
    assert.deepEqual((await alice.get(`${path}/${strategy.id}`)).record, expected);
    const ported = 'ssh://live@example.org:2222/site.git';
    const moved = await alice.put(`${path}/${strategy.id}`, { 'options[clone_url]': ported });
    assert.deepEqual(moved.record.options, { ...options, remote_branch: 'next', clone_url: ported });
    for (const wrong of ['https://example.org/site.git', 'ssh://live@example.org:70000/site.git', 'ext::sh'])
      assertWrongFields(await alice.put(`${path}/${strategy.id}`, { 'options[clone_url]': wrong }), {
        'options[clone_url]': 'invalid_format',
      });
    assertDestroyed(await alice.delete(`${path}/${strategy.id}`));
    assertNotFound(await alice.get(`${path}/${strategy.id}`));
  });

  test('report everything that is wrong, nested fields under their bracketed names', async () => {
    const alice = await service.user();
    const project = await alice.createProject();
    const path = `/projects/${project.id}/deploy_strategies`;
    assertWrongFields(await alice.post(path), {
      name: 'is_blank',
      strategy_type: 'is_blank',
      'options[repository_url]': 'is_blank',
      'options[local_branch]': 'is_blank',
      'options[remote_branch]': 'is_blank',
    });
    const { name } = await alice.createStrategy(project);
    const wrong = {
      name: String(name),
      strategy_type: 'ftp',
      'options[repository_url]': 'ext::sh',
      'options[local_branch]': '-f',
      'options[remote_branch]': 'a..b',
    };
    assertWrongFields(await alice.post(path, wrong), {
      name: 'already_exists',
      strategy_type: 'invalid_format',
      'options[repository_url]': 'invalid_format',
      'options[local_branch]': 'invalid_format',
      'options[remote_branch]': 'invalid_format',
    });
  });
});

describeService('deploys', (service) => {
  const full =
    'id id_str state created_by deploy_strategy_id deploy_strategy_id_str commit_id commit_id_str build_id build_id_str deploy_started_at deploy_finished_at approvers approved_by';

  test('are created in their first state, fetched and listed newest first', async () => {
    const [alice, bob] = [await service.user(), await service.user()];
    const project = await alice.createProject();
    await alice.invite(project, bob);
    const strategy = await alice.createStrategy(project);
    const commit = await addCommit(service.store, project);
    const path = `/projects/${project.id}/deploys`;
    const answer = await bob.post(path, { deploy_strategy_id: strategy.id, commit_id: commit.id });
    assertCreated(answer, full);
    const deploy = answer.record;
    assert.deepEqual(deploy, {
      id: deploy.id,
      id_str: deploy.id_str,
      state: 'enqueued',
      created_by: bob.email,
      deploy_strategy_id: strategy.id,
      deploy_strategy_id_str: strategy.id_str,
      commit_id: commit.id,
      commit_id_str: String(commit.id),
      build_id: null,
      build_id_str: '',
      deploy_started_at: null,
      deploy_finished_at: null,
      approvers: [],
      approved_by: '',
    });
    const inVain = { waiting_reason: 'no runner is connected' };
    assert.deepEqual((await alice.get(`${path}/${deploy.id}`)).record, { ...deploy, ...inVain });
    const second = (await alice.post(path, { deploy_strategy_id: strategy.id, commit_id: commit.id })).record;
    const list = (await alice.get(path)).list;
    assert.deepEqual(
      list.map(({ id }) => id),
      [second.id, deploy.id],
    );
    for (const item of list) assertFields(item, 'id id_str state created_by waiting_reason');
    assert.equal(list[0]?.waiting_reason, inVain.waiting_reason);
    assertDestroyed(await alice.delete(`/projects/${project.id}/deploy_strategies/${strategy.id}`));
    assert.deepEqual((await alice.get(`${path}/${deploy.id}`)).record, { ...deploy, ...inVain });
  });

  test('take the newest commit that passed when none is named', async () => {
    const alice = await service.user();
    const project = await alice.createProject();
    const strategy = await alice.createStrategy(project);
    const path = `/projects/${project.id}/deploys`;
    const deploy = () => alice.post(path, { deploy_strategy_id: strategy.id });
    assertRefused(await deploy(), 404, { commit_id: ['not_found'] });
    await alice.requestBuild(project);
    assertRefused(await deploy(), 403, { commit_id: ['resource_temporary_unavailable'] });
    await addCommit(service.store, project, { build_state: 'passed' });
    const passed = await addCommit(service.store, project, { build_state: 'passed' });
    await addCommit(service.store, project, { build_state: 'failed' });
    assert.equal((await deploy()).record.commit_id, passed.id);
  });

  test('take the newest commit that passed on the branch of the strategy', async () => {
    const alice = await service.user();
    const project = await alice.createProject();
    const path = `/projects/${project.id}/deploys`;
    const deploy = async (branch: string) => {
      const strategy = await alice.createStrategy(project, { 'options[local_branch]': branch });
      return alice.post(path, { deploy_strategy_id: strategy.id });
    };
    const passed = (...branches: string[]) =>
      addCommit(service.store, project, { build_state: 'passed', branches: JSON.stringify(branches) });
    const odd = 'ü_%!"\\';
    const onMain = await passed('main', 'release/1');
    const onOdd = await passed(odd.replace('"\\', ''));
    for (let number = 0; number < 250; number += 1) await passed('Main');
    await passed('maintenance', 'x/main');
    await passed();
    await addCommit(service.store, project, { build_state: 'failed' });
    assert.equal((await deploy('main')).record.commit_id, onMain.id);
    assert.equal((await deploy('release/1')).record.commit_id, onMain.id);
    assert.equal((await deploy('ü_%!')).record.commit_id, onOdd.id);
    for (const none of ['ma_n', 'mai', '%', 'release']) {
      assertRefused(await deploy(none), 404, { commit_id: ['not_found'] });
    }
  });

  test('name what they cannot find under its field', async () => {
    const alice = await service.user();
    const [project, other] = [await alice.createProject(), await alice.createProject()];
    const [strategy, commit] = [await alice.createStrategy(other), await addCommit(service.store, other)];
    const path = `/projects/${project.id}/deploys`;
    const both = await alice.post(path, { deploy_strategy_id: strategy.id, commit_id: commit.id });
    assertRefused(both, 404, { deploy_strategy_id: ['not_found'], commit_id: ['not_found'] });
    const mixed = await alice.post(path, { deploy_strategy_id: 'x', commit_id: commit.id });
    assertRefused(mixed, 403, { deploy_strategy_id: ['invalid_format'], commit_id: ['not_found'] });
    assertNotFound(await alice.get(`${path}/${strategy.id}`));
  });
});
