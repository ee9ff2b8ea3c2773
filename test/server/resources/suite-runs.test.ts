import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Outcome } from '../../../src/shared/protocol/index.ts';
import { assertRefused, assertWrongFields } from '../../support/expect.ts';
import { addCache } from '../../support/rows.ts';
import { aCommit } from '../../support/runner.ts';
import { describeSuiteRuns } from '../../support/suite-runs.ts';

describeSuiteRuns(
  'a suite',
  ({ service, runner, alice, begin }) => {
    test('has a time limit of its own; the server’s is the most, also where it is lower by now', async () => {
      const runs = await begin();
      for (const timeout of ['3601', '-1', '1.5', 'x', '99999999999']) {
        const refused = await alice().post(`${runs.path}/suites`, { name: 'n', command: 'c', timeout });
        assertWrongFields(refused, { timeout: 'invalid_format' });
      }
      const suite = await runs.suite({ timeout: '3600' });
      assert.equal(suite.timeout, 3600);
      assertWrongFields(await runs.change(suite, { timeout: '3601' }), { timeout: 'invalid_format' });
      const limit = async (): Promise<number> => {
        const task = await runner.take('run_suite');
        await task.exit(0);
        return task.order.work.limits.timeoutSeconds;
      };
      await runs.fetched();
      assert.equal(await limit(), 600, 'the server that gives the order allows less');
      assert.equal((await runs.change(suite, { timeout: '90' })).record.timeout, 90);
      await alice().requestBuild(runs.project, aCommit.sha);
      assert.equal(await limit(), 90);
      assert.equal((await runs.change(suite, { timeout: '0' })).record.timeout, 0);
      await alice().requestBuild(runs.project, aCommit.sha);
      assert.equal(await limit(), 600);
    });

    test('that may fail fails neither commit nor request nor project, and its build says what happened', async () => {
      const endings: [Outcome, string][] = [
        [{ kind: 'exited', status: 1 }, 'failed'],
        [{ kind: 'timed_out' }, 'timed_out'],
        [{ kind: 'unrunnable', reason: 'image_not_found' }, 'errored'],
      ];
      for (const [outcome, state] of endings) {
        const runs = await begin();
        await runs.suite();
        assert.equal((await runs.suite({ allow_failure: 'true' })).allow_failure, true);
        const request = await runs.fetched();
        await (await runner.take('run_suite')).exit(0);
        await (await runner.take('run_suite')).finish(outcome);
        assert.equal(await runs.rolledUp(request), 'passed passed passed', state);
        assert.deepEqual(await runs.seen('build_state', 'allow_failure'), ['passed false', `${state} true`]);
      }
    });

    test('goes by its name: another counts from its next start, and builds keep the one that they had', async () => {
      const runs = await begin();
      const suite = await runs.suite({ name: 'unit', 'cache[]': 'deps' });
      await addCache(service.store, { project: runs.project, suite });
      const request = await runs.fetched();
      await (await runner.take('run_suite')).exit(1);
      await runs.change(suite, { name: 'tests' });
      const [cache] = (await alice().get(`${runs.path}/caches`)).list;
      assert.equal(cache?.suite_id, suite.id, 'the cache goes along');
      const again = await alice().requestBuild(runs.project, aCommit.sha);
      const task = await runner.take('run_suite');
      assert.equal(task.order.work.environment.HEADRACE_SUITE, 'tests');
      await task.exit(0);
      assert.deepEqual(await runs.seen('suite_name', 'attempt', 'build_state'), ['unit 1 failed', 'tests 1 passed']);
      assert.equal(await runs.rolledUp(again), 'passed passed passed');
      await alice().post(`${runs.path}/build_requests/${request.id}/rerun`);
      await (await runner.take('run_suite')).exit(1);
      assert.equal((await runs.seen('suite_name', 'attempt')).at(-1), 'unit 2');
      assert.equal(await runs.rolledUp(request), 'failed passed passed', 'what it was before counts no more');
    });

    test('that may fail does not cover for one that may not, nor for what was cancelled', async () => {
      const runs = await begin();
      await runs.suite();
      await runs.suite({ allow_failure: 'true' });
      const request = await runs.fetched();
      await (await runner.take('run_suite')).exit(1);
      await (await runner.take('run_suite')).exit(1);
      assert.equal(await runs.rolledUp(request), 'failed failed failed');
      await alice().post(`${runs.path}/build_requests/${request.id}/rerun`);
      await (await runner.take('run_suite')).exit(0);
      await alice().post(`${runs.path}/builds/${(await runs.builds())[3]?.id}/cancel`);
      assert.equal(await runs.rolledUp(request), 'cancelled cancelled cancelled');
    });

    test('may fail if it might when the build was made', async () => {
      const runs = await begin();
      const suite = await runs.suite();
      const request = await runs.fetched();
      const task = await runner.take('run_suite');
      await runs.change(suite, { allow_failure: 'true' });
      await task.exit(1);
      assert.equal(await runs.rolledUp(request), 'failed failed failed');
      const [first] = await runs.builds();
      await alice().post(`${runs.path}/builds/${first?.id}/restart`);
      assert.deepEqual(await runs.seen('build_state', 'allow_failure'), ['failed false', 'enqueued true']);
      await (await runner.take('run_suite')).exit(1);
      assert.equal(await runs.rolledUp(request), 'passed passed passed');
    });
  },
  { timeoutSeconds: 600 },
);

describeSuiteRuns('a build of some suites', ({ runner, alice, begin }) => {
  test('runs those alone, also when its commit is fetched later, known already, or run again', async () => {
    const runs = await begin();
    const [unit, lint] = [await runs.suite({ name: 'unit' }), await runs.suite({ name: 'lint' })];
    const request = await runs.fetched({ 'suites[]': lint.id_str });
    assert.deepEqual(request.suites, [{ id: lint.id, id_str: lint.id_str }]);
    const task = await runner.take('run_suite');
    assert.equal(task.order.work.environment.HEADRACE_SUITE, 'lint');
    await task.exit(0);
    assert.equal(await runs.rolledUp(request), 'passed passed passed');
    await alice().post(`${runs.path}/build_requests/${request.id}/rerun`);
    await (await runner.take('run_suite')).exit(0);
    const known = await alice().post(`${runs.path}/build_requests`, {
      commit_ref: aCommit.sha,
      'suites[]': unit.id_str,
    });
    await (await runner.take('run_suite')).exit(1);
    await runner.assertIdle();
    assert.equal(await runs.rolledUp(known.record), 'failed failed failed');
    const expected = [lint, lint, unit].map(({ id_str: id }) => id);
    assert.deepEqual(await runs.seen('suite_id_str'), expected);
    assert.equal(await runs.rolledUp(request), 'passed failed failed');
  });

  test('goes by the rules of those suites', async () => {
    const runs = await begin();
    const suite = await runs.suite();
    await runs.suite();
    const rule = { subject: 'commit.branches', operator: 'equals', value: 'release' };
    await alice().post(`${runs.path}/suites/${suite.id}/rules`, rule);
    const request = await runs.fetched({ 'suites[]': suite.id_str });
    assert.equal(await runs.rolledUp(request), 'passed skipped skipped');
    await runner.assertIdle();
  });

  test('is refused where a suite is not the project’s, and leaves one out that is deleted meanwhile', async () => {
    const runs = await begin();
    const [doomed, other] = [await runs.suite(), await begin()];
    const elsewhere = await other.suite();
    const path = `${runs.path}/build_requests`;
    const missing = { 'suites[]': elsewhere.id_str };
    const refused = await alice().post(path, { commit_ref: 'main', ...missing });
    assertRefused(refused, 404, { suites: ['not_found'] });
    assertWrongFields(await alice().post(path, { commit_ref: 'main', 'suites[]': 'x' }), { suites: 'invalid_format' });
    assertWrongFields(await alice().post(path, { 'suites[]': 'x' }), {
      commit_ref: 'is_blank',
      suites: 'invalid_format',
    });
    assert.deepEqual((await alice().get(path)).list, []);
    const request = await alice().post(path, { commit_ref: 'main', 'suites[]': doomed.id_str });
    await alice().delete(`${runs.path}/suites/${doomed.id}`);
    await runs.suite();
    await (await runner.take('fetch_commit')).fetched();
    assert.equal(await runs.rolledUp(request.record), 'passed skipped skipped');
  });
});
