import assert from 'node:assert/strict';
import { test } from 'node:test';
import { recordHeartbeat } from '../../../src/server/auth/runner-heartbeats.ts';
import type { Outcome } from '../../../src/shared/protocol/index.ts';
import { assertWrongFields } from '../../support/expect.ts';
import { ScriptedRunner } from '../../support/runner.ts';
import { describeSuiteRuns } from '../../support/suite-runs.ts';
import { Tab } from '../../support/tab.ts';

const unreachable: Outcome = { kind: 'unrunnable', reason: 'registry_unreachable' };
const died: Outcome = { kind: 'unrunnable', reason: 'service_died' };

describeSuiteRuns('a build that the machine ended', ({ service, runner, alice, begin }) => {
  const pauseUntil = async (runAfter: bigint): Promise<void> => {
    await service.store.db.transaction((trx) => trx.updateTable('jobs').set({ run_after: runAfter }).execute());
  };
  const endPauses = () => pauseUntil(0n);
  /** On a slow machine the pause may be over by now. */
  const assertPaused = async (ms: number): Promise<void> => {
    const { db } = service.store;
    const [next, ended] = await db.read.selectFrom('builds').selectAll().orderBy('id', 'desc').limit(2).execute();
    const jobs = db.read
      .selectFrom('jobs')
      .select('run_after')
      .where('subject_id', '=', next?.id ?? 0n);
    const at = Number((await jobs.executeTakeFirstOrThrow()).run_after);
    const isPaused = at >= Number(ended?.finished_at) + ms && at <= Number(next?.created_at) + ms;
    assert.ok(at === 0 || isPaused, `${at} ${ended?.finished_at} ${next?.created_at}`);
  };
  const beat = (holder: string, trouble = '') =>
    recordHeartbeat(service.store.db, { holder }, { version: '1', trouble, tags: 'gpu', slots: 1 });
  const end = async (outcome: Outcome, by: ScriptedRunner = runner): Promise<void> => {
    assert.deepEqual(await (await by.take('run_suite')).finish(outcome), { taken: true });
  };

  test('is tried again twice, after a second and after three, and says what it died of', async () => {
    const runs = await begin();
    await runs.suite({ name: 'unit' });
    const request = await runs.fetched();
    await end(unreachable);
    assert.equal(await runs.rolledUp(request), 'building building building');
    await assertPaused(1000);
    await pauseUntil(BigInt(Date.now() + 3_600_000));
    await runner.assertIdle();
    await beat(runner.self.holder);
    const path = `${runs.path}/build_requests/${request.id}`;
    assert.equal((await alice().get(path)).record.waiting_reason, 'waits for its next try');
    await endPauses();
    await end(died);
    await assertPaused(3000);
    await endPauses();
    await (await runner.take('run_suite')).exit(0);
    assert.equal(await runs.rolledUp(request), 'passed passed passed');
    const expected = ['registry_unreachable 1 false', 'service_died 2 false', ' 3 false'];
    assert.deepEqual(await runs.seen('failure_reason', 'attempt', 'flaky'), expected);
    const { suites } = (await alice().get(`${runs.path}/statistics`)).record;
    assert.deepEqual(
      (suites as { builds: number; machine_tries: number }[]).map((one) => [one.builds, one.machine_tries]),
      [[3, 2]],
    );
    const tab = new Tab(service);
    await tab.signIn(alice().credentials);
    const { text: page } = await tab.get(`/ui${runs.path}/requests/${request.id}`);
    const builds = (await runs.builds()).map(({ id }) => `${runs.path}/builds/${id}"`);
    for (const [at, reason] of ['registry_unreachable', 'service_died'].entries())
      assert.match(page, new RegExp(`${builds[at]}[^]*<code class="aside">${reason}</code>`));
  });

  test('has three attempts in all, also if it dies on purpose and its retries come in between', async () => {
    const runs = await begin();
    await runs.suite({ retries: '3', 'retry_on[]': 'errored\nexit:75' });
    const request = await runs.fetched();
    for (const outcome of [died, { kind: 'exited', status: 1 }, { kind: 'exited', status: 75 }, died] as Outcome[]) {
      await end(outcome);
      await endPauses();
    }
    await runner.assertIdle();
    assert.equal(await runs.rolledUp(request), 'errored errored errored');
    const expected = ['errored null', 'failed 1', 'failed 75', 'errored null'];
    assert.deepEqual(await runs.seen('build_state', 'exit_status'), expected);
    await alice().post(`${runs.path}/build_requests/${request.id}/rerun`);
    await end(died);
    await endPauses();
    await (await runner.take('run_suite')).exit(0);
    assert.equal(await runs.rolledUp(request), 'passed passed passed', 'a user’s rerun begins to count anew');
  });

  test('is tried again only for the reasons of its suite, and not if it was cancelled', async () => {
    const [inLog, exited] = [
      'E: connection \u001b[31mreset\u001b[0m by peer\n',
      { kind: 'exited', status: 75 } as const,
    ];
    const endings: [string, Outcome, string, boolean][] = [
      ['', unreachable, '', false],
      ['timeout', unreachable, '', false],
      ['timeout', { kind: 'timed_out' }, '', true],
      ['errored', { kind: 'timed_out' }, '', false],
      ['errored', { kind: 'cut_short', reason: 'disk_full' }, '', true],
      ['errored', { kind: 'unrunnable', reason: 'service_not_ready' }, '', false],
      ['errored', { kind: 'launch_failed' }, '', false],
      ['exit:75', exited, '', true],
      ['exit:7', exited, '', false],
      ['log:connection (reset|refused)', exited, inLog, true],
      ['log:connection (reset|refused)', { kind: 'launch_failed' }, inLog, true],
      ['log:connection (reset|refused)', { kind: 'exited', status: 0 }, inLog, false],
      ['log:connection (reset|refused)', exited, 'connection\nreset\n', false],
      ['log:^x$', exited, `${'y'.repeat(70_000)}\n`.repeat(20) + 'x\n', true],
    ];
    for (const [reasons, outcome, log, isAgain] of endings) {
      const runs = await begin();
      await runs.suite({ 'retry_on[]': reasons });
      await runs.fetched();
      const task = await runner.take('run_suite');
      if (log !== '') await task.writeLog(log);
      await task.finish(outcome);
      const states = await runs.seen('build_state');
      assert.equal(states.length, isAgain ? 2 : 1, `${reasons} ${JSON.stringify(outcome)} ${log.slice(0, 30)}`);
      await alice().delete(runs.path);
    }
    const runs = await begin();
    await runs.suite();
    const request = await runs.fetched();
    const task = await runner.take('run_suite');
    await alice().post(`${runs.path}/build_requests/${request.id}/cancel`);
    await task.finish(unreachable);
    assert.deepEqual(await runs.seen('build_state'), ['errored']);
  });

  test('goes to another runner that could take it, as long as one is connected', async () => {
    const { db } = service.store;
    const other = runner.beside('other');
    const runs = await begin();
    await runs.suite();
    await runs.fetched();
    await beat(runner.self.holder);
    await beat('other');
    await end(unreachable);
    await endPauses();
    await runner.assertIdle();
    await end(unreachable, other);
    await endPauses();
    await end(unreachable); // all have tried it
    await runner.assertIdle();
    assert.deepEqual(await runs.seen('build_state'), ['errored', 'errored', 'errored']);

    const second = await begin();
    await second.suite();
    await second.fetched();
    await end(unreachable);
    await endPauses();
    await runner.assertIdle();
    await beat('other', 'no sandbox');
    await (await runner.take('run_suite')).exit(0);

    await beat('other');
    const tagged = await begin();
    await tagged.suite({ 'tags[]': 'arm' });
    await tagged.fetched();
    const armed = new ScriptedRunner(runner.dispatch, { ...runner.self, tags: 'arm' });
    await end(unreachable, armed);
    await endPauses();
    await (await armed.take('run_suite')).exit(0);
    await db.transaction((trx) => trx.deleteFrom('runner_heartbeats').execute());
  });

  test('goes to another runner that waits at another server', async () => {
    const elsewhere = new ScriptedRunner(undefined, { holder: 'elsewhere' });
    await elsewhere.begin(service.store);
    const runs = await begin();
    await runs.suite();
    await runs.fetched();
    await beat(runner.self.holder);
    await beat('elsewhere');
    const task = await runner.take('run_suite');
    const next = elsewhere.take('run_suite');
    await task.finish(unreachable);
    await endPauses();
    await runner.assertIdle();
    await (await next).exit(0);
    assert.deepEqual(await runs.seen('build_state'), ['errored', 'passed']);
    await service.store.db.transaction((trx) => trx.deleteFrom('runner_heartbeats').execute());
    await elsewhere.dispatch.close();
  });

  test('is not searched for longer than a few seconds, and its log says so', async () => {
    const runs = await begin();
    const slow = Array.from({ length: 20 }, (_, at) => `log:(?:[a-f]*[b-g]*[c-h]*){8}[i-z]{${at + 1}}$`);
    await runs.suite({ 'retry_on[]': slow.join('\n') });
    await runs.fetched();
    const task = await runner.take('run_suite');
    for (let piece = 0; piece < 8; piece += 1) await task.writeLog(`${'abcdefgh'.repeat(7000)}\n`.repeat(10));
    await task.exit(75);
    const [build, ...more] = await runs.builds();
    assert.deepEqual([build?.build_state, more], ['failed', []]);
    const { text } = await alice().get(`${runs.path}/builds/${build?.id}/log.txt`);
    assert.match(
      text.slice(-200),
      /\nNot all of the log was searched for the expressions of retry_on: it took too long\.\n$/,
    );
  });

  test('is not tried again forever by the reasons of its suite, of which there are few and short ones', async () => {
    const runs = await begin();
    const suite = await runs.suite();
    assert.deepEqual(suite.retry_on, ['errored']);
    assert.deepEqual((await runs.change(suite, { 'retry_on[]': '' })).record.retry_on, []);
    const given = 'errored\ntimeout\nexit:75\nlog:no route to host';
    assert.deepEqual((await runs.change(suite, { 'retry_on[]': given })).record.retry_on, given.split('\n'));
    for (const wrong of [
      'failed',
      'exit:0',
      'exit:256',
      'exit:',
      'exit:07',
      'log:',
      'log:(',
      'log:(?=x)',
      'log:(a{90}){90}',
    ])
      assertWrongFields(await runs.change(suite, { 'retry_on[]': wrong }), { retry_on: 'invalid_format' });
  });
});
