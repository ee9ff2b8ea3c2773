import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { before, test } from 'node:test';
import { collectBlobs } from '../../../src/server/software/collect.ts';
import type { KeptTree, SavedCache, SuiteOrder, Stored } from '../../../src/shared/protocol/index.ts';
import type { Record_ } from '../../support/client.ts';
import { assertWrongFields } from '../../support/expect.ts';
import { describeWithRunner, type Task } from '../../support/runner.ts';
import { fromFork, trigger } from '../../support/triggered.ts';
import type { User } from '../../support/user.ts';

const mostBytes = 1000;

describeWithRunner(
  'the cache of a suite',
  (service, runner) => {
    let alice: User;
    before(async () => {
      alice = await service.user();
    });
    const projectWithCache = async (): Promise<{ project: Record_; suite: Record_ }> => {
      const project = await alice.createProject();
      return { project, suite: await alice.createSuite(project, { 'cache[]': 'deps' }) };
    };
    /** Begins the build of a branch. */
    const begin = async (project: Record_, branch = 'main'): Promise<Task<SuiteOrder>> => {
      await alice.requestBuild(project, branch);
      const fetch = await runner.take('fetch_commit');
      const sha = randomUUID().replaceAll('-', '').padEnd(40, '0');
      const isDefault = branch === 'main';
      await fetch.fetched({
        sha,
        branch,
        branches: [branch],
        ref: `refs/heads/${branch}`,
        defaultHead: isDefault ? 'this' : 'kept',
        ...(isDefault && { defaultBranch: 'main' }),
      });
      return runner.take('run_suite');
    };
    const cacheOf = ({ order }: Task<SuiteOrder>) => order.work.cache ?? assert.fail('the order has no cache');
    const store = ({ order }: Task<SuiteOrder>, content: string | Buffer): Promise<Stored> => {
      const pieces = (async function* all() {
        yield Buffer.from(content);
      })();
      return runner.dispatch.store(runner.self, order.claim, pieces);
    };
    const stored = async (task: Task<SuiteOrder>, content: string | Buffer): Promise<string> => {
      const answer = await store(task, content);
      assert.ok('digest' in answer);
      return answer.digest;
    };
    /** Ends a build that leaves a cache of this size. */
    const save = async (task: Task<SuiteOrder>, bytes: number) => {
      const { savesAs: name = '', found } = cacheOf(task);
      const digest = await stored(task, randomBytes(bytes));
      await task.finish({ kind: 'exited', status: 0, cache: { digest, ...(found && { began: found.id }) } });
      return { name, sha: task.order.work.sha, digest, bytes };
    };
    const shown = async (project: Record_): Promise<Record_[]> =>
      (await alice.get(`/projects/${project.id}/caches`)).list;
    const branches = async (project: Record_): Promise<string> =>
      (await alice.get(`/projects/${project.id}/caches`)).list
        .map(({ branch, size }) => `${String(branch)} ${String(size)}`)
        .join(', ');

    test('has the room of its project; what was not used for longest goes first', async () => {
      const { project } = await projectWithCache();
      await save(await begin(project, 'main'), 300);
      await save(await begin(project, 'one'), 300);
      await save(await begin(project, 'two'), 300);
      assert.equal(await branches(project), 'two 300, main 300, one 300');
      // 900 of 1000 are taken. main is used by this one, so the first to go is the cache of one.
      await save(await begin(project, 'three'), 200);
      assert.equal(await branches(project), 'three 200, main 300, two 300');
      await save(await begin(project, 'main'), 300);
      assert.equal(await branches(project), 'main 300, three 200, two 300', 'what was there before takes no room');
      await save(await begin(project, 'main'), 1000);
      assert.equal(await branches(project), 'main 1000');
      const whole = await begin(project, 'main');
      assert.deepEqual(await store(whole, randomBytes(1001)), { refused: 'too_large' });
      await whole.exit(0);
      assert.equal(await branches(project), 'main 1000');
    });

    test('is the last one of those that end at the same time', async () => {
      const { project } = await projectWithCache();
      await save(await begin(project), 10);
      const [first, second] = [await begin(project), await begin(project)];
      const [before] = await shown(project);
      await save(second, 30);
      await save(first, 20);
      assert.equal(await branches(project), 'main 20');
      assert.equal((await shown(project))[0]?.id, before?.id, 'and it is the same cache');
    });

    test('that was deleted is not brought back by a build that began with it', async () => {
      const { project } = await projectWithCache();
      await save(await begin(project), 10);
      const [own, other] = [await begin(project), await begin(project, 'other')];
      const [cache] = await shown(project);
      await alice.delete(`/projects/${project.id}/caches/${cache?.id}`);
      const fresh = await begin(project);
      for (const task of [own, other]) await save(task, 20);
      assert.equal(await branches(project), '');
      await save(fresh, 30);
      assert.equal(await branches(project), 'main 30', 'one that began without it is kept');
      const id = own.order.work.environment['HEADRACE_BUILD_ID'];
      const log = (await alice.get(`/projects/${project.id}/builds/${id}/log`)).text;
      assert.match(log, /The cache is not stored: during the build, its cache was deleted/);
    });

    test('gets the commit of a build that wrote the same files, without a blob', async () => {
      const { project } = await projectWithCache();
      const first = await save(await begin(project), mostBytes / 2);
      /** Ends a build that wrote what its cache had; without `changes` as a runner tells it. */
      const same = async (task: Task<SuiteOrder>, changes: { digest?: string; began?: string } = {}) => {
        const { id = '', digest = '' } = cacheOf(task).found ?? {};
        await task.finish({ kind: 'exited', status: 0, cache: { digest, began: id, ...changes } });
        return task.order.work.sha;
      };
      const foundBy = async (branch?: string) => {
        const task = await begin(project, branch);
        const { found } = cacheOf(task);
        await task.exit(0);
        return found;
      };
      const second = await same(await begin(project));
      const found = await foundBy();
      assert.deepEqual(found, { ...found, ...first, sha: second });
      const onOther = await same(await begin(project, 'other'));
      assert.deepEqual(await foundBy('other'), {
        ...(await foundBy('other')),
        ...first,
        branch: 'other',
        sha: onOther,
      });
      assert.deepEqual(await foundBy(), found, 'the default branch has its own');
      assert.equal((await shown(project)).length, 2, 'a tree that two branches have takes its room once');
      // Another build was faster, or the runner names a cache that it did not begin with.
      const [late, wrong] = [await begin(project), await begin(project)];
      const other = (await foundBy('other'))?.id ?? '';
      await same(wrong, { began: other });
      assert.equal((await foundBy())?.sha, second);
      const newer = await save(await begin(project), 10);
      await same(late);
      assert.deepEqual(await foundBy(), { ...found, ...newer });
    });

    test('is named to who does the build, who may read it meanwhile', async () => {
      const { project } = await projectWithCache();
      const first = await begin(project);
      assert.deepEqual(cacheOf(first), { paths: ['deps'], savesAs: cacheOf(first).savesAs, mostBytes });
      const tree = await save(first, 10);
      assert.equal(await runner.dispatch.read(runner.self, tree.digest), undefined, 'nobody builds with it');
      const second = await begin(project);
      assert.deepEqual(cacheOf(second).found, {
        id: String((await shown(project))[0]?.id_str),
        branch: 'main',
        ...tree,
      });
      const blob = await runner.dispatch.read(runner.self, tree.digest);
      assert.ok(blob);
      await blob[Symbol.asyncDispose]();
      await second.exit(1);
      const { path } = { path: `/projects/${project.id}` };
      await alice.delete(`${path}/caches`);
      const third = await begin(project);
      assert.equal(cacheOf(third).found, undefined);
      await third.exit(0);
    });

    test('takes from a runner only what it stored under its claim [promise: cache-branches]', async () => {
      const { project: theirs } = await projectWithCache();
      const foreign = await save(await begin(theirs), 10);
      const [other] = await shown(theirs);
      const { project } = await projectWithCache();
      const isRefused = async (cache: (own: string) => SavedCache): Promise<void> => {
        const task = await begin(project);
        const own = await stored(task, `own ${cacheOf(task).savesAs}`);
        assert.deepEqual(await task.finish({ kind: 'exited', status: 0, cache: cache(own) }), { taken: true });
        assert.equal(await branches(project), '');
      };
      await isRefused(() => ({ digest: foreign.digest }));
      await isRefused((digest) => ({ digest, began: String(other?.id_str) }));
      assert.equal(await branches(theirs), 'main 10');
    });

    test('is not written by a fork’s build, nor by one that did not pass [promise: cache-branches]', async () => {
      const { project } = await projectWithCache();
      const tree = await save(await begin(project), 10);
      const found = { id: String((await shown(project))[0]?.id_str), branch: 'main', ...tree };
      await alice.requestBuild(project, 'refs/pull/1/head');
      const fetch = await runner.take('fetch_commit');
      await fetch.fetched({
        sha: 'b'.repeat(40),
        branch: null,
        branches: [],
        tags: [],
        ref: null,
        defaultHead: 'kept',
      });
      const fork = await runner.take('run_suite');
      assert.deepEqual(cacheOf(fork), { paths: ['deps'], found, mostBytes });
      assert.deepEqual(await store(fork, 'evil'), { gone: true });
      await fork.finish({ kind: 'exited', status: 0, cache: { digest: tree.digest, began: found.id } });
      const failed = await begin(project);
      await failed.finish({ kind: 'exited', status: 1, cache: { digest: await stored(failed, 'failed') } });
      assert.equal(await branches(project), 'main 10');
    });

    test('is written by a failed build where the suite says so, and never by one that was cancelled or a fork’s [promise: cache-branches]', async () => {
      const { project, suite } = await projectWithCache();
      const at = `/projects/${project.id}/suites/${suite.id}`;
      assert.equal((await alice.get(at)).record.cache_save, 'passed', 'unless somebody says otherwise');
      assertWrongFields(await alice.put(at, { cache_save: 'never' }), { cache_save: 'invalid_format' });
      assert.equal((await alice.put(at, { cache_save: 'always' })).record.cache_save, 'always');
      /** Ends a build as a runner does that saved a cache. */
      const end = async (task: Task<SuiteOrder>, status: number): Promise<string> => {
        assert.equal(cacheOf(task).savesFailed, true);
        const digest = await stored(task, randomBytes(10));
        await task.finish({ kind: 'exited', status, cache: { digest } });
        return digest;
      };
      const digest = await end(await begin(project), 1);
      assert.equal(await branches(project), 'main 10');
      const cancelled = await begin(project);
      assert.equal(cacheOf(cancelled).found?.digest, digest);
      const { HEADRACE_BUILD_ID: build = '' } = cancelled.order.work.environment;
      await alice.post(`/projects/${project.id}/builds/${build}/cancel`);
      await end(cancelled, 1);
      const last = await begin(project);
      assert.equal(cacheOf(last).found?.digest, digest, 'what the cancelled one brought is not kept');
      await alice.put(at, { cache_save: 'passed' });
      await end(last, 1);
      const next = await begin(project);
      assert.equal(cacheOf(next).found?.digest, digest, 'the suite changed while it ran');
      await next.exit(0);
      await alice.put(at, { cache_save: 'always' });
      await trigger(service.store, project, 'd'.repeat(40), fromFork);
      const fetch = await runner.take('fetch_commit');
      await fetch.fetched({ sha: 'd'.repeat(40), branch: 'main', branches: ['main'], ref: 'refs/heads/main' });
      const fork = await runner.take('run_suite');
      assert.equal(cacheOf(fork).savesAs, undefined);
      assert.deepEqual(await store(fork, 'evil'), { gone: true });
      await fork.finish({ kind: 'exited', status: 1, cache: { digest } });
      assert.equal(await branches(project), 'main 10');
    });

    test('is not written by a fork’s build of a commit that a branch has, too [promise: cache-branches]', async () => {
      const { project } = await projectWithCache();
      const tree = await save(await begin(project), 10);
      const found = { id: String((await shown(project))[0]?.id_str), branch: 'main', ...tree };
      await trigger(service.store, project, 'c'.repeat(40), fromFork);
      const fetch = await runner.take('fetch_commit');
      await fetch.fetched({ sha: 'c'.repeat(40), branch: 'main', branches: ['main'], ref: 'refs/heads/main' });
      const fork = await runner.take('run_suite');
      assert.deepEqual(cacheOf(fork), { paths: ['deps'], found, mostBytes });
      assert.deepEqual(await store(fork, 'evil'), { gone: true });
      await fork.finish({ kind: 'exited', status: 0, cache: { digest: tree.digest } });
      assert.equal(await branches(project), 'main 10');
    });

    test('keeps its blob, and what it had is collected', async () => {
      const { project } = await projectWithCache();
      const collect = (): Promise<number> => collectBlobs(service.store.db, service.store.blobs, -1000);
      const stale = (trees: { project: string; name: string }[]) => runner.dispatch.stale(runner.self, { trees });
      await collect();
      const first = await save(await begin(project), 10);
      const second = await save(await begin(project, 'other'), 20);
      assert.equal(await collect(), 0);
      const [one, two] = [first, second].map(({ name }) => ({ project: String(project.id), name })) as [
        KeptTree,
        KeptTree,
      ];
      assert.deepEqual(await stale([one, two]), []);
      assert.deepEqual(await stale([{ ...one, project: '1' }]), [{ ...one, project: '1' }]);
      await save(await begin(project), 30);
      assert.equal(await collect(), 1);
      assert.deepEqual(await stale([one, two]), [one]);
      await alice.delete(`/projects/${project.id}`);
      assert.equal(await collect(), 2);
      assert.deepEqual(await stale([one, two]), [one, two]);
    });
  },
  { cacheBytes: mostBytes },
);
