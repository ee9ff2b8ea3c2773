import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Record_ } from '../../support/client.ts';
import { assertRefused, assertWrongFields } from '../../support/expect.ts';
import { Receiver, reply } from '../../support/receiver.ts';
import { aCommit, type Task } from '../../support/runner.ts';
import { describeSuiteRuns, type SuiteRuns } from '../../support/suite-runs.ts';
import { heldReasons } from '../../../src/server/lifecycle/held-back.ts';
import type { SuiteOrder } from '../../../src/shared/protocol/index.ts';

const suiteOf = (task: Task<SuiteOrder>): string => task.order.work.environment.HEADRACE_SUITE ?? '';

/** Suites by name; what each needs stands behind it: `test build lint`. */
async function graph(runs: SuiteRuns, ...lines: string[]): Promise<Map<string, Record_>> {
  const suites = new Map<string, Record_>();
  for (const line of lines) {
    const [name = '', ...needs] = line.split(' ');
    const fields: [string, string][] = [
      ['name', name],
      ['command', 'make'],
    ];
    const ids = needs.map((needed) => suites.get(needed)?.id);
    suites.set(name, (await runs.user.post(`${runs.path}/suites`, [...fields, ...needsOf(...ids)])).record);
  }
  return suites;
}

describeSuiteRuns(
  'suites that need others',
  ({ service, runner, alice, begin }) => {
    const states = async (runs: SuiteRuns): Promise<string> =>
      (await runs.seen('suite_name', 'build_state')).join(', ');
    const take = async (): Promise<Task<SuiteOrder>> => runner.take('run_suite');
    const takeAll = async (count: number): Promise<Map<string, Task<SuiteOrder>>> => {
      const tasks = new Map<string, Task<SuiteOrder>>();
      for (let taken = 0; taken < count; taken += 1) {
        const task = await take();
        tasks.set(suiteOf(task), task);
      }
      await runner.assertIdle();
      return tasks;
    };
    const again = (runs: SuiteRuns, build: Record_ | undefined) =>
      alice().post(`${runs.path}/builds/${build?.id}/restart`);
    const newest = async (runs: SuiteRuns, suite: string): Promise<Record_ | undefined> =>
      (await runs.builds()).findLast((build) => build.suite_name === suite);

    test('are refused where they need a stranger, themselves or each other', async () => {
      const runs = await begin();
      const suites = await graph(runs, 'a', 'b a', 'c b');
      const { id, id_str } = suites.get('a') ?? {};
      assert.deepEqual(suites.get('b')?.needs, [{ id, id_str, name: 'a' }]);
      assert.deepEqual(suites.get('a')?.needs, []);
      const a = suites.get('a') ?? assert.fail();
      const put = (suite: Record_, ...ids: unknown[]) =>
        alice().put(`${runs.path}/suites/${suite.id}`, needsOf(...ids));
      assertWrongFields(await put(a, suites.get('c')?.id), { needs: 'invalid_format' });
      assertWrongFields(await put(a, a.id), { needs: 'invalid_format' });
      const other = await begin();
      const stranger = await other.suite({ name: 'a' });
      const bob = await service.user();
      const bobs = await bob.createSuite(await bob.createProject());
      for (const unknown of [stranger.id, bobs.id, 17n])
        assertRefused(await put(a, unknown), 404, { needs: ['not_found'] });
      for (const wrong of ['x', '-1', '1e3']) assertWrongFields(await put(a, wrong), { needs: 'invalid_format' });
      for (const [count, field] of [
        [101, 'needs'],
        [10_000, 'generic'],
      ] as const) {
        const needs = Array.from({ length: count }, (_, at) => String(at + 1));
        const asked = { as: alice().credentials, json: { needs } };
        assertWrongFields(await service.api.put(`${runs.path}/suites/${a.id}`, asked), { [field]: 'invalid_format' });
      }
      // One that others need stays.
      const kept = await alice().delete(`${runs.path}/suites/${a.id}`);
      assert.deepEqual(kept.body, { error: { generic: ['resource_temporary_unavailable'] } });
      const b = suites.get('b') ?? assert.fail();
      assert.deepEqual((await runs.change(b, { 'needs[]': '' })).record.needs, []);
      assert.deepEqual((await runs.change(b, { description: 'd' })).record.needs, []);
      assert.equal((await alice().delete(`${runs.path}/suites/${a.id}`)).status, 200);
    });

    test('never come to need each other, also when both are changed at once', async () => {
      const runs = await begin();
      for (let round = 0; round < 10; round += 1) {
        const [one, other] = [await runs.suite(), await runs.suite()];
        const answers = await Promise.all([
          alice().put(`${runs.path}/suites/${one.id}`, needsOf(other.id)),
          alice().put(`${runs.path}/suites/${other.id}`, needsOf(one.id)),
        ]);
        assert.deepEqual(answers.map(({ status }) => String(status)).toSorted(), ['200', '403']);
      }
    });

    test('begin when what they need has passed, and say until then what they wait for', async () => {
      const runs = await begin();
      await graph(runs, 'compile', 'lint', 'unit compile', 'pack compile lint', 'ship pack unit');
      const request = await runs.fetched();
      const first = await takeAll(2);
      assert.deepEqual([...first.keys()].toSorted(), ['compile', 'lint']);
      const waits = async () =>
        Object.fromEntries((await runs.builds()).map((build) => [build.suite_name, build.waiting_reason]));
      assert.deepEqual(await waits(), {
        compile: '',
        lint: '',
        unit: 'waits for compile',
        pack: 'waits for compile, lint',
        ship: 'waits for pack, unit',
      });
      const { db } = service.store;
      const held = await db.read.selectFrom('builds').selectAll().where('suite_name', '=', 'unit').execute();
      await first.get('compile')?.exit(0);
      // Somebody may have read the build just before it was let go.
      assert.deepEqual([...(await heldReasons(db.read, held)).values()], ['waits for its turn']);
      const unit = await take();
      assert.equal(suiteOf(unit), 'unit');
      assert.deepEqual([(await waits()).pack, (await waits()).ship], ['waits for lint', 'waits for pack, unit']);
      await first.get('lint')?.exit(0);
      await (await take()).exit(0);
      assert.equal((await waits()).ship, 'waits for unit');
      await unit.exit(0);
      assert.equal(await runs.rolledUp(request), 'building building building');
      await (await take()).exit(0);
      assert.equal(await runs.rolledUp(request), 'passed passed passed');
      await runner.assertIdle();
    });

    test('are skipped, with all behind them, when what they need does not pass', async () => {
      const runs = await begin();
      await graph(runs, 'compile', 'lint', 'unit compile', 'pack unit', 'ship pack lint');
      const request = await runs.fetched();
      const first = await takeAll(2);
      await first.get('compile')?.exit(1);
      assert.equal(await states(runs), 'compile failed, lint running, unit skipped, pack skipped, ship skipped');
      const unit = await newest(runs, 'unit');
      assert.deepEqual(
        [unit?.failure_reason, unit?.started_at, unit?.waiting_reason],
        ['needed_suite_failed', null, ''],
      );
      assert.notEqual(unit?.finished_at, null);
      assert.equal((await alice().get(`${runs.path}/builds/${unit?.id}/log`)).record.complete, true);
      assert.equal(await runs.rolledUp(request), 'building building building');
      await first.get('lint')?.exit(0);
      assert.equal(await runs.rolledUp(request), 'failed failed failed', 'by the one that failed');
      // What failed runs again, and what was skipped behind it.
      await alice().post(`${runs.path}/build_requests/${request.id}/rerun`, { failed_only: 'true' });
      await (await take()).exit(0);
      await (await take()).exit(0);
      await (await take()).finish({ kind: 'unrunnable', reason: 'image_not_found' });
      assert.equal(await runs.rolledUp(request), 'errored errored errored');
      assert.equal((await newest(runs, 'ship'))?.build_state, 'skipped');
      // So does what is begun at the end of the line: first what it needs and did not pass.
      const restarted = await again(runs, await newest(runs, 'ship'));
      assert.deepEqual([restarted.record.attempt, restarted.record.waiting_reason], [3, 'waits for pack']);
      const pack = await take();
      assert.equal(suiteOf(pack), 'pack');
      await pack.exit(0);
      await (await take()).exit(0);
      assert.equal(await runs.rolledUp(request), 'passed passed passed');
      // And at its beginning.
      await again(runs, await newest(runs, 'compile'));
      await (await take()).exit(1);
      await again(runs, await newest(runs, 'compile'));
      await (await take()).exit(0);
      await runner.assertIdle();
      assert.equal(await runs.rolledUp(request), 'passed passed passed', 'what had passed was left alone');
    });

    test('wait for all variants and the last retry, and take an allowed failure for passed', async () => {
      const runs = await begin();
      const suites = await graph(runs, 'flaky', 'wide', 'soft', 'ship flaky wide soft');
      await runs.change(suites.get('flaky') ?? assert.fail(), { retries: '1' });
      await runs.change(suites.get('wide') ?? assert.fail(), { 'matrix[]': 'N=1,2' });
      await runs.change(suites.get('soft') ?? assert.fail(), { allow_failure: 'true' });
      const request = await runs.fetched();
      const tasks = [await take(), await take(), await take(), await take()];
      await runner.assertIdle();
      for (const task of tasks) if (suiteOf(task) === 'soft' || suiteOf(task) === 'flaky') await task.exit(1);
      const wide = tasks.filter((task) => suiteOf(task) === 'wide');
      await wide[0]?.exit(0);
      assert.equal((await newest(runs, 'ship'))?.waiting_reason, 'waits for flaky, wide');
      const retry = await take();
      assert.equal(suiteOf(retry), 'flaky');
      await retry.exit(0);
      await runner.assertIdle();
      await wide[1]?.exit(0);
      const ship = await take();
      assert.equal(suiteOf(ship), 'ship');
      // A runner that is lost is nobody's fault: its successor does not wait again.
      await runner.dispatch.holderGone('scripted');
      await (await take()).exit(0);
      assert.equal(await runs.rolledUp(request), 'passed passed passed');
    });

    test('end when they are cancelled, and are skipped when what they need is', async () => {
      const runs = await begin();
      await graph(runs, 'compile', 'unit compile', 'ship unit');
      const cancel = (what: string) => alice().post(`${runs.path}/${what}/cancel`);
      const request = await runs.fetched();
      const compile = await take();
      await cancel(`builds/${(await newest(runs, 'unit'))?.id}`);
      assert.equal(await states(runs), 'compile running, unit cancelled, ship skipped');
      await compile.exit(0);
      await runner.assertIdle();
      assert.equal(await runs.rolledUp(request), 'cancelled cancelled cancelled');
      const second = await alice().requestBuild(runs.project, aCommit.sha);
      await cancel(`builds/${(await newest(runs, 'compile'))?.id}`);
      assert.equal(
        (await states(runs)).split(', ').slice(3).join(', '),
        'compile cancelled, unit skipped, ship skipped',
      );
      assert.equal(await runs.rolledUp(second), 'cancelled cancelled cancelled');
      const third = await alice().requestBuild(runs.project, aCommit.sha);
      const running = await take();
      await cancel(`build_requests/${third.id}`);
      assert.equal(
        (await states(runs)).split(', ').slice(6).join(', '),
        'compile running, unit cancelled, ship cancelled',
      );
      await running.finish({ kind: 'cancelled' });
      assert.equal(await runs.rolledUp(third), 'cancelled cancelled cancelled');
      await runner.assertIdle();
    });

    test('take what they need along, but for what rules leave out', async () => {
      const runs = await begin();
      const suites = await graph(runs, 'base', 'compile base', 'docs', 'unit compile', 'ship unit');
      const rules = `${runs.path}/suites/${suites.get('compile')?.id}/rules`;
      const rule = await alice().post(rules, { subject: 'commit.branches', operator: 'equals', value: 'other' });
      const request = await runs.fetched({ 'suites[]': String(suites.get('unit')?.id) });
      assert.deepEqual([...(await takeAll(2)).keys()].toSorted(), ['base', 'unit'], 'it does not wait for compile');
      const left = (await alice().get(`${runs.path}/build_requests/${request.id}/explanation`)).list;
      const why = Object.fromEntries(left.filter(({ runs: ran }) => !ran).map((one) => [one.name, one.why]));
      assert.match(String(why.compile), /rule/);
      assert.match(String(why.docs), /not requested/);
      await alice().delete(`${rules}/${rule.record.id}`);
      await alice().post(`${runs.path}/build_requests/${request.id}/cancel`);
      await runner.dispatch.holderGone('scripted');
      await alice().post(`${runs.path}/build_requests`, {
        commit_ref: aCommit.sha,
        'suites[]': String(suites.get('unit')?.id),
      });
      for (const name of ['base', 'compile', 'unit']) {
        const task = await take();
        assert.equal(suiteOf(task), name);
        await task.exit(0);
      }
      await runner.assertIdle();
    });

    test('are told of as skipped: to receivers, forges and monitors', async () => {
      await using receiver = await Receiver.start(reply(200));
      await using forge = await Receiver.start(reply(201));
      const runs = await begin();
      await alice().put(runs.path, { public_badge: 'true' });
      await alice().post(`${runs.path}/notifications`, {
        name: 'webhook',
        notifiable_type: 'build',
        'options[url]': receiver.url,
      });
      const target = { provider: 'github', api_url: forge.url, repository: 'team/code', token: 'secret-token' };
      await alice().post(`${runs.path}/status_targets`, target);
      await graph(runs, 'compile', 'unit compile', 'ship unit');
      await runs.fetched();
      const counted = async (state: string): Promise<number> =>
        Number(
          new RegExp(`^headrace_builds_total\\{state="${state}"\\} (.*)$`, 'm').exec(
            (await service.api.get('/metrics')).text,
          )?.[1],
        );
      const [failed, skipped] = [await counted('failed'), await counted('skipped')];
      await (await take()).exit(1);
      assert.deepEqual([await counted('failed'), await counted('skipped')], [failed + 1, skipped + 2]);
      // How the project stands goes by what failed, and not by what was skipped behind it.
      const feed = (await alice().get('/cctray.xml')).text;
      assert.match(feed, new RegExp(`activity="Sleeping" lastBuildStatus="Failure"[^>]*${runs.path}"`));
      assert.match((await service.api.get(`${runs.path}/badge.svg`)).text, /<title>build: failed<\/title>/);
      const { projects } = (await alice().get('/dashboard')).record as unknown as { projects: Record_[] };
      const line = projects.find(({ id }) => id === runs.project.id);
      const builds = line?.last_builds as Record_[];
      assert.deepEqual([line?.build_state, builds.map(({ build_state: state }) => state)], ['failed', ['failed']]);
      const told = (await receiver.received(11)).map(
        ({ body }) => JSON.parse(body) as { type: string; build?: { failure_reason: string } },
      );
      assert.ok(
        told.some(({ type, build }) => type === 'build.skipped' && build?.failure_reason === 'needed_suite_failed'),
      );
      assert.equal(told.at(-1)?.type, 'commit.failed');
      const statuses = (await forge.received(7)).map(
        ({ body }) => JSON.parse(body) as { state: string; context: string; description: string },
      );
      const ofUnit = statuses.filter(({ context }) => context === 'headrace/unit');
      assert.deepEqual(
        ofUnit.map(({ state, description }) => `${state}: ${description}`),
        ['pending: Waiting for suites that it needs.', 'error: It did not run: a suite that it needs did not pass.'],
      );
      assert.equal(statuses[0]?.description, 'Waiting for a runner.');
    });
  },
  { settings: { webhook_allow: '127.0.0.0/8' } },
);

function needsOf(...ids: unknown[]): [string, string][] {
  return ids.map((id) => ['needs[]', String(id)]);
}
