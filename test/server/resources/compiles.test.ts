import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { packLog } from '../../../src/server/streams/pack-log.ts';
import type { Record_ } from '../../support/client.ts';
import { assertDestroyed, assertNotFound, assertRefused } from '../../support/expect.ts';
import { compiled, compiling, compilingAgain } from '../../support/compiling.ts';
import { Listener, logOf, statesOf } from '../../support/firehose.ts';
import { describeWithRunner } from '../../support/runner.ts';
import { archiveOf } from '../../support/software.ts';
import type { User } from '../../support/user.ts';

const unavailable = { generic: ['resource_temporary_unavailable'] };

describeWithRunner('a compile', (service, runner) => {
  let alice: User;
  before(async () => {
    alice = await service.user();
  });

  const stateOf = async (path: string): Promise<unknown> => (await alice.get(path)).record.marketplace_state;

  test('is followed live, to its result', async () => {
    const dependency = await alice.createDependency({ source: 'src' });
    const path = `/dependencies/${dependency.id}`;
    const listener = await Listener.open(alice, `${path}/firehose`);
    assert.deepEqual(await listener.next(), { event: 'state', data: { state: 'waiting_archive_upload' } });
    const { task } = await compilingAgain(alice, runner, dependency);
    const { command, prefix, source } = task.order.work;
    assert.deepEqual([command, prefix, source], [dependency.command, '/srv/dependency', 'src']);
    await task.writeLog('cc -c a.c\n');
    assert.equal(await stateOf(path), 'compiling');
    await compiled(runner, task);
    const told = await listener.rest();
    assert.deepEqual(statesOf(told), ['enqueued_for_compile', 'compiling', 'compiled']);
    assert.equal(logOf(told), 'cc -c a.c\n');
    assert.equal((await alice.get(`${path}/log.txt`)).text, 'cc -c a.c\n');
    const log = (await alice.get(`${path}/log?offset=3&limit=2`)).response;
    assert.deepEqual(log, { offset: 3, next_offset: 5, size: 10, complete: true, text: '-c' });
    assertNotFound(await (await service.user()).get(`${path}/log`));
  });

  test('that fails leaves the last result in service, and says why in a log of its own', async () => {
    const { task, dependency, path } = await compiling(alice, runner);
    await task.writeLog('first\n');
    const result = await compiled(runner, task, 'one');
    const project = await alice.createProject();
    const suite = await alice.createSuite(project);
    await alice.post(`/projects/${project.id}/suites/${suite.id}/dependencies`, { dependency_id: dependency.id });
    const moved = { prefix: '/opt/moved', command: 'make PREFIX=/opt/moved' };
    assert.equal((await alice.put(path, moved)).status, 200);
    const again = await compilingAgain(alice, runner, dependency);
    await again.task.writeLog('second\n');
    await again.task.finish({ kind: 'uncompilable' });
    assert.equal(await stateOf(path), 'compile_failed');
    assert.equal((await alice.get(`${path}/log.txt`)).text, 'second\n');

    await alice.requestBuild(project);
    await (await runner.take('fetch_commit')).fetched();
    const build = await runner.take('run_suite');
    assert.deepEqual(build.order.work.software, [{ digest: result, prefix: '/srv/dependency' }]);
    await build.exit(0);
    const third = await compilingAgain(alice, runner, dependency);
    const newer = await compiled(runner, third.task, 'two');
    await alice.requestBuild(project, build.order.work.sha);
    const rebuild = await runner.take('run_suite');
    assert.deepEqual(rebuild.order.work.software, [{ digest: newer, prefix: '/opt/moved' }]);
    await rebuild.exit(0);
  });

  test('begins a log of its own, also while the last one is being packed', async () => {
    const { task, dependency, path } = await compiling(alice, runner);
    await task.writeLog('old\n');
    await task.finish({ kind: 'uncompilable' });
    const { db, blobs } = service.store;
    let next: Awaited<ReturnType<typeof compilingAgain>> | undefined;
    const slowly: typeof blobs = {
      ...blobs,
      async put(content) {
        const stored = await blobs.put(content);
        next = await compilingAgain(alice, runner, dependency);
        await next.task.writeLog('new\n');
        return stored;
      },
    };
    await packLog(db, slowly, dependency.id);
    assert.equal((await alice.get(`${path}/log.txt`)).text, 'new\n');
    await next?.task.finish({ kind: 'uncompilable' });
    await packLog(db, blobs, dependency.id);
    assert.equal((await alice.get(`${path}/log.txt`)).text, 'new\n');
  });

  test('that was lost goes on in the same record, and its log says so', async () => {
    const { task, path } = await compiling(alice, runner);
    await task.writeLog('half');
    assert.deepEqual(await task.finish({ kind: 'lost', message: 'power' }), { taken: true });
    assert.equal(await stateOf(path), 'compiling');
    const next = await runner.take('compile_dependency');
    await next.writeLog('whole\n');
    assert.match((await alice.get(`${path}/log.txt`)).text, /^half\nThe runner was lost\..*attempt 2 of 3.*\nwhole\n$/);
    await next.finish({ kind: 'lost', message: 'power' });
    await (await runner.take('compile_dependency')).finish({ kind: 'lost', message: 'power' });
    assert.equal(await stateOf(path), 'compile_failed');
    assert.match((await alice.get(`${path}/log.txt`)).text, /The compile has failed\.\n$/);
    assert.deepEqual((await alice.get(`${path}/log`)).record.complete, true);
    await runner.assertIdle();
  });

  test('of what was shared stays shared, and can be taken back meanwhile', async () => {
    const bob = await service.user();
    const { task, dependency, path } = await compiling(alice, runner, { name: 'shared one' });
    assertRefused(await alice.post(`${path}/share`), 403, unavailable);
    await compiled(runner, task);
    assert.equal((await alice.post(`${path}/share`)).record.marketplace_state, 'shared');
    const offered = async (): Promise<unknown[]> =>
      (await bob.get('/marketplace?name=shared+one')).list.map(({ marketplace_state: state }) => state);
    const again = await compilingAgain(alice, runner, dependency);
    assert.deepEqual(await offered(), ['compiling']);
    await compiled(runner, again.task, 'newer');
    assert.deepEqual(await offered(), ['shared']);
    const third = await compilingAgain(alice, runner, dependency);
    assert.equal((await alice.post(`${path}/unshare`)).record.marketplace_state, 'compiling');
    assert.deepEqual(await offered(), []);
    await compiled(runner, third.task, 'newest');
    assert.equal(await stateOf(path), 'compiled');
  });

  test('has what it is compiled against, and what that was compiled against', async () => {
    const made: { id: bigint; digest: string }[] = [];
    for (const name of ['libc', 'libssl', 'ruby']) {
      const prefix = `/opt/${name}`;
      const related = made.length > 0 ? { 'related_dependencies[]': String(made.at(-1)?.id) } : {};
      const fields = { prefix, command: `make PREFIX=${prefix}`, ...related };
      const { task, dependency } = await compiling(alice, runner, fields);
      const below = made.map(({ digest }, at) => ({ digest, prefix: ['/opt/libc', '/opt/libssl'][at] }));
      assert.deepEqual(task.order.work.software, below);
      made.push({ id: dependency.id, digest: await compiled(runner, task, name) });
    }
    const project = await alice.createProject();
    const suite = await alice.createSuite(project);
    const attached = `/projects/${project.id}/suites/${suite.id}/dependencies`;
    await alice.post(attached, { dependency_id: String(made[2]?.id) });
    await alice.requestBuild(project);
    await (await runner.take('fetch_commit')).fetched();
    const build = await runner.take('run_suite');
    assert.deepEqual(
      build.order.work.software.map(({ digest }) => digest),
      made.map(({ digest }) => digest),
    );
    assert.deepEqual(build.order.work.prefixes, ['/opt/ruby', '/opt/libc', '/opt/libssl']);
    await build.exit(0);
  });

  test('against something that is not compiled fails with its name', async () => {
    const missing = await alice.createDependency({ name: 'never uploaded' });
    const dependency = await alice.createDependency({ 'related_dependencies[]': String(missing.id) });
    await alice.upload(dependency, await archiveOf({ x: '' }));
    await runner.assertIdle();
    const path = `/dependencies/${dependency.id}`;
    assert.equal(await stateOf(path), 'compile_failed');
    assert.match((await alice.get(`${path}/log.txt`)).text, /never uploaded/);
  });

  test('waits for what it is compiled against, and says so', async () => {
    const base = await compiling(alice, runner, { name: 'base', prefix: '/opt/base', command: 'make P=/opt/base' });
    const middle = await alice.createDependency({
      name: 'middle',
      'related_dependencies[]': String(base.dependency.id),
    });
    const top = await alice.createDependency({ name: 'top', 'related_dependencies[]': String(middle.id) });
    for (const one of [top, middle]) await alice.upload(one, await archiveOf({ x: '' }));
    await runner.assertIdle();
    for (const { id } of [top, middle]) assert.equal(await stateOf(`/dependencies/${id}`), 'enqueued_for_compile');
    const log = async ({ id }: Record_): Promise<string> => (await alice.get(`/dependencies/${id}/log.txt`)).text;
    assert.equal(await log(middle), 'Waiting for the compile of the dependency base.\n');
    assert.equal(await log(top), 'Waiting for the compile of the dependencies base, middle.\n');

    // However long that takes: neither is a try lost, nor is it said again.
    for (let look = 0; look < 5; look += 1) {
      await service.store.db.transaction((trx) => trx.updateTable('jobs').set({ run_after: 0n }).execute());
      await runner.assertIdle();
    }
    const digest = await compiled(runner, base.task, 'base');
    const second = await runner.take('compile_dependency');
    assert.deepEqual(second.order.work.software, [{ digest, prefix: '/opt/base' }]);
    await second.finish({ kind: 'lost', message: 'power' });
    const again = await runner.take('compile_dependency');
    await runner.assertIdle();
    const middles = await compiled(runner, again, 'middle');
    assert.match(await log(middle), /^Waiting for .*\n.*attempt 2 of 3.*\n$/);
    const third = await runner.take('compile_dependency');
    const below = third.order.work.software.map((one) => one.digest);
    assert.deepEqual(below, [digest, middles]);
    await compiled(runner, third, 'top');

    // What is compiled anew is waited for too; what failed is used as it was before.
    const anew = await compilingAgain(alice, runner, base.dependency);
    assert.equal((await alice.post(`/dependencies/${top.id}/compile`)).status, 200);
    await runner.assertIdle();
    await anew.task.finish({ kind: 'uncompilable' });
    const last = await runner.take('compile_dependency');
    assert.deepEqual(
      last.order.work.software.map((one) => one.digest),
      below,
    );
    await compiled(runner, last, 'top');
  });

  test('is not waited for by two that were made to wait for each other', async () => {
    const [one, two] = [await alice.createDependency(), await alice.createDependency()];
    const { db, ids } = service.store;
    const circle = [
      { id: ids.next(), dependency_id: one.id, related_id: two.id },
      { id: ids.next(), dependency_id: two.id, related_id: one.id },
    ];
    await db.transaction((trx) => trx.insertInto('dependency_relations').values(circle).execute());
    for (const dependency of [one, two]) await alice.upload(dependency, await archiveOf({ x: '' }));
    await runner.assertIdle();
    for (const { id } of [one, two]) assert.equal(await stateOf(`/dependencies/${id}`), 'compile_failed');
  });

  test('is done again with what was uploaded, as it is described now', async () => {
    const { dependency, path, task } = await compiling(alice, runner);
    const { archive } = task.order.work;
    assertRefused(await alice.post(`${path}/compile`), 403, unavailable);
    await task.writeLog('old\n');
    await task.finish({ kind: 'uncompilable' });
    const moved = { prefix: '/opt/moved', command: 'make PREFIX=/opt/moved' };
    await alice.put(path, moved);
    const answer = await alice.post(`${path}/compile`);
    assert.equal(answer.status, 200, answer.text);
    const { waiting_reason: _, ...shown } = (await alice.get(path)).record; // nobody takes it at the moment
    assert.deepEqual(answer.record, shown);
    assert.equal(answer.record.marketplace_state, 'enqueued_for_compile');
    assertRefused(await alice.post(`${path}/compile`), 403, unavailable);
    const again = await runner.take('compile_dependency');
    assert.deepEqual(again.order.work.archive, archive);
    assert.deepEqual([again.order.work.prefix, again.order.work.command], [moved.prefix, moved.command]);
    assert.equal((await alice.get(`${path}/log.txt`)).text, '');
    await compiled(runner, again);
    assert.equal((await alice.post(`${path}/share`)).status, 200);
    assert.equal((await alice.post(`${path}/compile`)).status, 200);
    await compiled(runner, await runner.take('compile_dependency'), 'newer');
    assert.equal(await stateOf(path), 'shared');

    const empty = await alice.createDependency();
    assertRefused(await alice.post(`/dependencies/${empty.id}/compile`), 403, unavailable);
    assertNotFound(await (await service.user()).post(`/dependencies/${dependency.id}/compile`));
  });

  test('under way holds up a suite that cannot do without it', async () => {
    const { dependency, task } = await compiling(alice, runner, { name: 'slow' });
    const project = await alice.createProject();
    const suite = await alice.createSuite(project);
    await alice.post(`/projects/${project.id}/suites/${suite.id}/dependencies`, { dependency_id: dependency.id });
    await alice.requestBuild(project);
    await (await runner.take('fetch_commit')).fetched();
    await runner.assertIdle();
    const [commit] = (await alice.get(`/projects/${project.id}/commits`)).list;
    const builds = async (): Promise<Record_[]> =>
      (await alice.get(`/projects/${project.id}/commits/${commit?.id}/builds`)).list;
    const [waiting] = await builds();
    assert.equal(waiting?.build_state, 'enqueued');
    const { text } = await alice.get(`/projects/${project.id}/builds/${waiting.id}/log.txt`);
    assert.equal(text, 'Waiting for the compile of the dependency slow.\n');
    const digest = await compiled(runner, task, 'slow');
    const build = await runner.take('run_suite');
    assert.deepEqual(build.order.work.software, [{ digest, prefix: '/srv/dependency' }]);
    await build.exit(0);
    assert.deepEqual(
      (await builds()).map(({ build_state: state, attempt }) => [state, attempt]),
      [['passed', 1]],
    );
  });

  test('that never was makes a suite that needs it end in words', async () => {
    const project = await alice.createProject();
    const suite = await alice.createSuite(project);
    const { id } = await alice.createDependency({ name: 'not there' });
    await alice.post(`/projects/${project.id}/suites/${suite.id}/dependencies`, { dependency_id: id });
    await alice.requestBuild(project);
    await (await runner.take('fetch_commit')).fetched();
    await runner.assertIdle();
    const [commit] = (await alice.get(`/projects/${project.id}/commits`)).list;
    const [build] = (await alice.get(`/projects/${project.id}/commits/${commit?.id}/builds`)).list;
    assert.deepEqual([build?.build_state, build?.failure_reason], ['errored', 'dependency_not_compiled']);
    assert.match((await alice.get(`/projects/${project.id}/builds/${build?.id}/log.txt`)).text, /not there/);
  });

  test('ends with the dependency when that is deleted', async () => {
    const { task, path } = await compiling(alice, runner);
    const listener = await Listener.open(alice, `${path}/firehose`);
    await listener.next();
    assertDestroyed(await alice.delete(path));
    assert.deepEqual(await task.finish({ kind: 'uncompilable' }), { gone: true });
    assert.equal((await listener.rest()).at(-1)?.event, 'end');
    assertNotFound(await alice.get(`${path}/log`));
  });

  test('is an event of every project that it concerns', async () => {
    const [owner, user, other] = [await service.user(), await service.user(), await service.user()];
    const [own, foreign] = [await owner.createProject(), await user.createProject()];
    const unconcerned = await other.createProject();
    const { task, dependency, path } = await compiling(owner, runner);
    await compiled(runner, task);
    await owner.post(`${path}/share`);
    const suite = await user.createSuite(foreign);
    await user.post(`/projects/${foreign.id}/suites/${suite.id}/dependencies`, { dependency_id: dependency.id });
    await (await compilingAgain(owner, runner, dependency)).task.finish({ kind: 'uncompilable' });
    const told = async (person: User, { id }: { id: bigint }): Promise<unknown[]> => {
      const { last_event: last } = await service.store.db.read
        .selectFrom('projects')
        .select('last_event')
        .where('id', '=', id)
        .executeTakeFirstOrThrow();
      if (last === 0n) return [];
      const listener = await Listener.open(person, `/projects/${id}/firehose?offset=0`);
      const all = await listener.until((event) => event.id === String(last));
      listener.leave();
      for (const { data } of all) assert.deepEqual([data.type, data.id_str], ['dependency', dependency.id_ref]);
      return statesOf(all);
    };
    const second = ['enqueued_for_compile', 'compiling', 'compile_failed'];
    const first = ['waiting_archive_upload', 'enqueued_for_compile', 'compiling', 'compiled', 'shared'];
    assert.deepEqual(await told(owner, own), [...first, ...second]);
    assert.deepEqual(await told(user, foreign), second);
    assert.deepEqual(await told(other, unconcerned), []);
  });
});
