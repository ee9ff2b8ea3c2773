import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { CommitReport } from '../../../src/shared/protocol/index.ts';
import type { Record_ } from '../../support/client.ts';
import { assertRefused } from '../../support/expect.ts';
import { aCommit, describeWithRunner } from '../../support/runner.ts';
import { fromFork, trigger } from '../../support/triggered.ts';
import type { User } from '../../support/user.ts';

const sha = (digit: string): string => digit.repeat(40);
/** What a fetch finds of a commit that only a pull request leads to. */
const foreign: Partial<CommitReport> = {
  branches: [],
  tags: [],
  branch: null,
  ref: 'refs/pull/7/head',
  defaultHead: 'kept',
};

describeWithRunner('a build request that was triggered', (service, runner) => {
  let alice: User;
  before(async () => {
    alice = await service.user();
  });

  const withSecret = async (fields: Record<string, string> = {}): Promise<Record_> => {
    const project = await alice.createProject(fields);
    const suite = await alice.createSuite(project);
    await alice.createVariable(project, suite, { name: 'KEY', content: 'open sesame' });
    await alice.post(`/projects/${project.id}/environment_variables`, { name: 'ALL', content: 'for all suites' });
    return project;
  };
  const requestsOf = async (project: Record_): Promise<string[]> =>
    (await alice.get(`/projects/${project.id}/build_requests`)).list
      .map(({ commit_ref, build_state }) => `${String(commit_ref)[0]} ${String(build_state)}`)
      .toReversed();
  const passed = async (): Promise<Record<string, string>> => {
    const build = await runner.take('run_suite');
    await build.exit(0);
    return build.order.work.environment;
  };

  test('says what it goes back to, to people, rules and builds', async () => {
    const project = await withSecret();
    const suite = (await alice.get(`/projects/${project.id}/suites`)).list[0];
    const rules = `/projects/${project.id}/suites/${suite?.id}/rules`;
    await alice.post(rules, { subject: 'request.event', operator: 'equals', value: 'push' });
    await alice.post(rules, { subject: 'request.target_branch', operator: 'equals', value: 'main' });
    await alice.post(rules, { subject: 'request.from_fork', operator: 'equals', value: 'false' });
    const { outcome, reason, request } = await trigger(service.store, project, sha('a'));
    assert.deepEqual([outcome, reason], ['build_requested', '']);
    const fetch = await runner.take('fetch_commit');
    assert.equal(fetch.order.work.commitRef, sha('a'));
    await fetch.fetched({ sha: sha('a'), branches: ['aaa', 'main'], branch: 'aaa' });
    const environment = await passed();
    assert.deepEqual(
      [environment['HEADRACE_EVENT'], environment['HEADRACE_TARGET_BRANCH'], environment['HEADRACE_PULL_REQUEST']],
      ['push', 'main', ''],
    );
    assert.deepEqual([environment['HEADRACE_BRANCH'], environment['KEY']], ['main', 'open sesame']);
    const shown = (await alice.get(`/projects/${project.id}/build_requests/${request?.id}`)).record;
    assert.deepEqual(
      [shown['event'], shown['pull_request'], shown['target_branch'], shown['from_fork'], shown['sender']],
      ['push', null, 'main', false, 'ada'],
    );
    assert.deepEqual([shown['created_by'], shown.build_state], ['hook:7', 'passed']);
    const byHand = await alice.requestBuild(project, sha('a'));
    assert.deepEqual([byHand['event'], byHand['sender'], byHand['created_by']], ['manual', '', alice.email]);
    await runner.assertIdle(); // its rule wants a push
  });

  test('fetches a known commit again when it is told to be on a branch that nobody knew of', async () => {
    const project = await withSecret();
    await alice.requestBuild(project, 'main');
    await (await runner.take('fetch_commit')).fetched();
    await passed();
    await trigger(service.store, project, aCommit.sha);
    assert.equal((await passed())['HEADRACE_BRANCH'], 'main');
    await trigger(service.store, project, aCommit.sha, { targetBranch: 'next', fetchRef: 'refs/heads/next' });
    await (await runner.take('fetch_commit')).fetched({ branches: ['main', 'next'] });
    assert.equal((await passed())['HEADRACE_BRANCH'], 'next');
  });

  test('compares a known commit of the default branch with its first parent, also where only a push built it', async () => {
    const project = await withSecret();
    const suite = (await alice.get(`/projects/${project.id}/suites`)).list[0];
    const commit = { ...aCommit, sha: sha('9'), parent: sha('7'), defaultBranch: 'main' };
    const push = { kind: 'fetched' as const, commit };
    const changes = { base: sha('8'), comparedWith: 'what main had before', files: ['other.c'] };
    await trigger(service.store, project, sha('9'), { before: sha('8') });
    await (await runner.take('fetch_commit')).finish({ ...push, changes });
    await passed();
    const compared = async (): Promise<unknown[]> => {
      const { id } = await alice.requestBuild(project, sha('9'));
      const shown = (await alice.get(`/projects/${project.id}/build_requests/${id}`)).record;
      return [shown['base'], shown['compared_with']];
    };
    assert.deepEqual(await compared(), ['', '']);
    await passed();
    // What that changed is known: nothing has to be fetched where a rule asks for it.
    const rule = { subject: 'commit.files', operator: 'equals', value: aCommit.files[0] ?? '' };
    await alice.post(`/projects/${project.id}/suites/${suite?.id}/rules`, rule);
    assert.deepEqual(await compared(), [sha('7'), 'its first parent']);
    await passed();
  });

  test('fetches a known commit again where a rule asks for its files and nobody compared it with the same', async () => {
    const project = await withSecret();
    const suite = (await alice.get(`/projects/${project.id}/suites`)).list[0];
    const before = sha('b');
    await trigger(service.store, project, sha('f'), fromFork);
    await (await runner.take('fetch_commit')).fetched({ ...foreign, sha: sha('f') });
    await passed();
    const byHand = await alice.requestBuild(project, sha('f'));
    await passed();
    const shown = (await alice.get(`/projects/${project.id}/build_requests/${byHand.id}`)).record;
    assert.equal(shown['compared_with'], '');

    const rule = { subject: 'commit.files', operator: 'equals', value: 'gate.c' };
    await alice.post(`/projects/${project.id}/suites/${suite?.id}/rules`, rule);
    // Whose commit it is, is known before the files are.
    assert.equal((await alice.requestBuild(project, sha('f')))['from_fork'], true);
    const changes = { base: before, comparedWith: 'the merge base with main', files: ['gate.c'] };
    const again = await runner.take('fetch_commit');
    await again.finish({ kind: 'fetched', commit: { ...aCommit, ...foreign, sha: sha('f') }, changes });
    assert.equal((await passed())['KEY'], undefined);
    const like = await alice.requestBuild(project, sha('f'));
    assert.equal((await passed())['KEY'], undefined, 'what it changes is known now');
    const known = (await alice.get(`/projects/${project.id}/build_requests/${like.id}`)).record;
    assert.deepEqual([known['base'], known['from_fork']], [before, true]);
    await trigger(service.store, project, sha('f'), { ...fromFork, fromFork: false });
    const { compare } = (await runner.take('fetch_commit')).order.work;
    assert.deepEqual(compare, { leaving: 'main' }, 'a pull request goes by its target');
    await alice.delete(`/projects/${project.id}`);
  });

  test('from a fork gets no variables, whoever asks for its commit, and is not deployed until it is merged [promise: fork-secrets]', async () => {
    const project = await withSecret();
    const strategy = await alice.createStrategy(project);
    await trigger(service.store, project, sha('f'), fromFork);
    await (await runner.take('fetch_commit')).fetched({ ...foreign, sha: sha('f') });
    const build = await runner.take('run_suite');
    const { environment, secrets } = build.order.work;
    assert.deepEqual([environment['KEY'], environment['ALL'], secrets], [undefined, undefined, []]);
    assert.equal(build.order.work.environment['HEADRACE_PULL_REQUEST'], '7');
    assert.equal(build.order.work.isFork, true);
    await build.exit(0);
    // By its SHA, which is known, and by the ref of the pull request.
    const known = await alice.requestBuild(project, sha('f'));
    assert.equal(known['from_fork'], true);
    assert.equal((await passed())['KEY'], undefined);
    const byRef = await alice.requestBuild(project, 'refs/pull/7/head');
    await (await runner.take('fetch_commit')).fetched({ ...foreign, sha: sha('f') });
    assert.equal((await passed())['KEY'], undefined);
    const requests = `/projects/${project.id}/build_requests`;
    assert.equal((await alice.get(`${requests}/${byRef.id}`)).record['from_fork'], true);
    await alice.post(`${requests}/${byRef.id}/rerun`);
    assert.equal((await passed())['KEY'], undefined);
    // A payload that says nothing of a fork does not help: the commit is on no branch.
    await trigger(service.store, project, sha('f'), { ...fromFork, fromFork: false });
    assert.equal((await passed())['KEY'], undefined);

    const [commit] = (await alice.get(`/projects/${project.id}/commits`)).list;
    const deploy = { deploy_strategy_id: strategy.id, commit_id: commit?.id ?? 0n };
    const refused = await alice.post(`/projects/${project.id}/deploys`, deploy);
    assertRefused(refused, 403, { commit_id: ['invalid_format'] });
    await trigger(service.store, project, sha('f'));
    await (await runner.take('fetch_commit')).fetched({ sha: sha('f') });
    const merged = await passed();
    assert.deepEqual(
      [merged['KEY'], merged['ALL']],
      ['open sesame', 'for all suites'],
      'merged, it is like all others',
    );
    const deployed = await alice.post(`/projects/${project.id}/deploys`, deploy);
    assert.equal(deployed.status, 201);
    await alice.post(`/projects/${project.id}/deploys/${deployed.record.id}/cancel`);
  });

  test('says to the runner whose commit it is, by the commit and not by who asks [promise: fork-sources]', async () => {
    const project = await withSecret();
    const isFork = async (): Promise<boolean | undefined> => {
      const build = await runner.take('run_suite');
      await build.exit(0);
      return build.order.work.isFork;
    };
    // By a payload that says nothing of a fork, by hand with the SHA and with the ref, and once more.
    await trigger(service.store, project, sha('f'), { ...fromFork, fromFork: false });
    await (await runner.take('fetch_commit')).fetched({ ...foreign, sha: sha('f') });
    assert.equal(await isFork(), true);
    const byHand = await alice.requestBuild(project, sha('f'));
    assert.equal(await isFork(), true);
    await alice.requestBuild(project, 'refs/pull/7/head');
    await (await runner.take('fetch_commit')).fetched({ ...foreign, sha: sha('f') });
    assert.equal(await isFork(), true);
    // Merged, it is one like all others; what was asked for before is what it was.
    await trigger(service.store, project, sha('f'));
    await (await runner.take('fetch_commit')).fetched({ sha: sha('f') });
    assert.equal(await isFork(), false);
    await alice.post(`/projects/${project.id}/build_requests/${byHand.id}/rerun`);
    assert.equal(await isFork(), true);
    await alice.requestBuild(project, sha('f'));
    assert.equal(await isFork(), false);
  });

  test('from a fork waits for approval, or does not come to be, as the project says [promise: fork-approval]', async () => {
    const project = await withSecret({ fork_builds: 'approval' });
    const { outcome, reason, request } = await trigger(service.store, project, sha('f'), fromFork);
    assert.equal(outcome, 'waiting_for_approval');
    assert.match(reason, /fork_builds/);
    await runner.assertIdle();
    const path = `/projects/${project.id}/build_requests/${request?.id}`;
    assert.equal((await alice.get(path)).record.build_state, 'waiting_for_approval');
    const [bob, stranger] = [await service.user(), await service.user()];
    assertRefused(await stranger.post(`${path}/approve`), 404, { generic: ['not_found'] });
    await alice.invite(project, bob);
    assert.equal((await bob.post(`${path}/approve`)).record.build_state, 'enqueued');
    assertRefused(await bob.post(`${path}/approve`), 403, { generic: ['resource_temporary_unavailable'] });
    await (await runner.take('fetch_commit')).fetched({ ...foreign, sha: sha('f') });
    assert.equal((await passed())['KEY'], undefined, 'also then it has no secrets');
    assert.equal((await alice.get(path)).record.build_state, 'passed');

    const second = (await trigger(service.store, project, sha('e'), fromFork)).request;
    const other = `/projects/${project.id}/build_requests/${second?.id}`;
    assert.equal((await alice.post(`${other}/cancel`)).record.build_state, 'cancelled');
    await runner.assertIdle();
    assertRefused(await alice.post(`${other}/approve`), 403, { generic: ['resource_temporary_unavailable'] });

    await alice.put(`/projects/${project.id}`, { fork_builds: 'never' });
    const never = await trigger(service.store, project, sha('d'), fromFork);
    assert.deepEqual([never.outcome, never.request], ['ignored', undefined]);
    assert.match(never.reason, /never/);
    const own = await trigger(service.store, project, sha('d'), { ...fromFork, fromFork: false });
    assert.equal(own.outcome, 'build_requested', 'one of the repository’s own is none of a fork');
    await alice.delete(`/projects/${project.id}`);
  });

  test('cancels older ones of the same branch that wait, or run, as the project says', async () => {
    const project = await withSecret({ cancel_superseded: 'waiting' });
    await alice.requestBuild(project, 'by-hand');
    const byHand = await runner.take('fetch_commit');
    await trigger(service.store, project, sha('1'));
    await (await runner.take('fetch_commit')).fetched({ sha: sha('1') });
    const running = await runner.take('run_suite');
    await trigger(service.store, project, sha('2'), { targetBranch: 'other', group: 'branch:other' });
    await trigger(service.store, project, sha('3'));
    const { reason } = await trigger(service.store, project, sha('4'));
    assert.match(reason, /^1 older request/);
    const expected = ['b fetching', '1 building', '2 enqueued', '3 cancelled', '4 enqueued'];
    assert.deepEqual(await requestsOf(project), expected, 'what runs goes on, and what somebody asked for by hand');
    await alice.put(`/projects/${project.id}`, { cancel_superseded: 'running' });
    await trigger(service.store, project, sha('5'));
    assert.equal(await running.hears(), 'cancel');
    await running.finish({ kind: 'cancelled' });
    const after = ['b fetching', '1 cancelled', '2 enqueued', '3 cancelled', '4 cancelled', '5 enqueued'];
    assert.deepEqual(await requestsOf(project), after);
    await byHand.finish({ kind: 'cancelled' });
    await alice.delete(`/projects/${project.id}`);
  });

  test('of two at the same moment, the older is superseded', async () => {
    const project = await alice.createProject({ cancel_superseded: 'waiting' });
    for (let turn = 0; turn < 5; turn += 1) {
      const both = [sha('a'), sha('b'), sha('c')];
      await Promise.all(both.map((one) => trigger(service.store, project, one)));
      const open = (await requestsOf(project)).filter((one) => one.endsWith('enqueued'));
      assert.equal(open.length, 1, open.join(', '));
    }
    await alice.delete(`/projects/${project.id}`);
  });

  test('does not come to be at the cost of an owner who is suspended or does not pay', async () => {
    const [debtor, banned] = [await service.user(), await service.user()];
    const projects = [await debtor.createProject(), await banned.createProject()];
    await service.stopPaying(debtor, 'overdue');
    await service.suspend(banned);
    for (const project of projects) {
      const { outcome, reason } = await trigger(service.store, project, sha('a'));
      assert.equal(outcome, 'ignored');
      assert.match(reason, /owner is (suspended|not paid for)/);
    }
    await runner.assertIdle();
  });

  test('goes by policies that are checked when they are set', async () => {
    const wrong = { fork_builds: 'always', cancel_superseded: 'all', poll_interval: '5', public_badge: 'perhaps' };
    const project = await alice.createProject();
    const invalid = ['invalid_format'];
    assertRefused(await alice.put(`/projects/${project.id}`, wrong), 403, {
      fork_builds: invalid,
      cancel_superseded: invalid,
      poll_interval: invalid,
      public_badge: invalid,
    });
    const usual = { fork_builds: 'without_secrets', cancel_superseded: 'none', poll_interval: 0, public_badge: false };
    const shown = (await alice.get(`/projects/${project.id}`)).record;
    for (const [name, value] of Object.entries(usual)) assert.equal(shown[name], value, name);
    const policies = { fork_builds: 'never', cancel_superseded: 'running', poll_interval: '15', public_badge: 'true' };
    const changed = (await alice.put(`/projects/${project.id}`, policies)).record;
    assert.deepEqual([changed['poll_interval'], changed['public_badge']], [15, true]);
  });
});
