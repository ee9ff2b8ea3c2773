import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CommitReport } from '../../../src/shared/protocol/index.ts';
import { assertRefused } from '../../support/expect.ts';
import { shortSha } from '../../../src/server/ui/parts.ts';
import { Brought, pull, push, sha } from '../../support/joined.ts';
import { Receiver, reply } from '../../support/receiver.ts';
import { aCommit, describeWithRunner } from '../../support/runner.ts';
import { Tab } from '../../support/tab.ts';
import { fromFork } from '../../support/triggered.ts';
import { deliver, sign } from '../inbound-hooks/forge.ts';

const [merge, base, moved] = ['a', 'b', 'c'].map((digit) => digit.repeat(40)) as [string, string, string];
const onTopic: Partial<CommitReport> = {
  branches: ['topic'],
  branch: 'topic',
  ref: 'refs/heads/topic',
  defaultHead: 'none',
};

describeWithRunner(
  'the merge of a pull request',
  (service, runner) => {
    const begin = (suites = ['unit']) => Brought.begin(service, runner, suites, { pull_request_builds: 'merge' });

    /** The runner merges as it is told to. */
    async function merges(
      into: bigint,
      { sha: made = merge, at = base, ...commit }: Partial<CommitReport> & { at?: string } = {},
    ) {
      const task = await runner.take('fetch_commit');
      assert.deepEqual(task.order.work.merge, { into: 'main', name: String(into) });
      const found = { ...aCommit, ...onTopic, ...commit };
      assert.deepEqual(
        await task.finish({ kind: 'fetched', commit: found, merge: { sha: made, base: at, tree: made } }),
        {
          taken: true,
        },
      );
    }

    async function conflicts(files: string[]) {
      const task = await runner.take('fetch_commit');
      const conflict = { head: sha, base, files };
      await task.finish({ kind: 'unfetchable', reason: 'merge_conflict', conflict });
    }

    test('is built of its own, and keeps what its head may have', async () => {
      const brought = await begin();
      const { user, project, path } = brought;
      const limited = { name: 'LIMITED', content: 'limited to a branch', 'refs[]': 'topic' };
      for (const fields of [limited, { name: 'KEY', content: 'open sesame' }])
        assert.equal((await user.post(`${path}/environment_variables`, fields)).status, 201);
      const ofHead = await user.createSuite(project, { name: 'of-head' });
      const rule = { subject: 'commit.ref', operator: 'equals', value: sha };
      await user.post(`${path}/suites/${ofHead.id}/rules`, rule);
      const pushed = await brought.bring(push);
      await brought.fetched();
      assert.deepEqual(await brought.run(2), ['of-head', 'unit']);
      const id = await brought.bring(pull);
      assert.deepEqual(await brought.seen(id), ['enqueued', null], 'the head is known, but not its merge');
      await merges(id);
      const tasks = await brought.take(2);
      assert.deepEqual([...tasks.keys()].toSorted(), ['of-head', 'unit'], 'rules see the head');
      for (const task of tasks.values()) {
        const { work } = task.order;
        const { environment: given } = work;
        assert.deepEqual([work.sha, work.merge, work.isFork], [merge, { head: sha, base, name: String(id) }, false]);
        const shas = [given['HEADRACE_COMMIT'], given['HEADRACE_HEAD_SHA'], given['HEADRACE_MERGE_BASE']];
        assert.deepEqual(shas, [merge, sha, base]);
        assert.deepEqual(
          [given['KEY'], given['LIMITED'], given['HEADRACE_BRANCH']],
          ['open sesame', undefined, 'topic'],
        );
        await task.exit(task.order.work.environment.HEADRACE_SUITE === 'unit' ? 1 : 0);
      }
      assert.deepEqual(await brought.seen(id), ['failed', null]);
      const { commit_id: commit } = await brought.request(id);
      const { record } = await user.get(`${path}/commits/${String(commit)}`);
      assert.deepEqual([record['ref'], record['message'], record['scm_author_name']], [merge, aCommit.message, 'Ada']);
      assert.notEqual(commit, (await brought.request(pushed)).commit_id, 'it is a record of its own');

      // Neither a rerun nor a restart fetches or merges again.
      assert.equal((await user.post(`${path}/build_requests/${id}/rerun`, { failed_only: 'true' })).status, 200);
      const again = await brought.take(1);
      assert.equal(again.get('unit')?.order.work.sha, merge);
      await again.get('unit')?.exit(0);
      const [build] = (await brought.builds(id)).filter(({ suite_name: name }) => name === 'of-head');
      assert.equal((await user.post(`${path}/builds/${build?.id}/restart`)).status, 201);
      const restarted = await brought.take(1);
      const { environment } = restarted.get('of-head')?.order.work ?? {};
      assert.deepEqual([environment?.['HEADRACE_MERGE_BASE'], environment?.['HEADRACE_PULL_REQUEST']], [base, '7']);
      await restarted.get('of-head')?.exit(0);
      assert.deepEqual(await brought.seen(id), ['passed', null]);
    });

    test('is never deployed, and is known by no SHA until the repository has it', async () => {
      const brought = await begin();
      const { user, project, path } = brought;
      const strategy = await user.createStrategy(project);
      // The head was merged before, so it is on the target branch.
      const id = await brought.bring(pull);
      await merges(id, { branches: ['main', 'topic'], defaultHead: 'this' });
      await brought.run(1);
      const { commit_id: commit } = await brought.request(id);
      const deploy = (more: Record<string, string>) =>
        user.post(`${path}/deploys`, { deploy_strategy_id: String(strategy.id), ...more });
      assertRefused(await deploy({ commit_id: String(commit) }), 403, { commit_id: ['invalid_format'] });
      assertRefused(await deploy({}), 404, { commit_id: ['not_found'] });
      assert.notEqual((await user.get(`/projects/${project.id}`)).record['default_branch'], 'topic');
      const asked = await user.requestBuild(project, merge);
      const task = await runner.take('fetch_commit');
      assert.deepEqual([task.order.work.commitRef, task.order.work.merge], [merge, undefined]);
      // Somebody proposes the very commit from a fork. That makes nothing of it.
      await task.fetched({ sha: merge, branches: [], branch: null, ref: null, defaultHead: 'kept' });
      const [ofFork] = (await brought.take(1)).values();
      assert.deepEqual([ofFork?.order.work.isFork, ofFork?.order.work.merge], [true, undefined]);
      await ofFork?.exit(0);
      assert.equal((await user.get(`${path}/build_requests/${asked.id}`)).record['from_fork'], true);
      assertRefused(await deploy({ commit_id: String(commit) }), 403, { commit_id: ['invalid_format'] });
      // It is pushed: now it is a commit like any other.
      await brought.bring({ ...push, targetBranch: 'main', headBranch: 'main', fetchRef: 'refs/heads/main' }, merge);
      await brought.fetched({ sha: merge, branches: ['main'], branch: 'main', ref: 'refs/heads/main' });
      await brought.run(1);
      assert.equal((await deploy({ commit_id: String(commit) })).status, 201);
      await (await runner.take('push_deploy')).finish({ kind: 'refused' });
    });

    test('of a fork gets no secrets, whatever its target and its head are [promise: fork-secrets]', async () => {
      const brought = await begin();
      const { user, path } = brought;
      await user.post(`${path}/environment_variables`, { name: 'KEY', content: 'open sesame' });
      // The fork names a commit and branches of ours as its head.
      const id = await brought.bring({ ...pull, ...fromFork, targetBranch: 'main', headBranch: 'main' });
      await merges(id, { branches: ['main'], branch: 'main', ref: 'refs/heads/main', defaultHead: 'this' });
      const begins = async () => {
        const task = (await brought.take(1)).get('unit');
        const { environment, secrets, isFork } = task?.order.work ?? {};
        assert.deepEqual([environment?.['KEY'], secrets, isFork], [undefined, [], true]);
        await task?.exit(0);
      };
      await begins();
      await user.post(`${path}/build_requests/${id}/rerun`);
      await begins();
      const { record: again } = await user.post(`${path}/build_requests/${id}/again`);
      assert.deepEqual([again['from_fork'], again['pull_request'], again['event']], [true, 7, 'pull_request']);
      await merges(again.id, { sha: moved });
      await begins();
      // Nor does a payload that says nothing of a fork help, where the head is on no branch.
      const silent = await brought.bring({ ...pull, pullRequest: 8n, group: '' });
      await merges(silent, { sha: 'd'.repeat(40), branches: [], branch: null, ref: null });
      await begins();
    });

    test('is behind when hooks say so, and built again from its page', async () => {
      const brought = await begin();
      const { user, project, path } = brought;
      const { record: hook } = await user.post(`${path}/hooks`, { provider: 'generic' });
      const push = async (name: string, to: string) => {
        const sent = sign.generic(hook['secret'] as string, '', { ref: `refs/heads/${name}`, sha: to });
        assert.equal((await deliver(service.api, hook, sent)).record['outcome'], 'build_requested');
      };
      const id = await brought.bring(pull);
      await merges(id);
      await brought.run(1);
      const tab = new Tab(service);
      await tab.signIn(user.credentials);
      const at = `/ui/projects/${project.id}/requests/${id}`;
      const seen = async () => {
        const { merge: told } = (await user.get(`${path}/build_requests/${id}/details`)).record as { merge?: unknown };
        const page = await tab.get(at);
        assert.ok(page.text.includes(`<code>${shortSha(base)}</code>`), page.text);
        return [told, page.text.includes('behind'), page.text.includes('Build again')];
      };
      const merged = (behind: boolean) => [{ head: sha, base, behind }, behind, behind];
      assert.deepEqual(await seen(), merged(false));
      await push('elsewhere', moved);
      await push('main', base);
      assert.deepEqual(await seen(), merged(false));
      await push('main', moved);
      assert.deepEqual(await seen(), merged(true));
      for (const branch of ['elsewhere', 'main', 'main']) {
        const found = { branches: [branch], branch, ref: `refs/heads/${branch}` };
        const task = await runner.take('fetch_commit');
        await task.fetched({ ...found, sha: task.order.work.commitRef, defaultHead: 'kept' });
      }
      const waiting = await brought.builds(id);
      assert.equal(waiting.length, 1);
      for (const suite of await brought.take(3)) await suite[1].exit(0);
      const page = await tab.get(at);
      const sent = await tab.submit(page, at, { do: 'again' });
      const made = BigInt(/requests\/(\d+)/.exec(sent.headers['location'] as string)?.[1] ?? 0);
      assert.notEqual(made, id);
      const {
        created_by: by,
        event,
        pull_request: number,
        target_branch: target,
        from_fork: isFork,
      } = await brought.request(made);
      assert.deepEqual([by, event, number, target, isFork], ['hook:7', 'pull_request', 7, 'main', false]);
      await merges(made, { sha: moved.replace('c', 'd'), at: moved });
      await brought.run(1);
      const { merge: told } = (await user.get(`${path}/build_requests/${made}/details`)).record as { merge?: unknown };
      assert.deepEqual(told, { head: sha, base: moved, behind: false });
      const { text } = await tab.get(
        `/ui/projects/${project.id}/commits/${String((await brought.request(made)).commit_id)}`,
      );
      assert.ok(text.includes('Merge of') && !text.includes('Run build') && !text.includes('>Deploy<'), text);

      const pushed = await user.requestBuild(project, 'main');
      assertRefused(await user.post(`${path}/build_requests/${pushed.id}/again`), 403, {
        pull_request_builds: ['invalid_format'],
      });
      await user.post(`${path}/build_requests/${pushed.id}/cancel`);
      const unknown = await brought.bring({ ...pull, pullRequest: 9n });
      assertRefused(await user.post(`${path}/build_requests/${unknown}/again`), 403, {
        generic: ['resource_temporary_unavailable'],
      });
      await user.post(`${path}/build_requests/${unknown}/cancel`);
      await user.put(path, { pull_request_builds: 'head' });
      assertRefused(await user.post(`${path}/build_requests/${id}/again`), 403, {
        pull_request_builds: ['invalid_format'],
      });
      assertRefused(await user.put(path, { pull_request_builds: 'rebase' }), 403, {
        pull_request_builds: ['invalid_format'],
      });
    });

    test('is reported to its head, and decides over a push of the head', async () => {
      await using forge = await Receiver.start(reply(201));
      const brought = await begin();
      const { user, project, path } = brought;
      await user.createStatusTarget(project, { api_url: `http://127.0.0.1:${forge.port}` });
      const told = async (many: number) =>
        (await forge.received(many)).map(({ path: of, body }) => {
          const { context, state, description } = JSON.parse(body) as Record<string, string>;
          assert.ok(of.endsWith(sha), of);
          return `${context} ${state}: ${description}`;
        });
      const pushed = await brought.bring(push);
      const id = await brought.bring(pull);
      await brought.fetched();
      await merges(id);
      const tasks = [await runner.take('run_suite'), await runner.take('run_suite')];
      const [ofPush, ofMerge] = tasks.toSorted((one) => (one.order.work.merge ? 1 : -1));
      await ofMerge?.exit(1);
      await ofPush?.exit(0);
      assert.deepEqual(await brought.seen(pushed), ['passed', null]);
      const fetching = 'headrace pending: Fetching the commit';
      const last = ['headrace/unit failure: Failed with exit status 1', 'headrace failure: 1 of 1 suite failed'];
      const all = (await told(7)).map((line) => line.replace(/ after .*/, ''));
      assert.deepEqual([...all.slice(0, 2), ...all.slice(-2)], [fetching, fetching, ...last]);
      // A conflict of the same head, merged again, decides over both.
      const { record } = await user.post(`${path}/build_requests/${id}/again`);
      await conflicts(['a.txt', 'b\nc', 'd', 'e', 'f']);
      const { build_state: state, failure_reason: reason } = await brought.request(record.id);
      assert.deepEqual([state, reason], ['errored', 'merge_conflict']);
      const now = await told(9);
      assert.equal(now.at(-1), 'headrace error: It cannot be merged into main. Conflicts: a.txt, b c, d and 2 more.');
      await user.post(`${path}/build_requests/${pushed}/rerun`);
      await brought.run(1);
      // What is reported next is of the next commit: nothing of the push came between.
      await brought.bring(push, 'e'.repeat(40)).catch(() => {});
      const after = (await forge.received(10)).slice(9).map(({ path: of }) => of.endsWith('e'.repeat(40)));
      assert.deepEqual(after, [true]);
    });
  },
  { settings: { base_url: 'https://ci.example.org', webhook_allow: '127.0.0.0/8' } },
);
