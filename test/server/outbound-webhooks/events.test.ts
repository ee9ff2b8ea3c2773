import assert from 'node:assert/strict';
import { test } from 'node:test';
import { notifyOfDependency } from '../../../src/server/lifecycle/webhook-events.ts';
import type { Record_ } from '../../support/client.ts';
import { compiled, compiling } from '../../support/compiling.ts';
import { assertFields, assertRecent } from '../../support/expect.ts';
import { payloadOf, Receiver, verified } from '../../support/receiver.ts';
import { setDependencyState } from '../../support/rows.ts';
import { ScriptedRunner } from '../../support/runner.ts';
import { describeService } from '../../support/service.ts';
import type { User } from '../../support/user.ts';
import { moveDependency } from './support.ts';

const buildFields =
  'id id_str suite_id suite_id_str suite_name commit_id commit_id_str build_state attempt exit_status failure_reason allow_failure variant flaky created_at started_at finished_at tests_passed tests_failed tests_skipped reused_from_id reused_from_id_str checks_id checks_id_str uploads_pending uploads_lost waiting_reason approved_by steps cpu_seconds memory_peak disk_written network_received network_sent services';

describeService(
  'webhooks tell',
  (service) => {
    const listen = async (user: User, project: Record_, receiver: Receiver, type = 'build'): Promise<Record_> =>
      user.createNotification(project, { 'options[url]': receiver.url, notifiable_type: type });

    test('a new receiver that it is one, signed as the standard has it [promise: webhook-signatures]', async () => {
      await using receiver = await Receiver.start();
      const alice = await service.user();
      const project = await alice.createProject();
      const notification = await listen(alice, project, receiver);
      const [call] = await receiver.received(1);
      assert.ok(call);
      const { id, created_at: createdAt, ...told } = verified(call, notification.secret);
      assert.deepEqual(told, { type: 'ping', project });
      assertRecent(createdAt);
      assert.equal(call.headers['webhook-id'], id);
      assert.equal(call.headers['content-type'], 'application/json; charset=utf-8');
      const [delivery] = (await alice.get(`/projects/${project.id}/notifications/${notification.id}/deliveries`)).list;
      assert.equal(delivery?.id_str, id);
    });

    test('every state of commits and builds, in order, as it was at that moment', async () => {
      await using receiver = await Receiver.start();
      const alice = await service.user();
      await using stack = new AsyncDisposableStack();
      const runner = await ScriptedRunner.start(service.store);
      stack.defer(() => runner.dispatch.close());
      const project = await alice.createProject();
      const suite = await alice.createSuite(project);
      const { secret, id: notification } = await listen(alice, project, receiver);
      await using deaf = await Receiver.start();
      await listen(alice, project, deaf, 'dependency');
      await alice.requestBuild(project);
      await (await runner.take('fetch_commit')).fetched();
      await (await runner.take('run_suite')).exit(3);
      const types = await receiver.types(7);
      assert.deepEqual(types, [
        'ping',
        'commit.waiting_for_builds',
        'build.enqueued',
        'build.running',
        'commit.building',
        'build.failed',
        'commit.failed',
      ]);
      const told = receiver.calls.map((call) => verified(call, secret));
      const [, waiting, enqueued, running, building, failed, ended] = told;
      const commit = (await alice.get(`/projects/${project.id}/commits`)).list[0] as Record_;
      const fetched = (await alice.get(`/projects/${project.id}/commits/${commit.id}`)).record;
      assert.deepEqual(ended?.commit, fetched);
      assert.deepEqual(waiting?.commit, { ...fetched, build_state: 'waiting_for_builds' });
      assert.deepEqual(building?.commit, { ...fetched, build_state: 'building' });
      const builds = (await alice.get(`/projects/${project.id}/commits/${commit.id}/builds`)).list;
      assert.deepEqual(failed?.build, builds[0]);
      assert.deepEqual([builds[0]?.exit_status, builds[0]?.suite_id], [3, suite.id]);
      const { started_at: startedAt } = builds[0] as Record_;
      assertFields(failed?.build as Record_, buildFields);
      const open = { exit_status: null, finished_at: null };
      const before = { ...builds[0], ...open };
      const step = { name: 'command', line: null, cpu_seconds: null, memory_peak: null, ...open };
      const steps = [{ ...step, state: 'running', started_at: startedAt }];
      assert.deepEqual(running?.build, { ...before, build_state: 'running', steps });
      assert.deepEqual(enqueued?.build, {
        ...before,
        build_state: 'enqueued',
        started_at: null,
        steps: [{ ...step, state: 'waiting', started_at: null }],
        waiting_reason: 'waits for its turn',
      });
      assertRecent(startedAt);
      assert.deepEqual(
        told.map(({ project: shown }) => (shown as Record_).build_state),
        ['new', ...Array<string>(3).fill('waiting_for_builds'), 'building', 'building', 'failed'],
      );
      assert.deepEqual(ended.project, (await alice.get(`/projects/${project.id}`)).record);
      assert.equal(new Set(told.map(({ id }) => id)).size, 7);
      assert.deepEqual(await deaf.types(1), ['ping']);
      const { list } = await alice.get(`/projects/${project.id}/notifications/${String(notification)}/deliveries`);
      const { id: build, suite_name: name } = builds[0] as Record_;
      const ofCommit = { build_id: null, build_id_str: '', suite_name: '', variant: '' };
      const about = {
        ping: { ...ofCommit, commit_id: null, commit_ref: '' },
        commit: { ...ofCommit, commit_id: commit.id, commit_ref: commit.ref },
        build: { build_id: build, suite_name: name, variant: '', commit_id: commit.id, commit_ref: commit.ref },
      };
      for (const delivery of list) {
        const [kind = ''] = String(delivery.type).split('.');
        const expected = about[kind as keyof typeof about];
        for (const [field, value] of Object.entries(expected)) assert.equal(delivery[field], value, `${kind} ${field}`);
      }
    });

    test('of a request that could not be fetched, and why', async () => {
      await using receiver = await Receiver.start();
      const alice = await service.user();
      await using stack = new AsyncDisposableStack();
      const runner = await ScriptedRunner.start(service.store);
      stack.defer(() => runner.dispatch.close());
      const project = await alice.createProject();
      await alice.createSuite(project);
      const { secret } = await listen(alice, project, receiver);
      await using deaf = await Receiver.start();
      await listen(alice, project, deaf, 'dependency');
      const { id } = await alice.requestBuild(project);
      await (await runner.take('fetch_commit')).finish({ kind: 'unfetchable', reason: 'key_refused' });
      const path = `/projects/${project.id}/build_requests/${id}`;
      const shown = (await alice.get(path)).record;
      assert.equal((await alice.post(`${path}/rerun`)).status, 200);
      await (await runner.take('fetch_commit')).finish({ kind: 'cut_short', reason: 'disk_full' });
      assert.equal((await alice.post(`${path}/rerun`)).status, 200);
      await (await runner.take('fetch_commit')).finish({ kind: 'cancelled' });
      assert.equal((await alice.post(`${path}/rerun`)).status, 200);
      for (let time = 0; time < 3; time += 1) {
        await (await runner.take('fetch_commit')).finish({ kind: 'lost', message: 'the machine is on fire' });
      }
      // One that was fetched and then goes wrong is told of by its builds.
      await alice.requestBuild(project);
      await (await runner.take('fetch_commit')).fetched();
      await (await runner.take('run_suite')).finish({ kind: 'unfetchable', reason: 'key_refused' });
      const types = await receiver.types(10);
      const errored = 'build_request.errored';
      assert.deepEqual(types.slice(0, 4), ['ping', errored, errored, errored]);
      assert.deepEqual(types.slice(-2), ['build.errored', 'commit.errored']);
      const told = receiver.calls.map((call) => verified(call, secret));
      assert.deepEqual(told[1]?.build_request, shown);
      assert.deepEqual(
        told.slice(1, 4).map(({ reason }) => reason),
        ['key_refused', 'disk_full', 'runner_lost'],
      );
      assert.deepEqual(told[1]?.project, project);
      assert.deepEqual(await deaf.types(1), ['ping']);
    });

    test('of dependencies: those of the owner, and those of others that the suites use', async () => {
      const [owner, user, stranger] = [await service.user(), await service.user(), await service.user()];
      const dependency = await owner.createDependency();
      const related = await owner.createDependency({ 'related_dependencies[]': String(dependency.id) });
      await setDependencyState(service.store, dependency, 'shared');
      const receivers = await Promise.all([owner, user, stranger].map(() => Receiver.start()));
      const [atOwner, atUser, atStranger] = receivers as [Receiver, Receiver, Receiver];
      await using stack = new AsyncDisposableStack();
      for (const one of receivers) stack.use(one);
      const [ownProject, usingProject, otherProject] = [
        await owner.createProject(),
        await user.createProject(),
        await stranger.createProject(),
      ];
      const suite = await user.createSuite(usingProject);
      await user.post(`/projects/${usingProject.id}/suites/${suite.id}/dependencies`, { dependency_id: dependency.id });
      const { secret } = await listen(owner, ownProject, atOwner, 'dependency');
      await listen(user, usingProject, atUser, 'dependency');
      await listen(stranger, otherProject, atStranger, 'dependency');

      await moveDependency(service, dependency, 'enqueued_for_compile');
      await moveDependency(service, dependency, 'compiling');
      await moveDependency(service, related, 'compile_failed');
      await moveDependency(service, dependency, 'shared');
      const all = ['ping', 'dependency.enqueued_for_compile', 'dependency.compiling'];
      assert.deepEqual(await atOwner.types(5), [...all, 'dependency.compile_failed', 'dependency.shared']);
      assert.deepEqual(await atUser.types(4), [...all, 'dependency.shared']);
      assert.deepEqual(await atStranger.types(1), ['ping']);

      const told = atOwner.calls.map((call) => verified(call, secret));
      const shown = (await owner.get(`/dependencies/${dependency.id}`)).record;
      assert.deepEqual(told.at(-1)?.dependency, shown);
      assert.deepEqual(told[2]?.dependency, { ...shown, marketplace_state: 'compiling' });
      const against = [{ id: dependency.id, id_str: dependency.id_ref, name: dependency.name }];
      assert.deepEqual((told[3]?.dependency as Partial<Record_> | undefined)?.related_dependencies, against);
      assert.deepEqual(told.at(-1)?.project, ownProject);
      assert.deepEqual(payloadOf(atUser.calls.at(-1)?.body ?? '').project, usingProject);
    });

    test('of a dependency on its way from the description to the result', async () => {
      await using receiver = await Receiver.start();
      const alice = await service.user();
      await using stack = new AsyncDisposableStack();
      const runner = await ScriptedRunner.start(service.store);
      stack.defer(() => runner.dispatch.close());
      await listen(alice, await alice.createProject(), receiver, 'dependency');
      const { task, path } = await compiling(alice, runner);
      await compiled(runner, task);
      assert.equal((await alice.post(`${path}/share`)).status, 200);
      assert.deepEqual(await receiver.types(6), [
        'ping',
        'dependency.waiting_archive_upload',
        'dependency.enqueued_for_compile',
        'dependency.compiling',
        'dependency.compiled',
        'dependency.shared',
      ]);
    });

    test('nothing that was rolled back, and keep no key in clear', async () => {
      await using receiver = await Receiver.start();
      const alice = await service.user();
      const project = await alice.createProject();
      const dependency = await alice.createDependency();
      await listen(alice, project, receiver, 'dependency');
      await receiver.received(1);
      const { db, ids } = service.store;
      const undone = db.transaction(async (trx) => {
        await notifyOfDependency({ db, trx, ids }, dependency.id);
        throw new Error('no');
      });
      await assert.rejects(undone);
      await moveDependency(service, dependency, 'compiled');
      assert.deepEqual(await receiver.types(2), ['ping', 'dependency.compiled']);
      const [, key = ''] = String(project.ssh_public_key).split(' ');
      assert.ok(receiver.calls[1]?.body.includes(key));
      const stored = await db.read.selectFrom('webhook_deliveries').select('payload').execute();
      assert.ok(stored.every(({ payload }) => !payload.includes(key)));
    });
  },
  { settings: { webhook_allow: '127.0.0.0/8' } },
);
