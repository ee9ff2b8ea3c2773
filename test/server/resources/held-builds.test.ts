import assert from 'node:assert/strict';
import { test } from 'node:test';
import { watchEndings } from '../../../src/server/lifecycle/endings.ts';
import type { Record_ } from '../../support/client.ts';
import { processorTime } from '../../support/event-loop.ts';
import { assertNotFound, assertRefused, assertWrongFields } from '../../support/expect.ts';
import { registerApplication } from '../../support/applications.ts';
import { aCommit, type Task } from '../../support/runner.ts';
import { deadlocks } from '../../support/two-servers.ts';
import { describeSuiteRuns, type SuiteRuns } from '../../support/suite-runs.ts';
import type { SuiteOrder } from '../../../src/shared/protocol/index.ts';

const suiteOf = (task: Task<SuiteOrder>): string => task.order.work.environment.HEADRACE_SUITE ?? '';

describeSuiteRuns('builds that are held back', ({ service, runner, alice, begin }) => {
  const take = async (): Promise<Task<SuiteOrder>> => runner.take('run_suite');
  const seen = async (runs: SuiteRuns): Promise<string[]> => runs.seen('suite_name', 'build_state');
  const newest = async (runs: SuiteRuns, suite: string): Promise<Record_> =>
    (await runs.builds()).findLast((build) => build.suite_name === suite) ?? assert.fail(`no build of ${suite}`);
  const needing = async (runs: SuiteRuns, name: string, ...needs: Record_[]): Promise<Record_> => {
    const fields: [string, string][] = [
      ['name', name],
      ['command', 'make'],
    ];
    const ids = needs.map(({ id }): [string, string] => ['needs[]', String(id)]);
    return (await alice().post(`${runs.path}/suites`, [...fields, ...ids])).record;
  };
  const approve = (runs: SuiteRuns, build: Record_, who = alice()) =>
    who.post(`${runs.path}/builds/${build.id}/approve`);

  test('wait for a person when all they need has passed [promise: account-walls] [promise: account-scopes]', async () => {
    const runs = await begin();
    const compile = await runs.suite({ name: 'compile' });
    const ship = await needing(runs, 'ship', compile);
    await runs.change(ship, { approval: 'true', retries: '1' });
    await needing(runs, 'tell', ship);
    const request = await runs.fetched();
    const early = await approve(runs, await newest(runs, 'ship'));
    assertRefused(early, 403, { generic: ['resource_temporary_unavailable'] });
    await (await take()).exit(0);
    await runner.assertIdle();
    const waiting = await newest(runs, 'ship');
    assert.deepEqual(
      [waiting.build_state, waiting.waiting_reason, waiting.approved_by, waiting.started_at],
      ['waiting_for_approval', 'waits for approval', '', null],
    );
    assert.equal((await newest(runs, 'tell')).waiting_reason, 'waits for ship');
    assert.equal(await runs.rolledUp(request), 'building building building', 'the request is not over');
    const { waiting_reason: reason } = (await alice().get(`${runs.path}/build_requests/${request.id}`)).record;
    assert.equal(reason, 'waits for approval');
    // A stranger learns nothing, and a token that may only read may not.
    const bob = await service.user();
    assertNotFound(await approve(runs, waiting, bob));
    const application = await registerApplication(service, alice(), { name: 'Lamp' });
    for (const scopes of [['build_requests', 'commits'], ['suites'], ['deploys']] as const) {
      const headers = { authorization: `Bearer ${await application.token(alice(), scopes)}` };
      assertRefused(await service.api.post(`${runs.path}/builds/${waiting.id}/approve`, { headers }), 401, {
        generic: ['unauthorized'],
      });
    }
    // Nor may one who does not collaborate any more.
    await alice().post(`${runs.path}/collaborators`, { email: bob.email });
    const [member] = (await alice().get(`${runs.path}/collaborators`)).list;
    await alice().delete(`${runs.path}/collaborators/${member?.id}`);
    assertNotFound(await approve(runs, waiting, bob));
    assert.equal((await newest(runs, 'ship')).build_state, 'waiting_for_approval');
    await alice().post(`${runs.path}/collaborators`, { email: bob.email });
    const approved = (await approve(runs, waiting, bob)).record;
    assert.deepEqual([approved.build_state, approved.approved_by], ['enqueued', bob.email]);
    assertRefused(await approve(runs, waiting), 403, { generic: ['resource_temporary_unavailable'] });
    const audit = await service.store.db.read
      .selectFrom('audit_entries')
      .select('actor_email')
      .where('action', '=', 'build.approved')
      .execute();
    assert.deepEqual(
      audit.map((entry) => entry.actor_email),
      [bob.email],
    );
    // A retry is the same work, and asks nobody again; somebody who wants it once more does.
    await (await take()).exit(1);
    assert.equal((await newest(runs, 'ship')).approved_by, bob.email);
    await (await take()).exit(1);
    await runner.assertIdle();
    assert.equal(await runs.rolledUp(request), 'failed failed failed');
    await alice().post(`${runs.path}/builds/${(await newest(runs, 'ship')).id}/restart`);
    assert.equal((await newest(runs, 'ship')).build_state, 'waiting_for_approval');
    await alice().post(`${runs.path}/build_requests/${request.id}/cancel`);
    assert.deepEqual((await seen(runs)).slice(-2), ['ship cancelled', 'tell cancelled']);
    assertRefused(await approve(runs, await newest(runs, 'ship')), 403, {
      generic: ['resource_temporary_unavailable'],
    });
    await runner.assertIdle();
  });

  test('do not hold back a failure while a person is waited for, and go on afterwards all the same', async () => {
    const runs = await begin();
    const compile = await runs.suite({ name: 'compile' });
    await runs.suite({ name: 'lint' });
    const ship = await needing(runs, 'ship', compile);
    await runs.change(ship, { approval: 'true' });
    await needing(runs, 'tell', ship);
    const request = await runs.fetched();
    const end = async (exit: number, ...names: string[]): Promise<void> => {
      for (const name of names) {
        const task = await take();
        assert.equal(suiteOf(task), name);
        await task.exit(exit);
      }
    };
    await end(0, 'compile');
    await end(1, 'lint');
    await runner.assertIdle();
    assert.equal(await runs.rolledUp(request), 'failed failed failed');
    const waiting = ['compile passed', 'lint failed', 'ship waiting_for_approval', 'tell enqueued'];
    assert.deepEqual(await seen(runs), waiting);
    // Each way to run it again leaves alone what waits.
    const path = `${runs.path}/build_requests/${request.id}`;
    assert.equal((await alice().post(`${path}/rerun`, { failed_only: 'true' })).record.build_state, 'building');
    await end(1, 'lint');
    await alice().post(`${path}/rerun`);
    const both = [await take(), await take()];
    assert.deepEqual(both.map(suiteOf).toSorted(), ['compile', 'lint']);
    for (const task of both) await task.exit(suiteOf(task) === 'lint' ? 1 : 0);
    await runner.assertIdle();
    assert.equal(await runs.rolledUp(request), 'failed failed failed');
    assert.equal((await newest(runs, 'ship')).attempt, 1);
    const approved = await approve(runs, await newest(runs, 'ship'));
    assert.deepEqual([approved.status, approved.record.build_state], [200, 'enqueued']);
    assert.equal(await runs.rolledUp(request), 'building building building');
    await end(0, 'ship', 'tell');
    assert.equal(await runs.rolledUp(request), 'failed failed failed');
    await alice().post(`${path}/rerun`, { failed_only: 'true' });
    await end(0, 'lint');
    assert.equal(await runs.rolledUp(request), 'passed passed passed');
    // A request that has failed can be cancelled as long as something of it waits.
    const second = await alice().requestBuild(runs.project, aCommit.sha);
    const [first, last] = [await take(), await take()];
    for (const task of [first, last]) await task.exit(suiteOf(task) === 'lint' ? 1 : 0);
    assert.equal(await runs.rolledUp(second), 'failed failed failed');
    await alice().post(`${runs.path}/build_requests/${second.id}/cancel`);
    assert.deepEqual((await seen(runs)).slice(-2), ['ship cancelled', 'tell cancelled']);
    assert.equal(await runs.rolledUp(second), 'failed failed failed');
  });

  test('of a deploy hold back its end: what was not approved yet may still be shipped', async () => {
    const runs = await begin();
    const ship = await runs.suite({ name: 'ship', manual: 'true', approval: 'true', 'matrix[]': 'TO=here,there' });
    const strategy = { name: 'both', strategy_type: 'suite', 'options[suite_id]': ship.id_str };
    const made = (await alice().post(`${runs.path}/deploy_strategies`, strategy)).record;
    await runs.suite({ name: 'unit' });
    await runs.fetched({}, { defaultBranch: 'main' });
    await (await take()).exit(0);
    const asked = await alice().post(`${runs.path}/deploys`, { deploy_strategy_id: made.id_str });
    const stateOf = async (): Promise<unknown> =>
      (await alice().get(`${runs.path}/deploys/${asked.record.id}`)).record.state;
    const [shipping] = (await alice().get(`${runs.path}/build_requests`)).list;
    const [here, there] = (await alice().get(`${runs.path}/build_requests/${shipping?.id}/builds`)).list;
    await approve(runs, here ?? assert.fail());
    await (await take()).exit(1);
    assert.equal(await stateOf(), 'deploying');
    await approve(runs, there ?? assert.fail());
    await (await take()).exit(0);
    assert.equal(await stateOf(), 'failed');
  });

  test('do not exist for a manual suite that nobody named', async () => {
    const runs = await begin();
    const compile = await runs.suite({ name: 'compile', manual: 'true' });
    const unit = await needing(runs, 'unit', compile);
    const ship = await needing(runs, 'ship', unit);
    await runs.change(ship, { manual: 'true' });
    const request = await runs.fetched();
    const [task] = [await take()];
    assert.equal(suiteOf(task), 'unit', 'it does not wait for compile');
    await task.exit(0);
    assert.equal(await runs.rolledUp(request), 'passed passed passed');
    const why = (await alice().get(`${runs.path}/build_requests/${request.id}/explanation`)).list;
    assert.match(String(why.find(({ name }) => name === 'ship')?.why), /manual/);
    const named = { commit_ref: aCommit.sha, 'suites[]': String(ship.id) };
    await alice().post(`${runs.path}/build_requests`, named);
    for (const name of ['unit', 'ship']) {
      const next = await take();
      assert.equal(suiteOf(next), name);
      await next.exit(0);
    }
    await runner.assertIdle();
  });

  test('of a manual suite say nothing about their commit when they are cancelled', async () => {
    const runs = await begin();
    await runs.suite({ name: 'unit' });
    const ship = await runs.suite({ name: 'ship', manual: 'true' });
    await runs.fetched();
    await (await take()).exit(0);
    const named = async (): Promise<Record_> =>
      (await alice().post(`${runs.path}/build_requests`, { commit_ref: aCommit.sha, 'suites[]': String(ship.id) }))
        .record;
    const first = await named();
    const task = await take();
    assert.equal(await runs.rolledUp(first), 'building building building');
    await alice().post(`${runs.path}/build_requests/${first.id}/cancel`);
    await task.finish({ kind: 'cancelled' });
    assert.equal(await runs.rolledUp(first), 'cancelled passed passed');
    const second = await named();
    await (await take()).exit(1);
    assert.equal(await runs.rolledUp(second), 'failed failed failed');
    for (let times = 0; times < 3; times += 1) {
      const { id } = await named();
      await alice().post(`${runs.path}/build_requests/${id}/cancel`);
    }
    assert.equal(await runs.rolledUp(second), 'failed failed failed', 'to cancel it mends nothing');
  });

  test('run one at a time in a group, the oldest first, whatever ends the one before', async () => {
    const runs = await begin();
    const group = { concurrency_group: 'production' };
    await runs.suite({ name: 'ship', ...group, retries: '1' });
    await runs.suite({ name: 'free' });
    const requests = [await runs.fetched()];
    for (let more = 0; more < 4; more += 1) requests.push(await alice().requestBuild(runs.project, aCommit.sha));
    const tasks = [await take(), await take(), await take(), await take(), await take(), await take()];
    await runner.assertIdle();
    for (const task of tasks) if (suiteOf(task) === 'free') await task.exit(0);
    const ships = (await runs.builds()).filter(({ suite_name: name }) => name === 'ship');
    assert.deepEqual(
      ships.map(({ waiting_reason: reason }) => reason),
      ['', ...Array.from({ length: 4 }, () => 'waits for the group production')],
    );
    const last = (await alice().get(`${runs.path}/build_requests/${requests[4]?.id}`)).record;
    assert.equal(last.waiting_reason, 'waits for the group production');
    const other = await begin();
    await other.suite({ name: 'ship', ...group });
    await other.fetched();
    await (await take()).exit(0); // another project has groups of its own
    const idOf = ({ order }: Task<SuiteOrder>) => order.work.environment.HEADRACE_BUILD_ID;
    const first = tasks.find((task) => suiteOf(task) === 'ship') ?? assert.fail();
    assert.equal(idOf(first), ships[0]?.id_str);
    // A retry keeps the place, and so does what follows a lost runner.
    await first.exit(1);
    const retry = await runner.beside('doomed').take('run_suite');
    assert.equal(retry.order.work.environment.HEADRACE_ATTEMPT, '6');
    await runner.dispatch.holderGone('doomed');
    const again = await take();
    assert.equal(again.order.work.environment.HEADRACE_ATTEMPT, '7');
    await runner.assertIdle();
    await alice().post(`${runs.path}/builds/${ships[1]?.id}/cancel`);
    await again.exit(0);
    const third = await take();
    assert.equal(idOf(third), ships[2]?.id_str, 'the second was cancelled while it waited');
    await alice().post(`${runs.path}/builds/${ships[2]?.id}/cancel`);
    await runner.assertIdle();
    await third.finish({ kind: 'cancelled' });
    const fourth = await take();
    assert.equal(idOf(fourth), ships[3]?.id_str);
    await runner.assertIdle();
    await fourth.exit(0);
    await (await take()).exit(0);
    await runner.assertIdle();
    assertWrongFields(
      await runs.change((await alice().get(`${runs.path}/suites`)).list[0] ?? assert.fail(), { approval: 'x' }),
      {
        approval: 'invalid_format',
      },
    );
  });

  test('are let go once, however many end, are cancelled and approved at the same moment', async () => {
    const runs = await begin();
    const wide: Record_[] = [];
    for (let count = 0; count < 16; count += 1) wide.push(await runs.suite({ name: `wide ${count}` }));
    const join = await needing(runs, 'join', ...wide);
    for (const name of ['one', 'two']) {
      const last = await needing(runs, name, join);
      await runs.change(last, { concurrency_group: 'g' });
    }
    const requests = [await runs.fetched()];
    for (let more = 0; more < 3; more += 1) requests.push(await alice().requestBuild(runs.project, aCommit.sha));
    const runners = Array.from({ length: 64 }, (_, at) => runner.beside(`runner ${at}`));
    const tasks = await Promise.all(runners.map((one) => one.take('run_suite')));
    const [, , cancelled] = requests;
    await Promise.all([
      ...tasks.map((task) => task.finish({ kind: 'exited', status: 0 })),
      alice().post(`${runs.path}/build_requests/${cancelled?.id}/cancel`),
    ]);
    // Each request has one join; the one that was cancelled may have none.
    const over = async (request: Record_): Promise<boolean> => {
      const { build_state: state } = (await alice().get(`${runs.path}/build_requests/${request.id}`)).record;
      return state !== 'building';
    };
    const ran: string[] = [];
    for (;;) {
      const isOver = await Promise.all(requests.map(over));
      if (isOver.every(Boolean)) break;
      const task = await take();
      ran.push(suiteOf(task));
      await task.exit(0);
    }
    await runner.assertIdle();
    for (const name of ['join', 'one', 'two']) {
      const count = ran.filter((one) => one === name).length;
      assert.ok(count === 3 || count === 4, `${name} ran ${count} times`);
    }
    for (const request of requests.filter((one) => one !== cancelled)) {
      const { build_state: state } = (await alice().get(`${runs.path}/build_requests/${request.id}`)).record;
      assert.equal(state, 'passed');
    }
    if (service.store.db.kind === 'postgres')
      assert.equal(deadlocks(service.config.database_url ?? '').join('\n\n'), '');
  });

  test('begin once, also where the server dies in the moment in which what they need ends', async () => {
    const runs = await begin();
    const compile = await runs.suite({ name: 'compile' });
    await needing(runs, 'unit', compile);
    await runs.fetched();
    const task = await take();
    // After all that follows from the end was written, and before it is durable.
    const stop = watchEndings(service.store.observers, ({ db, trx }) =>
      db.atEnd(trx, async () =>
        db.atEnd(trx, async () => {
          throw new Error('the server was killed');
        }),
      ),
    );
    await assert.rejects(task.finish({ kind: 'exited', status: 0 }), /killed/);
    stop();
    assert.deepEqual(await seen(runs), ['compile running', 'unit enqueued']);
    assert.equal((await newest(runs, 'unit')).waiting_reason, 'waits for compile');
    await runner.assertIdle();
    await task.exit(0); // the runner did not hear an answer, and says it again
    assert.deepEqual(await task.finish({ kind: 'exited', status: 0 }), { gone: true });
    const unit = await take();
    assert.equal(suiteOf(unit), 'unit');
    await runner.assertIdle();
    await unit.exit(0);
  });

  test('are queued in a second where there are 200, 40 deep', async () => {
    const runs = await begin();
    let layer: Record_[] = [];
    for (let depth = 0; depth < 40; depth += 1) {
      const next: Record_[] = [];
      for (let at = 0; at < 5; at += 1) next.push(await needing(runs, `suite ${depth}.${at}`, ...layer));
      layer = next;
    }
    await runs.fetched();
    await alice().post(
      `${runs.path}/build_requests/${(await alice().get(`${runs.path}/build_requests`)).list[0]?.id}/cancel`,
    );
    const before = processorTime();
    const request = await alice().requestBuild(runs.project, aCommit.sha);
    const tookMs = processorTime() - before;
    assert.equal((await alice().get(`${runs.path}/build_requests/${request.id}`)).record.build_state, 'building');
    assert.ok(tookMs < 1000, `${Math.round(tookMs)} ms of processor`);
    for (let at = 0; at < 5; at += 1) await (await take()).finish({ kind: 'exited', status: at === 4 ? 1 : 0 });
    assert.equal(await runs.rolledUp(request), 'failed failed failed');
    assert.equal((await seen(runs)).filter((one) => one.endsWith(' skipped')).length, 195);
  });
});
