import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { before, test } from 'node:test';
import { collectBlobs, removeDoomedBlobs } from '../../../src/server/software/collect.ts';
import type { Receipt, StepPoint, SuiteOrder } from '../../../src/shared/protocol/index.ts';
import { describeWithRunner, type ScriptedRunner, type Task } from '../../support/runner.ts';
import { runningBuild, type RunningBuild } from '../../support/running-build.ts';
import type { User } from '../../support/user.ts';

const most = 300_000;
const steps = { command: '', resume: 'true' } as Record<string, string>;
for (const [at, name] of ['make', 'test', 'pack'].entries())
  Object.assign(steps, { [`steps[${at}][name]`]: name, [`steps[${at}][command]`]: 'true' });

/** What the server makes of the points of builds, whatever runners say about them. */
describeWithRunner(
  'points at which builds go on',
  (service, runner) => {
    let alice: User;
    before(async () => {
      alice = await service.user();
    });
    const rows = () => service.store.db.read.selectFrom('step_points').selectAll().orderBy('id').execute();
    const blobs = async (): Promise<string[]> => {
      await removeDoomedBlobs(service.store.db, service.store.blobs, -1000);
      const found: string[] = [];
      for await (const { digest } of service.store.blobs.list()) found.push(digest);
      return found;
    };
    const stored = async ({ order }: Task, content = randomBytes(1000), by: ScriptedRunner = runner) => {
      async function* once(): AsyncGenerator<Buffer> {
        yield content;
      }
      const answer = await by.dispatch.store(by.self, order.claim, once());
      return 'digest' in answer ? answer.digest : JSON.stringify(answer);
    };
    const point = (
      { order }: Task,
      digest: string,
      more: Partial<StepPoint> = {},
      by: ScriptedRunner = runner,
    ): Promise<Receipt> => {
      const done = [{ name: 'make', state: 'passed', from: 10, to: 30, status: 0 } as const];
      return by.dispatch.stepPoint(by.self, {
        claim: order.claim,
        digest,
        step: 'test',
        done,
        facts: 'top secret',
        ...more,
      });
    };
    const lose = (): Promise<void> => runner.dispatch.holderGone(runner.self.holder);
    const next = (): Promise<Task<SuiteOrder>> => runner.take('run_suite');
    const log = async ({ project }: RunningBuild, task: Task<SuiteOrder>): Promise<string> =>
      (await alice.get(`/projects/${project.id}/builds/${task.order.work.environment.HEADRACE_BUILD_ID}/log.txt`)).text;
    const [taken, gone] = [{ taken: true }, { gone: true }];

    test('the next attempt goes on at the last one, and nothing is left of them after the end', async () => {
      const build = await runningBuild(alice, runner, steps);
      assert.deepEqual(build.task.order.work.resume, { mostBytes: most });
      const first = await stored(build.task);
      assert.deepEqual(await point(build.task, first), taken);
      assert.deepEqual(await point(build.task, first), taken, 'a repetition changes nothing');
      const [row, ...more] = await rows();
      assert.deepEqual(more, []);
      assert.doesNotMatch(JSON.stringify(Object.values(row ?? {}).map(String)), /secret|passed/);
      // A step that wrote nothing: the same files count for a later step.
      assert.deepEqual(await point(build.task, first, { step: 'pack' }), taken);
      const second = await stored(build.task);
      assert.deepEqual(await point(build.task, second, { step: 'pack' }), taken);
      assert.deepEqual(await blobs(), [second], 'the last one alone is stored');
      const [last] = await rows();
      assert.notEqual(last?.tree, row?.tree, 'runners must not take one for the other');
      await lose();

      const again = await next();
      const { from } = again.order.work;
      assert.ok(from?.point);
      assert.deepEqual([from.step, from.build], ['pack', String(build.id)]);
      assert.deepEqual(from.point.files, { name: String(last?.tree), digest: second, bytes: 1000 });
      assert.deepEqual([from.point.facts, from.point.done.length], ['top secret', 1]);
      {
        await using blob = await runner.dispatch.read(runner.self, second);
        assert.ok(blob, 'it may have the blob');
      }
      // It is lost before a step of its own is done.
      await lose();
      const third = await next();
      assert.equal(third.order.work.from?.build, String(build.id));
      const own = await stored(third);
      assert.deepEqual(await point(third, own), taken);
      assert.equal((await rows()).length, 1, 'its own replaces the one at which it began');
      await third.exit(1);
      assert.deepEqual([await rows(), await blobs()], [[], []]);
    });

    test('without one, the next attempt begins at its first step and says so', async () => {
      const build = await runningBuild(alice, runner, steps);
      await stored(build.task); // the runner is lost before it says what this is
      await lose();
      const again = await next();
      assert.equal(again.order.work.from, undefined);
      assert.match(
        await log(build, again),
        /^This starts at the first step: the attempt whose runner was lost left no/,
      );
      assert.deepEqual(await blobs(), []);
      await again.exit(0);
    });

    test('a runner that lost its claim, or never had it, changes nothing', async () => {
      const build = await runningBuild(alice, runner, steps);
      const first = await stored(build.task);
      assert.deepEqual(await point(build.task, first), taken);
      const other = runner.beside('other');
      assert.deepEqual(await point(build.task, first, { step: 'pack' }, other), gone);
      assert.equal(await stored(build.task, randomBytes(10), other), '{"gone":true}');
      assert.deepEqual(await point({ order: { claim: randomUUID() } } as Task, first), gone);
      const late = await stored(build.task);
      await lose();
      const again = await next();
      const before_ = await rows();
      assert.deepEqual(await point(build.task, late, { step: 'pack' }), gone);
      assert.equal(await stored(build.task), '{"gone":true}');
      assert.deepEqual(await rows(), before_);
      assert.deepEqual(await blobs(), [first]);
      assert.deepEqual(
        await runner.dispatch.finish(runner.self, {
          claim: build.task.order.claim,
          outcome: { kind: 'exited', status: 0 },
          logSize: 0,
        }),
        gone,
      );
      await again.exit(0);
      assert.deepEqual(await point(again, first), gone, 'the build is over');
      assert.deepEqual([await rows(), await blobs()], [[], []]);
    });

    test('a runner cannot name the blob of another build, nor give points to a suite that has none', async () => {
      const theirs = await runningBuild(await service.user(), runner, steps);
      const digest = await stored(theirs.task);
      assert.deepEqual(await point(theirs.task, digest), taken);
      const build = await runningBuild(alice, runner, steps);
      assert.deepEqual(await point(build.task, digest), gone);
      assert.deepEqual(await point(build.task, 'e'.repeat(64)), gone);
      assert.equal((await rows()).length, 1);
      const { resume: _, ...plain } = steps;
      const other = await runningBuild(alice, runner, plain);
      assert.equal(other.task.order.work.resume, undefined);
      assert.equal(await stored(other.task), '{"gone":true}');
      assert.deepEqual(await point(other.task, digest), gone);
      const single = await runningBuild(alice, runner, { resume: 'true' });
      assert.equal(single.task.order.work.resume, undefined, 'one step is no point to go on from');
      for (const { task } of [theirs, build, other, single]) await task.exit(0);
    });

    test('is bounded in its size, and in how much one build leaves behind', async () => {
      const build = await runningBuild(alice, runner, steps);
      assert.equal(await stored(build.task, randomBytes(most + 1)), '{"refused":"too_large"}');
      for (let at = 0; at < 16; at += 1) {
        const digest = await stored(build.task, randomBytes(most)).catch((error: Error) => error.message);
        if (!/^[0-9a-f]{64}$/.test(digest)) break;
        assert.deepEqual(await point(build.task, digest), taken);
      }
      const { sum } = await service.store.db.read
        .selectFrom('doomed_blobs')
        .select((of) => of.fn.sum('bytes').as('sum'))
        .executeTakeFirstOrThrow();
      assert.ok(Number(sum) <= 16 * 2 * most, String(sum));
      assert.equal((await rows()).length, 1);
      await build.task.exit(0);
      assert.deepEqual(await blobs(), []);
    });

    test('what is cancelled, or whose suite or project goes away, leaves none', async () => {
      const build = await runningBuild(alice, runner, steps);
      assert.deepEqual(await point(build.task, await stored(build.task)), taken);
      await lose(); // the next attempt waits
      assert.equal((await rows()).length, 1);
      await alice.post(`/projects/${build.project.id}/build_requests/${build.request.id}/cancel`);
      assert.deepEqual(await rows(), []);

      const running = await runningBuild(alice, runner, steps);
      assert.deepEqual(await point(running.task, await stored(running.task)), taken);
      await alice.post(`/projects/${running.project.id}/build_requests/${running.request.id}/cancel`);
      assert.deepEqual(await point(running.task, await stored(running.task)), gone);
      await running.task.finish({ kind: 'cancelled' });
      await collectBlobs(service.store.db, service.store.blobs, -1000); // what it stored and did not name
      assert.deepEqual([await rows(), await blobs()], [[], []]);

      const deleted = await runningBuild(alice, runner, steps);
      assert.deepEqual(await point(deleted.task, await stored(deleted.task)), taken);
      const [suite] = (await alice.get(`/projects/${deleted.project.id}/suites`)).list;
      await alice.delete(`/projects/${deleted.project.id}/suites/${suite?.id}`);
      await lose();
      assert.deepEqual([await rows(), await blobs()], [[], []], 'suite');

      const last = await runningBuild(alice, runner, steps);
      assert.deepEqual(await point(last.task, await stored(last.task)), taken);
      await alice.delete(`/projects/${last.project.id}`);
      await collectBlobs(service.store.db, service.store.blobs, -1000);
      assert.deepEqual([await rows(), await blobs()], [[], []]);
    });

    test('after three lost runners the build ends, and its points with it', async () => {
      const build = await runningBuild(alice, runner, steps);
      assert.deepEqual(await point(build.task, await stored(build.task)), taken);
      await lose();
      for (const at of [2, 3]) {
        const task = await next();
        assert.equal(task.order.work.environment.HEADRACE_ATTEMPT, String(at));
        assert.equal(task.order.work.from?.step, 'test');
        await lose();
      }
      await runner.assertIdle();
      assert.deepEqual([await rows(), await blobs()], [[], []]);
    });

    test('the cache of a build that goes on is stored as ever', async () => {
      const build = await runningBuild(alice, runner, { ...steps, 'cache[]': 'deps' });
      assert.deepEqual(await point(build.task, await stored(build.task)), taken);
      const cache = await stored(build.task);
      await build.task.exit(0, { outcome: { kind: 'exited', status: 0, cache: { digest: cache } } });
      assert.equal((await alice.get(`/projects/${build.project.id}/caches`)).list.length, 1);
      assert.deepEqual(await blobs(), [cache]);
    });
  },
  { unpackedBytes: most, cacheBytes: most },
);
