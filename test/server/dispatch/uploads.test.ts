import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { frameHead } from '../../../src/shared/domain/file-frames.ts';
import { forgetOldUploads, loseUploadsOf } from '../../../src/server/lifecycle/uploads.ts';
import type { Kept, Outcome, Receipt, SuiteOrder, UploadReport } from '../../../src/shared/protocol/index.ts';
import { assertDestroyed } from '../../support/expect.ts';
import { describeWithRunner, type ScriptedRunner, type Task } from '../../support/runner.ts';
import { runningBuild, type RunningBuild } from '../../support/running-build.ts';
import { fromFork, trigger } from '../../support/triggered.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

const day = 24 * 60 * 60 * 1000;

async function* filesOf(...paths: string[]): AsyncGenerator<Buffer> {
  for (const path of paths) yield* [frameHead('F', 4, path), Buffer.from('kept')];
}

/** What a runner may still bring of a build that is over. */
describeWithRunner(
  'a build whose files wait on its runner',
  (service, runner) => {
    let alice: User;
    let tab: Tab;
    before(async () => {
      alice = await service.user();
      tab = new Tab(service);
      await tab.signIn(alice.credentials);
    });
    const suite = { 'artifacts[]': 'dist', 'cache[]': 'deps' };
    const over = async (build: RunningBuild, outcome: Outcome = { kind: 'exited', status: 0 }): Promise<void> => {
      const report = { claim: build.task.order.claim, outcome, logSize: 0, uploads: true };
      assert.deepEqual(await runner.dispatch.finish(runner.self, report), { taken: true });
    };
    const waiting = async (): Promise<RunningBuild> => {
      const build = await runningBuild(alice, runner, suite);
      await over(build);
      return build;
    };
    const shown = async ({ path }: Pick<RunningBuild, 'path'>): Promise<unknown[]> => {
      const { build_state: state, uploads_pending: isPending, uploads_lost: lost } = (await alice.get(path)).record;
      return [state, isPending, lost];
    };
    const keep = ({ task }: RunningBuild, by: ScriptedRunner, ...paths: string[]): Promise<Kept> =>
      by.dispatch.storeFiles(by.self, task.order.claim, filesOf(...paths));
    const store = async ({ order }: Task<SuiteOrder>, text: string, by = runner): Promise<string | undefined> => {
      const content = (async function* one() {
        yield Buffer.from(text);
      })();
      const stored = await by.dispatch.store(by.self, order.claim, content);
      return 'digest' in stored ? stored.digest : undefined;
    };
    const end = ({ task }: RunningBuild, report: Omit<UploadReport, 'claim'> = {}, by = runner): Promise<Receipt> =>
      by.dispatch.uploaded(by.self, { claim: task.order.claim, ...report });
    const pathsOf = async ({ path }: RunningBuild): Promise<string[]> =>
      (await alice.get(`${path}/artifacts`)).list.map(({ path: name }) => String(name)).toSorted();
    const cachesOf = async ({ project }: RunningBuild): Promise<number[]> =>
      (await alice.get(`/projects/${project.id}/caches`)).list.map(({ size }) => Number(size));

    test('is over at once, and says that they wait until they are there', async () => {
      const build = await runningBuild(alice, runner, suite);
      await keep(build, runner, 'dist/before');
      assert.deepEqual(await shown(build), ['running', false, '']);
      await over(build);
      assert.deepEqual(await shown(build), ['passed', true, '']);
      assert.match((await tab.get(`/ui${build.path}`)).text, /wait on its runner.*They follow when it can/s);
      assert.deepEqual(await keep(build, runner, 'dist/before', 'dist/after'), { kept: true });
      const digest = (await store(build.task, 'a cache')) ?? assert.fail();
      assert.deepEqual(await end(build, { cache: { digest } }), { taken: true });
      assert.deepEqual(await shown(build), ['passed', false, '']);
      assert.doesNotMatch((await tab.get(`/ui${build.path}`)).text, /wait on its runner/);
      assert.deepEqual(await pathsOf(build), ['dist/after', 'dist/before']);
      assert.deepEqual(await cachesOf(build), [7]);
      // The right is over with it.
      assert.deepEqual(await end(build), { gone: true });
      assert.deepEqual(await keep(build, runner, 'dist/more'), { gone: true });
      assert.equal(await store(build.task, 'another'), undefined);
    });

    test('takes nothing from another runner, and no more than the build may leave [promise: late-uploads]', async () => {
      const build = await waiting();
      const other = runner.beside('other');
      assert.deepEqual(await keep(build, other, 'dist/theirs'), { gone: true });
      assert.equal(await store(build.task, 'theirs', other), undefined);
      assert.deepEqual(await end(build, { lost: 'too_late' }, other), { gone: true });
      const { claim } = build.task.order;
      assert.deepEqual(await runner.dispatch.log(runner.self, { claim, offset: 0, bytes: Buffer.from('x') }), {
        gone: true,
      });
      assert.equal(await runner.dispatch.access(runner.self, { claim }), undefined);
      assert.deepEqual(
        await runner.dispatch.finish(runner.self, { claim, outcome: { kind: 'timed_out' }, logSize: 0 }),
        {
          gone: true,
        },
      );
      assert.deepEqual(await keep(build, runner, 'a', 'b', 'c', 'd'), { refused: 'too_large' });
      // A cache that was not stored under the claim is another's.
      await store(build.task, 'own');
      assert.deepEqual(await end(build, { cache: { digest: 'a'.repeat(64) } }), { taken: true });
      assert.deepEqual([await shown(build), await cachesOf(build)], [['passed', false, ''], []]);
    });

    test('stores no cache of a fork', async () => {
      const project = await alice.createProject();
      await alice.createSuite(project, suite);
      await trigger(service.store, project, 'c'.repeat(40), fromFork);
      await (await runner.take('fetch_commit')).fetched({ sha: 'c'.repeat(40) });
      const task = await runner.take('run_suite');
      const id = task.order.work.environment.HEADRACE_BUILD_ID;
      const build = { project, task, path: `/projects/${project.id}/builds/${id}` } as RunningBuild;
      await over(build);
      assert.equal(await store(task, 'a cache'), undefined);
      assert.deepEqual(await end(build, { cache: { digest: 'b'.repeat(64) } }), { taken: true });
      assert.deepEqual(await cachesOf(build), []);
    });

    test('stores no cache of a build that failed', async () => {
      const build = await runningBuild(alice, runner, suite);
      await over(build, { kind: 'exited', status: 1 });
      const digest = (await store(build.task, 'failed')) ?? '';
      assert.deepEqual(await end(build, { cache: { digest } }), { taken: true });
      assert.deepEqual([await shown(build), await cachesOf(build)], [['failed', false, ''], []]);
    });

    test('keeps the cache that a newer build has saved meanwhile', async () => {
      const build = await waiting();
      const older = (await store(build.task, 'the older one')) ?? '';
      await alice.post(`${build.path}/restart`);
      const task = await runner.take('run_suite');
      const digest = (await store(task, 'newer')) ?? '';
      await task.finish({ kind: 'exited', status: 0, cache: { digest } });
      assert.deepEqual(await end(build, { cache: { digest: older } }), { taken: true });
      assert.deepEqual(await cachesOf(build), [5]);
    });

    test('says why they are lost: given up, the runner revoked or away for too long', async () => {
      const { db } = service.store;
      const full = await waiting();
      assert.deepEqual(await end(full, { lost: 'no_room' }), { taken: true });
      assert.deepEqual(await shown(full), ['passed', false, 'no_room']);
      assert.match((await tab.get(`/ui${full.path}`)).text, /are lost: the runner needed the disk space/);

      const revoked = await waiting();
      await db.transaction((trx) => loseUploadsOf(db, trx, runner.self.holder));
      assert.deepEqual(await shown(revoked), ['passed', false, 'runner_gone']);
      assert.deepEqual(await keep(revoked, runner, 'dist/late'), { gone: true });

      const old = await waiting();
      await forgetOldUploads(db, Date.now() + 7 * day);
      assert.deepEqual(await shown(old), ['passed', true, '']);
      await forgetOldUploads(db, Date.now() + 9 * day);
      assert.deepEqual(await shown(old), ['passed', false, 'runner_gone']);
    });

    test('waits for nothing where it was cancelled or deleted, nor before it is over', async () => {
      const cancelled = await runningBuild(alice, runner, suite);
      await assert.rejects(end(cancelled), /not over yet/);
      await over(cancelled, { kind: 'cancelled' });
      assert.deepEqual(await shown(cancelled), ['cancelled', false, '']);
      assert.deepEqual(await end(cancelled), { gone: true });
      const deleted = await waiting();
      assertDestroyed(await alice.delete(`/projects/${deleted.project.id}`));
      assert.deepEqual(await keep(deleted, runner, 'dist/late'), { gone: true });
      assert.deepEqual(await end(deleted), { gone: true });
    });
  },
  { artifacts: { mostFiles: 3, mostBytes: 1024 ** 2 } },
);
