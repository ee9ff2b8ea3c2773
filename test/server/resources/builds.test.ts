import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Record_ } from '../../support/client.ts';
import { assertCreated, assertFields, assertNotFound, assertRecent, assertWrongFields } from '../../support/expect.ts';
import { addBuild, addCommit } from '../../support/rows.ts';
import { describeService } from '../../support/service.ts';

describeService('build requests', (service) => {
  test('are created in their first state, fetched and listed newest first', async () => {
    const [alice, bob] = [await service.user(), await service.user()];
    const project = await alice.createProject();
    await alice.invite(project, bob);
    const path = `/projects/${project.id}/build_requests`;
    const answer = await bob.post(path, { commit_ref: 'feature/x' });
    const told =
      'event pull_request target_branch from_fork sender suites suite_names variables priority reuse waiting_reason';
    const found = 'failure_reason config_file includes base compared_with joined_to_id joined_to_id_str';
    assertCreated(
      answer,
      `id id_str build_state commit_ref commit_id commit_id_str created_by created_at ${told} ${found}`,
    );
    const { id, id_str, created_at, ...rest } = answer.record;
    assertRecent(created_at);
    assert.deepEqual(rest, {
      build_state: 'enqueued',
      commit_ref: 'feature/x',
      commit_id: null,
      commit_id_str: '',
      created_by: bob.email,
      event: 'manual',
      pull_request: null,
      target_branch: '',
      from_fork: false,
      sender: '',
      suites: [],
      suite_names: [],
      waiting_reason: 'no runner is connected',
      variables: {},
      priority: 0,
      reuse: true,
      failure_reason: '',
      config_file: '',
      includes: [],
      base: '',
      compared_with: '',
      joined_to_id: null,
      joined_to_id_str: '',
    });
    assert.deepEqual((await alice.get(`${path}/${id_str}`)).record, answer.record);
    const second = await alice.requestBuild(project, 'a'.repeat(40));
    assert.deepEqual((await alice.get(path)).list, [second, answer.record]);

    const commit = await addCommit(service.store, project);
    await service.store.db.transaction((trx) =>
      trx.updateTable('build_requests').set({ commit_id: commit.id }).where('id', '=', id).execute(),
    );
    const fetched = (await alice.get(`${path}/${id}`)).record;
    assert.deepEqual([fetched.commit_id, fetched.commit_id_str], [commit.id, String(commit.id)]);
  });

  test('refuse what git would take for an option or cannot name a commit', async () => {
    const alice = await service.user();
    const path = `/projects/${(await alice.createProject()).id}/build_requests`;
    assertWrongFields(await alice.post(path), { commit_ref: 'is_blank' });
    for (const ref of ['--upload-pack=x', '-b', 'a b', 'a..b', 'a:b', 'a~1', 'a^', '/a', 'a/', 'a.lock', 'a\nb']) {
      assertWrongFields(await alice.post(path, { commit_ref: ref }), { commit_ref: 'invalid_format' });
    }
    assertWrongFields(await alice.post(path, { commit_ref: 'x'.repeat(256) }), { commit_ref: 'invalid_format' });
    assert.equal((await alice.post(path, { commit_ref: 'HEAD' })).status, 201);
  });
});

describeService('commits', (service) => {
  const item = 'id id_str version ref build_state';

  test('are listed newest first and fetched with the dates their authors had', async () => {
    const alice = await service.user();
    const [project, other] = [await alice.createProject(), await alice.createProject()];
    const older = await addCommit(service.store, project);
    const newer = await addCommit(service.store, project, { version: 2 });
    const path = `/projects/${project.id}/commits`;
    const list = (await alice.get(path)).list;
    assert.deepEqual(
      list.map(({ id }) => id),
      [newer.id, older.id],
    );
    for (const one of list) assertFields(one, item);
    const commit = (await alice.get(`${path}/${newer.id}`)).record;
    assertFields(
      commit,
      `${item} message scm_author_name scm_author_email scm_authored_date scm_committer_name scm_committer_email scm_committed_date`,
    );
    assert.deepEqual(list[0], { ...list[0], id: newer.id, version: 2, ref: newer.ref, build_state: newer.build_state });
    assert.equal(commit.message, newer.message);
    assert.equal(commit.scm_authored_date, '2026-03-01T10:00:00-05:00');
    assert.equal(commit.scm_committed_date, '2026-03-02T11:30:00+05:30');
    assertNotFound(await alice.get(`/projects/${other.id}/commits/${newer.id}`));
    assertNotFound(await alice.get(`/projects/${other.id}/commits/${newer.id}/builds`));
    assert.deepEqual((await alice.get(`/projects/${other.id}/commits`)).list, []);
  });
});

describeService('builds', (service) => {
  test('are listed with their commit, every attempt of them, and stay when their suite goes', async () => {
    const alice = await service.user();
    const [project, other] = [await alice.createProject(), await alice.createProject()];
    const [suite, commit] = [await alice.createSuite(project), await addCommit(service.store, project)];
    const parts = { suite, commit, buildRequest: await alice.requestBuild(project) };
    const lost = {
      build_state: 'errored',
      exit_status: 137,
      failure_reason: 'runner_lost',
      started_at: 1_790_000_000_999n,
      finished_at: 1_790_000_001_000n,
    };
    const first = await addBuild(service.store, project, parts, lost);
    const second = await addBuild(service.store, project, parts, { attempt: 2 });
    await alice.delete(`/projects/${project.id}/suites/${suite.id}`);
    const list = (await alice.get(`/projects/${project.id}/commits/${commit.id}/builds`)).list;
    for (const build of list) {
      assertFields(
        build,
        'id id_str suite_id suite_id_str suite_name commit_id commit_id_str build_state attempt exit_status failure_reason allow_failure variant flaky created_at started_at finished_at tests_passed tests_failed tests_skipped reused_from_id reused_from_id_str checks_id checks_id_str uploads_pending uploads_lost waiting_reason approved_by steps cpu_seconds memory_peak disk_written network_received network_sent services',
      );
      assert.equal(build.waiting_reason, '', 'it has no work in the queue');
      const fetched = (await alice.get(`/projects/${project.id}/builds/${build.id}`)).record;
      assert.deepEqual(fetched, { ...build, withheld_variables: [] });
      assertRecent(build.created_at);
    }
    const [newest, oldest] = list as [Record_, Record_];
    assert.deepEqual([newest.id, newest.attempt, newest.exit_status, newest.started_at], [second.id, 2, null, null]);
    assert.deepEqual(oldest, {
      ...oldest,
      id: first.id,
      suite_id: suite.id,
      commit_id: commit.id,
      build_state: 'errored',
      attempt: 1,
      exit_status: 137,
      failure_reason: 'runner_lost',
      started_at: '2026-09-21T14:13:20+00:00',
      finished_at: '2026-09-21T14:13:21+00:00',
    });
    assertNotFound(await alice.get(`/projects/${other.id}/builds/${first.id}`));
  });
});
