import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Record_ } from '../../support/client.ts';
import { assertNotFound, assertRefused } from '../../support/expect.ts';
import { Listener, logOf, statesOf } from '../../support/firehose.ts';
import { Receiver, reply } from '../../support/receiver.ts';
import { describeWithRunner } from '../../support/runner.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

describeWithRunner(
  'a deploy that runs a suite',
  (service, runner) => {
    let alice: User;
    let project: Record_;
    let path: string;
    let ship: Record_;
    let strategy: Record_;
    let commit: Record_;
    let forge: Receiver;
    const busy = { generic: ['resource_temporary_unavailable'] };

    before(async () => {
      alice = await service.user();
      project = await alice.createProject();
      path = `/projects/${project.id}`;
      forge = await Receiver.start(reply(201));
      await alice.createStatusTarget(project, { api_url: `http://127.0.0.1:${forge.port}` });
      const unit = await alice.createSuite(project, { name: 'unit' });
      ship = await alice.createSuite(project, { name: 'ship', manual: 'true', 'needs[]': unit.id_str });
      await alice.requestBuild(project);
      await (await runner.take('fetch_commit')).fetched({ defaultBranch: 'main' });
      await (await runner.take('run_suite')).exit(0);
      [commit] = (await alice.get(`${path}/commits`)).list as [Record_];
      assert.equal(commit.build_state, 'passed');
    });
    after(() => forge[Symbol.asyncDispose]());
    const strategyOf = (fields: Record<string, string | bigint>) =>
      alice.post(`${path}/deploy_strategies`, { name: 'live', strategy_type: 'suite', ...fields });
    const deploy = async (fields: Record<string, string | bigint> = {}): Promise<Record_> =>
      (await alice.post(`${path}/deploys`, { deploy_strategy_id: strategy.id, ...fields })).record;
    const look = async ({ id }: Record_): Promise<Record_> => (await alice.get(`${path}/deploys/${id}`)).record;
    const take = async (suite: string) => {
      const task = await runner.take('run_suite');
      assert.equal(task.order.work.environment['HEADRACE_SUITE'], suite);
      return task;
    };

    test('takes a manual suite of the project, which stays as long as the strategy', async () => {
      const other = await alice.createProject();
      const theirs = await alice.createSuite(other, { manual: 'true' });
      const plain = await alice.createSuite(project, { name: 'plain' });
      const option = 'options[suite_id]';
      assertRefused(await strategyOf({}), 403, { [option]: ['is_blank'] });
      assertRefused(await strategyOf({ [option]: theirs.id }), 404, { [option]: ['not_found'] });
      assertRefused(await strategyOf({ [option]: plain.id }), 403, { [option]: ['invalid_format'] });
      const both = { [option]: ship.id, 'options[local_branch]': 'main' };
      assertRefused(await strategyOf(both), 403, { 'options[local_branch]': ['invalid_format'] });
      await alice.delete(`${path}/suites/${plain.id}`);
      const made = await strategyOf({ [option]: ship.id });
      assert.equal(made.status, 201, made.text);
      assert.deepEqual(made.record.options, { suite_id: ship.id, suite_id_str: ship.id_str });
      strategy = made.record;
      const own = `${path}/deploy_strategies/${strategy.id}`;
      assertRefused(await alice.put(own, { strategy_type: 'git' }), 403, { strategy_type: ['invalid_format'] });
      assert.equal((await alice.put(own, { name: 'production' })).record.name, 'production');
      assertRefused(await alice.delete(`${path}/suites/${ship.id}`), 403, busy);
      const notManual = await alice.put(`${path}/suites/${ship.id}`, { manual: 'false' });
      assertRefused(notManual, 403, { manual: ['invalid_format'] });
      assert.equal((await alice.put(`${path}/suites/${ship.id}`, { manual: 'true' })).status, 200);
      // In a document it is named.
      const { document } = (await alice.get(`${path}/config`)).record as unknown as { document: string };
      assert.match(document, /"deploy_strategies":\[\{"name":"production","strategy_type":"suite","suite":"ship"\}\]/);
      const again = (await alice.put(`${path}/config`, { document })).record;
      assert.deepEqual(again.changes, []);
      for (const [name, code, status] of [
        ['nobody', 'not_found', 404],
        ['unit', 'invalid_format', 403],
      ] as const) {
        const wrong = await alice.put(`${path}/config`, {
          document: document.replace('"suite":"ship"', `"suite":"${name}"`),
        });
        assertRefused(wrong, status, { 'deploy_strategies[production][suite]': [code] });
      }
      // A document that gives the strategy another suite may let the one before run by itself.
      const turned = JSON.parse(document) as { suites: { name: string }[]; deploy_strategies: object[] };
      const suites = [
        ...turned.suites.map((one) => (one.name === 'ship' ? { ...one, manual: false } : one)),
        { name: 'other', command: 'make', manual: true },
      ];
      const [live] = turned.deploy_strategies;
      const wanted = { ...turned, suites, deploy_strategies: [{ ...live, suite: 'other' }] };
      const changed = await alice.put(`${path}/config`, { document: JSON.stringify(wanted) });
      assert.deepEqual(
        (changed.record.changes as { what: string }[]).map(({ what }) => what),
        ['suite other', 'deploy strategy production', 'suite ship'],
        changed.text,
      );
      const back = await alice.put(`${path}/config`, { document, prune: 'true' });
      assert.equal(back.status, 200, back.text);
    });

    test('runs what it needs and then the suite, and is what that build is', async () => {
      const made = await deploy();
      assert.deepEqual([made.commit_id, made.state], [commit.id, 'enqueued'], 'the newest that passed');
      assert.equal(made.build_id_str, String(made.build_id));
      assertRefused(await alice.post(`${path}/builds/${String(made.build_id)}/restart`), 403, busy);
      const first = await take('unit');
      assert.equal(first.order.work.environment['HEADRACE_DEPLOY_ID'], undefined);
      await first.exit(0);
      assert.equal((await look(made)).state, 'enqueued');
      assert.equal((await look(made)).build_id, made.build_id, 'not the build of what it needs');
      const task = await take('ship');
      const { environment } = task.order.work;
      assert.deepEqual(
        [environment['HEADRACE_DEPLOY_ID'], environment['HEADRACE_DEPLOY_STRATEGY']],
        [made.id_str, 'production'],
      );
      assert.equal((await look(made)).state, 'deploying');
      await task.writeLog('shipping\n');
      // A second one waits for the first, though what it needs has passed.
      const second = await deploy();
      await (await take('unit')).exit(0);
      await runner.assertIdle();
      await task.exit(3);
      assert.equal((await look(made)).state, 'failed');
      assert.equal((await alice.get(`${path}/deploys/${made.id}/log.txt`)).text, 'shipping\n');
      const told = await (await Listener.open(alice, `${path}/deploys/${made.id}/firehose`)).rest();
      assert.deepEqual([statesOf(told), logOf(told)], [['failed'], 'shipping\n']);
      const now = (await alice.get(`${path}/commits/${commit.id}`)).record;
      assert.equal(now.build_state, 'passed', 'the commit is as good as before');
      assertRefused(await alice.post(`${path}/builds/${String(made.build_id)}/restart`), 403, busy);

      // A runner that is lost leaves it to the next attempt.
      const lost = await take('ship');
      await lost.writeLog('before\n');
      const following = await Listener.open(alice, `${path}/deploys/${second.id}/firehose`);
      const beside = await Listener.open(alice, `${path}/deploys/${second.id}/firehose`);
      const heard = await following.until(({ event }) => event === 'log');
      await lost.finish({ kind: 'lost', message: 'gone' });
      assert.equal((await look(second)).state, 'deploying');
      const next = await take('ship');
      await next.writeLog('after\n');
      assert.equal(next.order.work.environment['HEADRACE_DEPLOY_ID'], second.id_str);
      await next.exit(0);
      const over = await look(second);
      assert.equal(over.state, 'deployed');
      // The log of the next build follows on that of the lost one, for whoever listens already.
      for (const all of [[...heard, ...(await following.rest())], await beside.rest()]) {
        assert.match(logOf(all), /^before\n.*after\n$/s);
        assert.deepEqual(statesOf(all), ['deploying', 'deployed']);
      }
      assert.ok(over.build_id !== second.build_id && over.deploy_finished_at !== null);
      assertRefused(await alice.post(`${path}/deploys`, { deploy_strategy_id: strategy.id, rollback: 'true' }), 404, {
        commit_id: ['not_found'],
      });
    });

    test('is cancelled with its builds, and fails where its needs do or its rules leave the commit out', async () => {
      const cancelled = await deploy();
      const task = await take('unit');
      const answer = (await alice.post(`${path}/deploys/${cancelled.id}/cancel`)).record;
      assert.ok(['enqueued', 'cancelled'].includes(String(answer.state)));
      await task.finish({ kind: 'cancelled' });
      assert.equal((await look(cancelled)).state, 'cancelled');
      const inVain = await deploy();
      assert.match(String((await look(inVain)).waiting_reason), /no runner/, 'what it needs waits for nobody');
      await alice.post(`${path}/deploys/${inVain.id}/cancel`);
      assert.equal((await look(inVain)).state, 'cancelled');
      const failing = await deploy();
      const tab = new Tab(service);
      await tab.signIn(alice.credentials);
      const page = async () => (await tab.get(`/ui${path}/deploys/${failing.id}`)).text.replaceAll(/\s+/g, ' ');
      const unit = await take('unit');
      assert.match(await page(), />ship<\/a> .*waiting<\/span> <span class="aside">waits for unit</);
      await unit.exit(1);
      assert.equal((await look(failing)).state, 'failed');
      const log = (await alice.get(`${path}/deploys/${failing.id}/log.txt`)).text;
      assert.match(log, /not run: a suite that it needs did not pass/);
      assert.match(
        await page(),
        />ship<\/a> .*skipped<\/span> <span class="aside">It did not run: a suite that it needs did not pass/,
      );
      await alice.post(`${path}/suites/${ship.id}/rules`, { subject: 'commit.tags', operator: 'equals', value: 'v1' });
      const leftOut = await deploy({ commit_id: commit.id });
      await (await take('unit')).exit(0);
      assert.deepEqual([(await look(leftOut)).state, (await look(leftOut)).build_id], ['failed', null]);
      assert.match((await alice.get(`${path}/deploys/${leftOut.id}/log.txt`)).text, /exclude this commit/);
    });

    test('leaves alone what its builds say nothing about: the commit, its restarts, forges', async () => {
      const counted = async () => (await alice.get(`${path}/commits/${commit.id}/builds?counted=true`)).list;
      const [own, ...others] = await counted();
      assert.deepEqual([own?.attempt, own?.build_state, others], [1, 'passed', []]);
      // Attempts are numbered together: five deploys have tried it before.
      const again = await alice.post(`${path}/builds/${own?.id}/restart`);
      assert.ok(Number(again.record.attempt) > 5, again.text);
      await (await take('unit')).exit(0);
      assert.deepEqual(
        (await counted()).map(({ id }) => id),
        [again.record.id],
      );
      const states = (await forge.received(6)).map(
        ({ body }) => JSON.parse(body) as { context: string; state: string },
      );
      const twice = ['pending', 'pending', 'success', 'pending', 'pending', 'success'];
      assert.deepEqual(
        states.map(({ context, state }) => `${context} ${state}`),
        twice.map((state) => `headrace/unit ${state}`),
      );
    });

    test('waits for no suite that takes the name of its group [promise: own-names]', async () => {
      const rules = `${path}/suites/${ship.id}/rules`;
      for (const { id } of (await alice.get(rules)).list) await alice.delete(`${rules}/${id}`);
      const concurrency_group = `deploy strategy ${strategy.id}`;
      const squatter = await alice.createSuite(project, { name: 'squatter', concurrency_group });
      await alice.post(`${path}/build_requests`, { commit_ref: 'topic', 'suites[]': squatter.id });
      const topic = { branches: ['topic'], branch: 'topic', ref: 'refs/heads/topic', defaultHead: 'kept' as const };
      await (await runner.take('fetch_commit')).fetched({ ...topic, sha: 'd'.repeat(40) });
      const held = await take('squatter');
      const made = await deploy();
      await (await take('unit')).exit(0);
      const task = await take('ship');
      assert.equal((await look(made)).state, 'deploying');
      const second = await deploy();
      await (await take('unit')).exit(0);
      await runner.assertIdle();
      const waiting = await alice.get(`${path}/builds/${String((await look(second)).build_id)}`);
      assert.equal(waiting.record.waiting_reason, 'waits for an earlier deploy of its strategy');
      await task.exit(0);
      await (await take('ship')).exit(0);
      await held.exit(0);
      await alice.delete(`${path}/suites/${squatter.id}`);
    });

    test('is for people of the project, and not for a fork’s commit [promise: fork-secrets]', async () => {
      const body = { deploy_strategy_id: strategy.id, commit_id: commit.id };
      assertNotFound(await (await service.user()).post(`${path}/deploys`, body));
      await alice.requestBuild(project, 'refs/pull/7/head');
      const fork = { branches: [], tags: [], branch: null, ref: 'refs/pull/7/head', defaultHead: 'kept' as const };
      await (await runner.take('fetch_commit')).fetched({ ...fork, sha: 'e'.repeat(40) });
      await (await take('unit')).exit(0);
      const foreign = (await alice.get(`${path}/commits`)).list.find(({ ref }) => ref === 'e'.repeat(40));
      const refused = await alice.post(`${path}/deploys`, { ...body, commit_id: foreign?.id ?? 0n });
      assertRefused(refused, 403, { commit_id: ['invalid_format'] });
      // A document that has neither the strategy nor its suite deletes both.
      const { document } = (await alice.get(`${path}/config`)).record as unknown as { document: string };
      const wanted = JSON.parse(document) as { suites: { name: string }[] };
      const without = { ...wanted, suites: wanted.suites.filter(({ name }) => name !== 'ship'), deploy_strategies: [] };
      const gone = await alice.put(`${path}/config`, { document: JSON.stringify(without), prune: 'true' });
      assert.deepEqual(
        (gone.record.changes as { what: string }[]).map(({ what }) => what),
        ['deploy strategy production', 'suite ship'],
        gone.text,
      );
    });
  },
  { settings: { webhook_allow: '127.0.0.0/8', base_url: 'https://ci.example.org' } },
);
