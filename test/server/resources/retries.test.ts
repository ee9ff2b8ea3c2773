import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Outcome } from '../../../src/shared/protocol/index.ts';
import { assertWrongFields } from '../../support/expect.ts';
import { Receiver, reply } from '../../support/receiver.ts';
import { aCommit } from '../../support/runner.ts';
import { describeSuiteRuns } from '../../support/suite-runs.ts';

describeSuiteRuns(
  'a suite with retries',
  ({ runner, alice, begin }) => {
    test('is tried again when it fails, and is flaky when it passes then', async () => {
      const runs = await begin();
      assert.equal((await runs.suite({ retries: '2' })).retries, 2);
      const request = await runs.fetched();
      const first = await runner.take('run_suite');
      await first.writeLog('one\n');
      await first.exit(1);
      assert.equal(await runs.rolledUp(request), 'building building building', 'nothing has failed yet');
      const second = await runner.take('run_suite');
      assert.equal(second.order.work.environment.HEADRACE_ATTEMPT, '2');
      await second.writeLog('two\n');
      await second.exit(0);
      assert.equal(await runs.rolledUp(request), 'passed passed passed');
      await runner.assertIdle();
      assert.deepEqual(await runs.seen('build_state', 'attempt', 'flaky'), ['failed 1 false', 'passed 2 true']);
      const logs = (await runs.builds()).map(({ id }) => alice().get(`${runs.path}/builds/${id}/log.txt`));
      assert.deepEqual(
        (await Promise.all(logs)).map(({ text }) => text),
        ['one\n', 'two\n'],
      );
    });

    test('fails when it has failed often enough, and begins to count anew when somebody asks for more', async () => {
      const runs = await begin();
      await runs.suite({ retries: '1' });
      const request = await runs.fetched();
      const fail = async (): Promise<void> => (await runner.take('run_suite')).exit(1);
      await fail();
      await fail();
      assert.equal(await runs.rolledUp(request), 'failed failed failed');
      await runner.assertIdle();
      await alice().post(`${runs.path}/build_requests/${request.id}/rerun`, { failed_only: 'true' });
      await fail();
      await fail();
      await runner.assertIdle();
      await alice().post(`${runs.path}/builds/${(await runs.builds()).at(-1)?.id}/restart`);
      await (await runner.take('run_suite')).exit(0);
      assert.equal(await runs.rolledUp(request), 'passed passed passed');
      const states = ['failed false', 'failed false', 'failed false', 'failed false', 'passed false'];
      assert.deepEqual(await runs.seen('build_state', 'flaky'), states, 'nobody retried the last one by itself');
    });

    test('is tried again after it failed or took too long, and not after anything else', async () => {
      const endings: [Outcome, string[]][] = [
        [{ kind: 'timed_out' }, ['timed_out 1', 'enqueued 2']],
        [{ kind: 'killed', reason: 'out_of_memory' }, ['failed 1', 'enqueued 2']],
        [{ kind: 'unrunnable', reason: 'image_not_found' }, ['errored 1']],
        [{ kind: 'launch_failed' }, ['errored 1']],
        [{ kind: 'cancelled' }, ['cancelled 1']],
        [{ kind: 'exited', status: 0 }, ['passed 1']],
      ];
      for (const [outcome, expected] of endings) {
        const runs = await begin();
        await runs.suite({ retries: '3' });
        await runs.fetched();
        await (await runner.take('run_suite')).finish(outcome);
        assert.deepEqual(await runs.seen('build_state', 'attempt'), expected, outcome.kind);
        await alice().delete(runs.path);
      }
    });

    test('is not tried again where it was cancelled, or its suite deleted, while it failed', async () => {
      const runs = await begin();
      const suite = await runs.suite({ retries: '3' });
      const request = await runs.fetched();
      const task = await runner.take('run_suite');
      await alice().post(`${runs.path}/build_requests/${request.id}/cancel`);
      await task.exit(143);
      assert.deepEqual(await runs.seen('build_state'), ['failed']);
      await alice().post(`${runs.path}/build_requests/${request.id}/rerun`);
      const second = await runner.take('run_suite');
      await alice().delete(`${runs.path}/suites/${suite.id}`);
      await second.exit(1);
      assert.deepEqual(await runs.seen('build_state'), ['failed', 'failed']);
      assert.equal(await runs.rolledUp(request), 'failed failed failed');
      await runner.assertIdle();
    });

    test('goes on with its retries when the runner of one is lost', async () => {
      const runs = await begin();
      await runs.suite({ retries: '1' });
      const request = await runs.fetched();
      await (await runner.take('run_suite')).exit(1);
      const doomed = runner.beside('doomed');
      await doomed.take('run_suite');
      await runner.dispatch.holderGone('doomed');
      assert.equal(await runs.rolledUp(request), 'building building building');
      await (await runner.take('run_suite')).exit(0);
      const expected = ['failed 1 false', 'errored 2 false', 'passed 3 true'];
      assert.deepEqual(await runs.seen('build_state', 'attempt', 'flaky'), expected);
      await runner.assertIdle();
    });

    test('of which one is cancelled makes no other', async () => {
      const runs = await begin();
      await runs.suite({ retries: '3' });
      const request = await runs.fetched();
      await (await runner.take('run_suite')).exit(1);
      await alice().post(`${runs.path}/build_requests/${request.id}/cancel`);
      assert.deepEqual(await runs.seen('build_state'), ['failed', 'cancelled']);
      assert.equal(await runs.rolledUp(request), 'cancelled cancelled cancelled');
      await runner.assertIdle();
    });

    test('that fails in the moment in which its request is cancelled leaves no retry behind', async () => {
      const runs = await begin();
      await runs.suite({ retries: '3' });
      for (let round = 0; round < 10; round += 1) {
        const request = await (round === 0 ? runs.fetched() : alice().requestBuild(runs.project, aCommit.sha));
        const task = await runner.take('run_suite');
        await Promise.all([task.exit(1), alice().post(`${runs.path}/build_requests/${request.id}/cancel`)]);
        await runner.assertIdle();
        const { build_state: state } = (await alice().get(`${runs.path}/build_requests/${request.id}`)).record;
        assert.ok(state === 'failed' || state === 'cancelled', String(state));
      }
    });

    test('tells of every attempt, and of the commit’s end once; a forge hears nothing of failures in between', async () => {
      await using receiver = await Receiver.start(reply(200));
      await using forge = await Receiver.start(reply(201));
      const runs = await begin();
      await runs.suite({ retries: '1', name: 'unit' });
      await alice().post(`${runs.path}/notifications`, {
        name: 'webhook',
        notifiable_type: 'build',
        'options[url]': receiver.url,
      });
      await alice().post(`${runs.path}/status_targets`, {
        provider: 'gitea',
        api_url: forge.url,
        repository: 'team/code',
        token: 'secret-token',
      });
      await runs.fetched();
      await (await runner.take('run_suite')).exit(1);
      await (await runner.take('run_suite')).exit(0);
      const told = (await receiver.received(10)).map(
        ({ body }) => JSON.parse(body) as { type: string; build?: { attempt: number; flaky: boolean } },
      );
      const words = told.map(({ type, build }) => (build ? `${type} ${build.attempt} ${build.flaky}` : type));
      assert.deepEqual(
        words.filter((word) => word.startsWith('build.')),
        [
          'build.enqueued 1 false',
          'build.running 1 false',
          'build.failed 1 false',
          'build.enqueued 2 false',
          'build.running 2 false',
          'build.passed 2 true',
        ],
      );
      assert.deepEqual(
        words.filter((word) => word.startsWith('commit.')),
        ['commit.waiting_for_builds', 'commit.building', 'commit.passed'],
      );
      const states = (await forge.received(5)).map(({ body }) => (JSON.parse(body) as { state: string }).state);
      assert.deepEqual(states, ['pending', 'pending', 'pending', 'pending', 'success']);
    });

    test('has at most three', async () => {
      const runs = await begin();
      const suite = await runs.suite({ retries: '3' });
      for (const retries of ['4', '-1', 'x', '1.5'])
        assertWrongFields(await runs.change(suite, { retries }), { retries: 'invalid_format' });
      assert.equal((await runs.change(suite, { description: 'd' })).record.retries, 3);
    });
  },
  { settings: { webhook_allow: '127.0.0.0/8' } },
);
