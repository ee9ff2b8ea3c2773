import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { before, test } from 'node:test';
import { collectBlobs } from '../../src/lifecycle/collect.ts';
import type { CacheLayer, SuiteOrder, Stored } from '../../src/protocol/index.ts';
import type { Record_ } from '../support/client.ts';
import { assertWrongFields } from '../support/expect.ts';
import { describeWithRunner, type Task } from '../support/runner.ts';
import { fromFork, trigger } from '../support/triggered.ts';
import type { User } from '../support/user.ts';

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
        trunk: isDefault ? 'this' : 'kept',
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
    /** Ends a build that leaves a layer of this size. */
    const save = async (task: Task<SuiteOrder>, bytes: number): Promise<CacheLayer> => {
      const { savesAs = '', found } = cacheOf(task);
      const layer = { name: savesAs, digest: await stored(task, randomBytes(bytes)), bytes };
      await task.finish({ kind: 'exited', status: 0, cache: [...(found?.layers ?? []), layer] });
      return layer;
    };
    const branches = async (project: Record_): Promise<string> =>
      (await alice.get(`/projects/${project.id}/caches`)).list
        .map(({ branch, size }) => `${String(branch)} ${String(size)}`)
        .join(', ');

    test('has the room of its project; what was not used for longest goes first', async () => {
      const { project } = await projectWithCache();
      await save(await begin(project, 'main'), 300);
      await save(await begin(project, 'one'), 300);
      assert.equal(await branches(project), 'one 600, main 300', 'the layer of main counts once');
      await save(await begin(project, 'two'), 300);
      assert.equal(await branches(project), 'two 600, main 300, one 600');
      // 900 of 1000 are taken. main is used by this one, so the first to go is the cache of one.
      await save(await begin(project, 'three'), 200);
      assert.equal(await branches(project), 'three 500, main 300, two 600');
      await save(await begin(project, 'main'), 700);
      assert.equal(await branches(project), 'main 1000');
      const whole = await begin(project, 'main');
      assert.deepEqual(await store(whole, randomBytes(1001)), { refused: 'too_large' });
      const layer = { name: cacheOf(whole).savesAs ?? '', digest: await stored(whole, 'one more'), bytes: 0 };
      const layers = cacheOf(whole).found?.layers ?? [];
      await whole.finish({ kind: 'exited', status: 0, cache: [...layers, layer] });
      assert.equal(await branches(project), 'main 1000', 'one that is too large is not kept');
    });

    test('is named to who does the build, who may read its layers meanwhile', async () => {
      const { project } = await projectWithCache();
      const first = await begin(project);
      assert.deepEqual(cacheOf(first), { paths: ['deps'], savesAs: cacheOf(first).savesAs, mostBytes });
      const layer = await save(first, 10);
      assert.equal(await runner.dispatch.read(runner.self, layer.digest), undefined, 'nobody builds with it');
      const second = await begin(project);
      assert.deepEqual(cacheOf(second).found, { branch: 'main', layers: [layer] });
      const blob = await runner.dispatch.read(runner.self, layer.digest);
      assert.ok(blob);
      await blob[Symbol.asyncDispose]();
      await second.exit(1);
      const { path } = { path: `/projects/${project.id}` };
      await alice.delete(`${path}/caches`);
      const third = await begin(project);
      assert.equal(cacheOf(third).found, undefined);
      await third.exit(0);
    });

    test('takes from a runner only what it stored under its claim, and layers of the same project [promise: cache-branches]', async () => {
      const { project: theirs } = await projectWithCache();
      const foreign = await save(await begin(theirs), 10);
      const { project } = await projectWithCache();
      const isRefused = async (layers: (name: string, own: string) => CacheLayer[]): Promise<void> => {
        const task = await begin(project);
        const name = cacheOf(task).savesAs ?? '';
        const own = await stored(task, `own ${name}`);
        assert.deepEqual(await task.finish({ kind: 'exited', status: 0, cache: layers(name, own) }), { taken: true });
        assert.equal(await branches(project), '');
      };
      await isRefused((name) => [{ name, digest: foreign.digest, bytes: 10 }]);
      await isRefused((name, digest) => [foreign, { name, digest, bytes: 10 }]);
      await isRefused(() => [foreign]);
      await isRefused((name, digest) => [
        { name: '1', digest, bytes: 1 },
        { name, digest, bytes: 10 },
      ]);
      await isRefused(() => []);
      assert.equal(await branches(theirs), 'main 10');
    });

    test('is not written by a fork’s build, nor by one that did not pass [promise: cache-branches]', async () => {
      const { project } = await projectWithCache();
      const layer = await save(await begin(project), 10);
      await alice.requestBuild(project, 'refs/pull/1/head');
      const fetch = await runner.take('fetch_commit');
      await fetch.fetched({ sha: 'b'.repeat(40), branch: null, branches: [], tags: [], ref: null, trunk: 'kept' });
      const fork = await runner.take('run_suite');
      assert.deepEqual(cacheOf(fork), { paths: ['deps'], found: { branch: 'main', layers: [layer] }, mostBytes });
      const name = fork.order.work.environment['HEADRACE_BUILD_ID'] ?? '';
      assert.deepEqual(await store(fork, 'evil'), { gone: true });
      await fork.finish({ kind: 'exited', status: 0, cache: [layer, { ...layer, name }] });
      const failed = await begin(project);
      const evil = { name: cacheOf(failed).savesAs ?? '', digest: await stored(failed, 'failed'), bytes: 1 };
      await failed.finish({ kind: 'exited', status: 1, cache: [layer, evil] });
      assert.equal(await branches(project), 'main 10');
    });

    test('is written by a failed build where the suite says so, and never by one that was cancelled or a fork’s [promise: cache-branches]', async () => {
      const { project, suite } = await projectWithCache();
      const at = `/projects/${project.id}/suites/${suite.id}`;
      assert.equal((await alice.get(at)).record.cache_save, 'passed', 'unless somebody says otherwise');
      assertWrongFields(await alice.put(at, { cache_save: 'never' }), { cache_save: 'invalid_format' });
      assert.equal((await alice.put(at, { cache_save: 'always' })).record.cache_save, 'always');
      /** Ends a build as a runner does that saved a cache. */
      const end = async (task: Task<SuiteOrder>, status: number): Promise<CacheLayer> => {
        const { savesAs = '', savesFailed } = cacheOf(task);
        assert.equal(savesFailed, true);
        const layer = { name: savesAs, digest: await stored(task, randomBytes(10)), bytes: 10 };
        await task.finish({ kind: 'exited', status, cache: [layer] });
        return layer;
      };
      const layer = await end(await begin(project), 1);
      assert.equal(await branches(project), 'main 10');
      const cancelled = await begin(project);
      assert.deepEqual(cacheOf(cancelled).found, { branch: 'main', layers: [layer] });
      const { HEADRACE_BUILD_ID: build = '' } = cancelled.order.work.environment;
      await alice.post(`/projects/${project.id}/builds/${build}/cancel`);
      await end(cancelled, 1);
      const last = await begin(project);
      assert.deepEqual(cacheOf(last).found?.layers, [layer], 'what the cancelled one brought is not kept');
      await alice.put(at, { cache_save: 'passed' });
      await end(last, 1);
      const next = await begin(project);
      assert.deepEqual(cacheOf(next).found?.layers, [layer], 'the suite changed while it ran');
      await next.exit(0);
      await alice.put(at, { cache_save: 'always' });
      await trigger(service.store, project, 'd'.repeat(40), fromFork);
      const fetch = await runner.take('fetch_commit');
      await fetch.fetched({ sha: 'd'.repeat(40), branch: 'main', branches: ['main'], ref: 'refs/heads/main' });
      const fork = await runner.take('run_suite');
      assert.equal(cacheOf(fork).savesAs, undefined);
      assert.deepEqual(await store(fork, 'evil'), { gone: true });
      await fork.finish({ kind: 'exited', status: 1, cache: [{ ...layer, name: '1' }] });
      assert.equal(await branches(project), 'main 10');
    });

    test('is not written by a fork’s build of a commit that a branch has, too [promise: cache-branches]', async () => {
      const { project } = await projectWithCache();
      const layer = await save(await begin(project), 10);
      await trigger(service.store, project, 'c'.repeat(40), fromFork);
      const fetch = await runner.take('fetch_commit');
      await fetch.fetched({ sha: 'c'.repeat(40), branch: 'main', branches: ['main'], ref: 'refs/heads/main' });
      const fork = await runner.take('run_suite');
      assert.deepEqual(cacheOf(fork), { paths: ['deps'], found: { branch: 'main', layers: [layer] }, mostBytes });
      assert.deepEqual(await store(fork, 'evil'), { gone: true });
      await fork.finish({ kind: 'exited', status: 0, cache: [] });
      assert.equal(await branches(project), 'main 10');
    });

    test('is folded when it has several layers and rests, and not under a build', async () => {
      const { project } = await projectWithCache();
      const { db } = service.store;
      /** The rest is over. */
      const rested = () =>
        db.transaction((trx) =>
          trx.updateTable('jobs').set({ run_after: 0n }).where('kind', '=', 'fold_cache').execute(),
        );
      const folds = async (): Promise<number> =>
        (await db.read.selectFrom('jobs').select('id').where('kind', '=', 'fold_cache').execute()).length;
      const layers: CacheLayer[] = [];
      for (const bytes of [10, 20, 30]) layers.push(await save(await begin(project), bytes));
      assert.equal(await folds(), 0);
      layers.push(await save(await begin(project), 40));
      assert.equal(await folds(), 1);
      await rested();
      const task = await runner.take('fold_cache');
      const { work, claim } = task.order;
      const { savesAs: name } = work;
      assert.deepEqual(work, { kind: 'fold_cache', projectId: String(project.id), layers, savesAs: name, mostBytes });
      for (const { digest } of layers) await (await runner.dispatch.read(runner.self, digest))?.[Symbol.asyncDispose]();
      const content = (async function* pieces() {
        yield randomBytes(95);
      })();
      const answer = await runner.dispatch.store(runner.self, claim, content);
      assert.ok('digest' in answer);
      const whole = { name, digest: answer.digest, bytes: 95 };
      await task.finish({ kind: 'exited', status: 0, cache: [whole] });
      assert.equal(await branches(project), 'main 95');
      const next = await begin(project);
      assert.deepEqual(cacheOf(next).found, { branch: 'main', layers: [whole] });
      await save(next, 5);
      for (const bytes of [6, 7]) await save(await begin(project), bytes);
      await rested();
      // What it did not store is not taken from a runner, and what fails changes nothing.
      const second = await runner.take('fold_cache');
      const own = second.order.work.savesAs;
      await second.finish({ kind: 'exited', status: 0, cache: [{ name: own, digest: whole.digest, bytes: 1 }] });
      assert.equal(await branches(project), 'main 113');
      // A build that runs has begun with the layers: nobody is asked to fold them under it.
      await save(await begin(project), 8);
      const running = await begin(project);
      await rested();
      assert.equal(
        await runner.dispatch.next(runner.self, { claim: randomUUID(), holdMs: 0 }, AbortSignal.timeout(5000)),
        undefined,
      );
      assert.equal(await folds(), 0);
      await save(running, 9);
      assert.equal(await branches(project), 'main 130');
      await alice.delete(`/projects/${project.id}`);
    });

    test('keeps its blobs, and what it had is collected', async () => {
      const { project } = await projectWithCache();
      const collect = (): Promise<number> => collectBlobs(service.store.db, service.store.blobs, -1000);
      await collect();
      const lower = await save(await begin(project), 10);
      const upper = await save(await begin(project), 20);
      assert.equal(await collect(), 0);
      const asked = [lower, upper].map((layer) => ({ project: String(project.id), name: layer.name }));
      const [, second] = asked;
      assert.deepEqual(await runner.dispatch.stale(runner.self, { layers: asked }), []);
      assert.deepEqual(await runner.dispatch.stale(runner.self, { layers: [{ project: '1', name: upper.name }] }), [
        { project: '1', name: upper.name },
      ]);
      const task = await begin(project, 'other');
      await task.finish({ kind: 'exited', status: 0, cache: [lower] }); // a branch that goes on from one of its layers
      const [cache] = (await alice.get(`/projects/${project.id}/caches`)).list.filter(
        ({ branch }) => branch === 'main',
      );
      await alice.delete(`/projects/${project.id}/caches/${cache?.id}`);
      assert.equal(await collect(), 1);
      assert.deepEqual(await runner.dispatch.stale(runner.self, { layers: asked }), [second]);
      await alice.delete(`/projects/${project.id}`);
      assert.equal(await collect(), 1);
      assert.deepEqual(await runner.dispatch.stale(runner.self, { layers: asked }), asked);
    });
  },
  { cacheBytes: mostBytes },
);
