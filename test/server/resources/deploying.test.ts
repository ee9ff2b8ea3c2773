import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { Record_ } from '../../support/client.ts';
import { assertNotFound, assertRefused, assertWrongFields } from '../../support/expect.ts';
import { Developer } from '../../support/developer.ts';
import { Listener, logOf, statesOf } from '../../support/firehose.ts';
import { addCommit } from '../../support/rows.ts';
import { describeWithRunner } from '../../support/runner.ts';
import { Tab } from '../../support/tab.ts';
import { freshName, type User } from '../../support/user.ts';

const moment = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$/;

describeWithRunner(
  'a deploy',
  (service, runner) => {
    let alice: User;
    before(async () => {
      alice = await service.user();
    });

    interface Deploy {
      id_str: string;
      path: string;
      project: Record_;
      strategy: Record_;
      /** What the API shows of it now. */
      look(): Promise<Record_>;
      log(): Promise<string>;
      cancel(): Promise<Record_>;
    }

    const deployOf = async (project: Record_, strategy: Record_, by = alice): Promise<Deploy> => {
      const { id } = await addCommit(service.store, project, { build_state: 'passed' });
      const answer = await by.post(`/projects/${project.id}/deploys`, {
        deploy_strategy_id: strategy.id,
        commit_id: id,
      });
      const { id_str } = answer.record;
      const path = `/projects/${project.id}/deploys/${id_str}`;
      return {
        id_str,
        path,
        project,
        strategy,
        look: async () => (await by.get(path)).record,
        log: async () => (await by.get(`${path}/log.txt`)).text,
        cancel: async () => (await by.post(`${path}/cancel`)).record,
      };
    };

    /** A deploy to a branch that no other test deploys to. */
    const deploy = async (fields: Record<string, string> = {}): Promise<Deploy> => {
      const project = await alice.createProject();
      const target = { 'options[repository_url]': `live@example.org:${freshName('site').replace(' ', '-')}.git` };
      return deployOf(project, await alice.createStrategy(project, { ...target, ...fields }));
    };

    test('is ordered with its target and key, and every state is seen on the way', async () => {
      const made = await deploy({ 'options[local_branch]': 'main', 'options[remote_branch]': 'live' });
      const task = await runner.take('push_deploy');
      const { source, kind: _, timeoutSeconds: __, ...order } = task.order.work;
      const options = made.strategy.options as Record<string, string>;
      const commit = (await alice.get(`/projects/${made.project.id}/commits`)).list[0];
      assert.deepEqual(order, {
        sha: commit?.ref,
        localBranch: 'main',
        remoteUrl: options.repository_url,
        remoteBranch: 'live',
      });
      assert.equal(source.repositoryUrl, made.project.repository_url);
      assert.match(source.privateKey, /OPENSSH PRIVATE KEY/);
      const deploying = await made.look();
      assert.equal(deploying.state, 'deploying');
      assert.match(String(deploying.deploy_started_at), moment);
      assert.equal(deploying.deploy_finished_at, null);
      await task.writeLog('remote: thank you\n');
      await task.finish({ kind: 'pushed' });
      const over = await made.look();
      assert.deepEqual(over, { ...deploying, state: 'deployed', deploy_finished_at: over.deploy_finished_at });
      assert.match(String(over.deploy_finished_at), moment);
      const text = 'remote: thank you\n';
      const whole = { offset: 0, next_offset: text.length, size: text.length, complete: true, text };
      assert.deepEqual((await alice.get(`${made.path}/log`)).response, whole);
      assert.equal(await made.log(), text);
    });

    test('that is refused has failed, and leaves builds alone', async () => {
      const made = await deploy();
      const states = async () => {
        const path = `/projects/${made.project.id}`;
        return [(await alice.get(path)).record, ...(await alice.get(`${path}/commits`)).list].map(
          (one) => one.build_state,
        );
      };
      const before = await states();
      const task = await runner.take('push_deploy');
      await task.writeLog('remote: not today\n');
      await task.finish({ kind: 'refused' });
      assert.equal((await made.look()).state, 'failed');
      assert.equal(await made.log(), 'remote: not today\n');
      assert.deepEqual(await states(), before);
    });

    test('is followed live, in both forms, and in the firehose of its project', async () => {
      const made = await deploy();
      const everything = await Listener.open(alice, `/projects/${made.project.id}/firehose?offset=0`);
      const listener = await Listener.open(alice, `${made.path}/firehose`);
      assert.deepEqual(await listener.next(), { event: 'state', data: { state: 'enqueued' } });
      const task = await runner.take('push_deploy');
      await task.writeLog('one\n');
      const first = await listener.until(({ event }) => event === 'log');
      await task.writeLog('two\n');
      await task.finish({ kind: 'pushed' });
      const told = [...first, ...(await listener.rest())];
      assert.deepEqual(statesOf(told), ['deploying', 'deployed']);
      assert.equal(logOf(told), 'one\ntwo\n');
      assert.equal(told.at(-1)?.event, 'end');
      const resumed = await Listener.open(alice, `${made.path}/firehose`, { 'last-event-id': first.at(-1)?.id ?? '' });
      assert.equal(logOf(await resumed.rest()), 'two\n');
      const asked = { as: alice.credentials, headers: { accept: 'application/x-ndjson' } };
      const lines = (await service.api.get(`${made.path}/firehose`, asked)).text.trimEnd().split('\n');
      assert.deepEqual(
        lines.map((line) => JSON.parse(line) as unknown),
        [
          { event: 'state', state: 'deployed' },
          { event: 'log', id: '8', offset: 0, text: 'one\ntwo\n' },
          { event: 'end' },
        ],
      );
      const ofDeploy = (await everything.until(({ data }) => data.state === 'deployed')).filter(
        ({ data }) => data.type === 'deploy',
      );
      assert.deepEqual(statesOf(ofDeploy), ['enqueued', 'deploying', 'deployed']);
      for (const { data } of ofDeploy) assert.equal(data.id_str, made.id_str);
      everything.leave();
    });

    test('waits for those to the same branch, in order, whoever asked for them', async () => {
      const bob = await service.user();
      const target = { 'options[repository_url]': 'live@example.org:shared.git', 'options[remote_branch]': 'live' };
      const [own, his] = [await alice.createProject(), await bob.createProject()];
      const [strategy, other] = [await alice.createStrategy(own, target), await alice.createStrategy(own, target)];
      const first = await deployOf(own, strategy);
      const second = await deployOf(his, await bob.createStrategy(his, target), bob);
      const third = await deployOf(own, other);
      const elsewhere = await deployOf(
        own,
        await alice.createStrategy(own, { ...target, 'options[remote_branch]': 'preview' }),
      );
      const beside = runner.beside('other');
      const tasks = [await runner.take('push_deploy'), await beside.take('push_deploy')] as const;
      assert.deepEqual(
        tasks.map(({ order }) => order.work.remoteBranch),
        ['live', 'preview'],
        'another branch need not wait',
      );
      await runner.assertIdle();
      const states = async () => Promise.all([first, second, third].map(async (one) => (await one.look()).state));
      assert.deepEqual(await states(), ['deploying', 'enqueued', 'enqueued']);
      await tasks[0].finish({ kind: 'refused' });
      const next = await runner.take('push_deploy');
      assert.equal(next.order.work.source.projectId, his.id_str);
      await runner.assertIdle();
      assert.deepEqual(await states(), ['failed', 'deploying', 'enqueued']);
      // One that waits in the middle and is called off does not stop those behind it.
      const fourth = await deployOf(own, strategy);
      assert.equal((await third.cancel()).state, 'cancelled');
      await next.finish({ kind: 'pushed' });
      const last = await runner.take('push_deploy');
      await last.finish({ kind: 'pushed' });
      assert.deepEqual(await Promise.all([first, second, third, fourth].map(async (one) => (await one.look()).state)), [
        'failed',
        'deployed',
        'cancelled',
        'deployed',
      ]);
      await tasks[1].finish({ kind: 'pushed' });
      assert.equal((await elsewhere.look()).state, 'deployed');
    });

    test('is called off: one that waits at once, one under way when its runner has heard', async () => {
      const waiting = await deploy();
      const cancelled = await waiting.cancel();
      assert.deepEqual([cancelled.state, cancelled.deploy_started_at], ['cancelled', null]);
      assert.match(String(cancelled.deploy_finished_at), moment);
      await runner.assertIdle();
      const running = await deploy();
      const task = await runner.take('push_deploy');
      assert.equal((await running.cancel()).state, 'deploying');
      assert.equal(await task.hears(), 'cancel');
      await task.writeLog('broken off\n');
      await task.finish({ kind: 'cancelled' });
      assert.equal((await running.look()).state, 'cancelled');
      for (const made of [waiting, running]) assert.equal((await made.cancel()).state, 'cancelled');
      assertNotFound(await alice.post(`${waiting.path}0/cancel`));
    });

    test('that had arrived when it was called off is deployed, and stays so', async () => {
      const made = await deploy();
      const task = await runner.take('push_deploy');
      await made.cancel();
      await task.finish({ kind: 'pushed' });
      assert.equal((await made.look()).state, 'deployed');
      assert.equal((await made.cancel()).state, 'deployed');
    });

    test('goes on in the same record when its runner is lost, and its log says so', async () => {
      const made = await deploy();
      const lost = await runner.beside('doomed').take('push_deploy');
      const started = (await made.look()).deploy_started_at;
      await lost.writeLog('half a li');
      await runner.dispatch.holderGone('doomed');
      assert.deepEqual(await lost.finish({ kind: 'pushed' }), { gone: true });
      assert.equal((await made.look()).state, 'deploying');
      const next = await runner.take('push_deploy');
      await next.writeLog('done\n');
      await next.finish({ kind: 'pushed' });
      const over = await made.look();
      assert.deepEqual([over.state, over.deploy_started_at], ['deployed', started]);
      const note = 'The runner was lost while it worked on this deploy. Another runner continues: attempt 2 of 3.';
      assert.equal(await made.log(), `half a li\n${note}\ndone\n`);
    });

    test('is tried three times, then it has failed', async () => {
      const made = await deploy();
      for (const name of ['first', 'second']) {
        await runner.beside(name).take('push_deploy');
        await runner.dispatch.holderGone(name);
      }
      const third = await runner.take('push_deploy');
      assert.deepEqual(await third.finish({ kind: 'lost', message: 'no room on the disk' }), { taken: true });
      await runner.assertIdle();
      assert.equal((await made.look()).state, 'failed');
      assert.match(
        await made.log(),
        /attempt 2 of 3\.\n.*attempt 3 of 3\.\n.*attempt 3 of 3, so the deploy failed\. Deploy again/,
      );
      assert.deepEqual((await alice.get(`${made.path}/log`)).record.complete, true);
    });

    test('that was called off is not tried again when its runner is lost', async () => {
      const made = await deploy();
      await runner.beside('doomed').take('push_deploy');
      await made.cancel();
      await runner.dispatch.holderGone('doomed');
      assert.equal((await made.look()).state, 'cancelled');
      await runner.assertIdle();
    });

    test('goes where its strategy said when it was asked for', async () => {
      const made = await deploy({ 'options[remote_branch]': 'then' });
      const path = `/projects/${made.project.id}/deploy_strategies/${made.strategy.id}`;
      await alice.put(path, { 'options[remote_branch]': 'now' });
      await alice.delete(path);
      const task = await runner.take('push_deploy');
      assert.equal(task.order.work.remoteBranch, 'then');
      await task.finish({ kind: 'pushed' });
      assert.equal((await made.look()).state, 'deployed');
    });

    test('goes with its project: nobody gets it, and who has it is told', async () => {
      const made = await deploy();
      const task = await runner.take('push_deploy');
      await deployOf(made.project, made.strategy);
      const listener = await Listener.open(alice, `${made.path}/firehose`);
      await alice.delete(`/projects/${made.project.id}`);
      assert.equal(await task.hears(), 'gone');
      assert.deepEqual(await task.finish({ kind: 'pushed' }), { gone: true });
      assert.equal((await listener.rest()).at(-1)?.event, 'end');
      await runner.assertIdle();
      const jobs = service.store.db.read.selectFrom('jobs').select('id').where('kind', '=', 'push_deploy');
      assert.deepEqual(await jobs.execute(), []);
    });

    test('is asked for once under one Idempotency-Key', async () => {
      const project = await alice.createProject();
      const strategy = await alice.createStrategy(project);
      const commit = await addCommit(service.store, project);
      const form = { deploy_strategy_id: strategy.id, commit_id: commit.id };
      const ask = () => alice.post(`/projects/${project.id}/deploys`, form, { 'idempotency-key': 'go' });
      const [one, two] = [await ask(), await ask()];
      assert.equal(one.text, two.text);
      await (await runner.take('push_deploy')).finish({ kind: 'pushed' });
      await runner.assertIdle();
    });

    test('goes back to what was deployed before, by API, page and command line', async () => {
      const first = await deploy();
      const { project, strategy } = first;
      const path = `/projects/${project.id}/deploys`;
      const back = { deploy_strategy_id: strategy.id, rollback: 'true' };
      const end = async (kind: 'pushed' | 'refused' = 'pushed') => (await runner.take('push_deploy')).finish({ kind });
      assertRefused(await alice.post(path, back), 404, { commit_id: ['not_found'] });
      await end();
      assertRefused(await alice.post(path, back), 404, { commit_id: ['not_found'] });
      const second = await deployOf(project, strategy);
      await end();
      await deployOf(project, strategy); // that failed
      await end('refused');
      // Another strategy's deploys are its own.
      const other = await alice.createStrategy(project);
      assertRefused(await alice.post(path, { ...back, deploy_strategy_id: other.id }), 404, {
        commit_id: ['not_found'],
      });
      const [one, two] = [(await first.look()).commit_id, (await second.look()).commit_id];
      assertWrongFields(await alice.post(path, { ...back, commit_id: one as bigint }), { commit_id: 'invalid_format' });
      const rolledBack = await alice.post(path, back);
      assert.deepEqual([rolledBack.status, rolledBack.record.commit_id], [201, one]);
      await end();
      const entries = service.store.db.read.selectFrom('audit_entries').select('details');
      const [entry] = await entries.where('subject_id', '=', rolledBack.record.id).execute();
      assert.match(entry?.details ?? '', /"rollback":true/);
      const again = await alice.post(path, { ...back, rollback: '1' });
      assert.equal(again.record.commit_id, two, 'the last but one is now what was left');
      await end();

      const tab = new Tab(service);
      await tab.signIn(alice.credentials);
      const page = await tab.get(`/ui${path}`);
      assert.match(page.text, /Roll back/);
      const fields = { do: 'roll_back', rollback: 'true' };
      const refused = await tab.submit(page, `/ui${path}`, { ...fields, deploy_strategy_id: other.id_str });
      assert.match(refused.text, /there is nothing to go back to/);
      const done = await tab.submit(page, `/ui${path}`, { ...fields, deploy_strategy_id: strategy.id_str });
      assert.equal(done.status, 303);
      await end();
      const developer = await Developer.of(service, alice);
      const named = ['deploy', String(strategy.name), '--project', project.id_str];
      const run = await developer.run([...named, '--rollback', '--json']);
      assert.equal((JSON.parse(run.out) as { commit_id_str: string }).commit_id_str, String(two), run.err);
      await end();
      const both = await developer.run([...named, 'main', '--rollback']);
      assert.deepEqual([both.status, both.err.includes('Remove the commit')], [2, true]);
      // Somebody who is no part of the project learns nothing of it.
      assertNotFound(await (await service.user()).post(path, back));
    });
  },
  // A stream of a project that is gone ends with its caller's next check too.
  { streamPauseMs: 600_000 },
);
