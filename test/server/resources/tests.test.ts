import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { most } from '../../../src/shared/domain/bounds.ts';
import { readCall } from '../../../src/server/dispatch/read-message.ts';
import { forgetOldTests } from '../../../src/server/results/test-results.ts';
import type { SuiteOrder, TestReceipt, TestReport } from '../../../src/shared/protocol/index.ts';
import { aCommit, describeWithRunner, type Task } from '../../support/runner.ts';
import { runningBuild } from '../../support/running-build.ts';
import type { Record_ } from '../../support/client.ts';
import type { User } from '../../support/user.ts';

const one = (name: string, change: Partial<TestReport> = {}): TestReport => ({
  name,
  class: 'cart',
  suite: 'unit',
  file: 'cart.test.js',
  state: 'passed',
  durationMs: 5,
  message: '',
  ...change,
});
const failed = (name: string, message = 'wrong'): TestReport => one(name, { state: 'failed', message });
const many = (count: number, from = 0): TestReport[] =>
  Array.from({ length: count }, (_, at) =>
    one(`test ${from + at}`, { state: (from + at) % 400 === 7 ? 'failed' : 'passed', durationMs: from + at }),
  );

const taken = { taken: true };

describeWithRunner('the tests of a build', (service, runner) => {
  let alice: User;
  let bob: User;
  before(async () => {
    alice = await service.user();
    bob = await service.user();
  });

  const send = (task: Task<SuiteOrder>, start: number, tests: TestReport[], isLast = false): Promise<TestReceipt> =>
    runner.dispatch.tests(runner.self, { claim: task.order.claim, start, tests, isLast });
  const names = async (path: string): Promise<unknown[]> => (await alice.get(path)).list.map(({ name }) => name);

  /** One more attempt at the suite of a build. */
  const again = async (path: string): Promise<{ path: string; task: Task<SuiteOrder> }> => {
    const { record } = await alice.post(`${path}/restart`);
    const next = path.replace(/\d+$/, record.id_str);
    return { path: next, task: await runner.take('run_suite') };
  };

  /** Another commit of a project, with its build. */
  const anotherCommit = async (project: Record_, sha: string): Promise<{ path: string; task: Task<SuiteOrder> }> => {
    await alice.requestBuild(project);
    await (await runner.take('fetch_commit')).fetched({ ...aCommit, sha: sha.repeat(40) });
    const task = await runner.take('run_suite');
    return { path: `/projects/${project.id}/builds/${task.order.work.environment.HEADRACE_BUILD_ID}`, task };
  };

  test('are counted and listed when the last one has come', async () => {
    const { path, task } = await runningBuild(alice, runner);
    const skipped = one('later', { state: 'skipped', message: 'not now', durationMs: 0 });
    assert.deepEqual(await send(task, 0, [one('adds'), failed('takes', 'a < b & "c"')]), taken);
    assert.deepEqual((await alice.get(`${path}/tests`)).list, []);
    assert.equal((await alice.get(path)).record.tests_passed, 0);
    assert.deepEqual(await send(task, 2, [skipped], true), taken);
    await task.exit(1);
    const { tests_passed: passed, tests_failed: wrong, tests_skipped: left } = (await alice.get(path)).record;
    assert.deepEqual([passed, wrong, left], [1, 1, 1]);
    const { list } = await alice.get(`${path}/tests`);
    const keys = new Set(list.map(({ key }) => key));
    assert.ok(keys.size === 3 && [...keys].every((key) => /^[0-9a-f]{12}$/.test(String(key))));
    const since = list.map(({ failed_since: first }) => (first as Record_ | null)?.build_id_str ?? null);
    assert.deepEqual(since, [null, path.split('/').at(-1), null]);
    const shown = list.map(({ key: _key, failed_since: _since, ...rest }) => rest);
    assert.deepEqual(shown, [
      {
        name: 'adds',
        class: 'cart',
        suite: 'unit',
        file: 'cart.test.js',
        state: 'passed',
        duration_ms: 5,
        message: '',
      },
      {
        name: 'takes',
        class: 'cart',
        suite: 'unit',
        file: 'cart.test.js',
        state: 'failed',
        duration_ms: 5,
        message: 'a < b & "c"',
      },
      {
        name: 'later',
        class: 'cart',
        suite: 'unit',
        file: 'cart.test.js',
        state: 'skipped',
        duration_ms: 0,
        message: 'not now',
      },
    ]);
    assert.deepEqual(await names(`${path}/tests?state=failed`), ['takes']);
    assert.deepEqual(await names(`${path}/tests?state=`), ['adds', 'takes', 'later']);
    for (const state of ['error', 'Failed', 'retried']) {
      const answer = await alice.get(`${path}/tests?state=${state}`);
      assert.deepEqual([answer.status, answer.body], [403, { error: { state: ['invalid_format'] } }]);
    }
  });

  test('are paged by their positions', async () => {
    const { path, task } = await runningBuild(alice, runner);
    for (const start of [0, 500, 1000]) await send(task, start, many(500, start));
    assert.deepEqual(await send(task, 1500, many(3, 1500), true), taken);
    await task.exit(0);
    const all: unknown[] = [];
    let next: string | undefined = `${path}/tests?limit=400`;
    const pages: string[] = [];
    while (next !== undefined) {
      const answer = await alice.get(next);
      assert.ok(answer.list.length <= 400);
      all.push(...answer.list.map(({ name }) => name));
      pages.push(next);
      next = linkOf(answer.headers.link, 'next');
    }
    assert.deepEqual(
      all,
      many(1503).map(({ name }) => name),
    );
    assert.equal(pages.length, 4);
    const back = linkOf((await alice.get(pages.at(-1) ?? '')).headers.link, 'prev') ?? assert.fail();
    assert.deepEqual(await names(back), await names(pages[2] ?? ''));
    assert.deepEqual(await names(`${path}/tests?state=failed&limit=2`), ['test 7', 'test 407']);
    assert.deepEqual(await names(`${path}/tests?state=failed&after=408`), ['test 807', 'test 1207']);
    assert.deepEqual(await names(`${path}/tests?state=failed&before=808&limit=1`), ['test 407']);
    assert.deepEqual(await names(`${path}/tests?after=9999999999999`), []);
  });

  test("are nobody else's", async () => {
    const { project, path, task } = await runningBuild(alice, runner);
    await send(task, 0, [failed('secret name')], true);
    await task.exit(1);
    for (const below of [
      `${path}/tests`,
      `/projects/${project.id}/tests/flaky`,
      `/projects/${project.id}/tests/slow`,
    ]) {
      assert.equal((await bob.get(below)).status, 404);
      assert.equal((await alice.get(below)).status, 200);
    }
    const other = await runningBuild(bob, runner);
    await other.task.exit(0);
    assert.equal((await bob.get(`/projects/${other.project.id}/builds/${path.split('/').at(-1)}/tests`)).status, 404);
  });

  test('do not change by what a runner repeats or invents [promise: runner-claims]', async () => {
    const { path, task } = await runningBuild(alice, runner);
    const { claim } = task.order;
    assert.deepEqual(await send(task, 0, [one('a'), one('b')]), taken);
    assert.deepEqual(await send(task, 0, [one('a'), one('b')]), taken);
    assert.deepEqual(await send(task, 0, [one('x'), one('y')]), taken);
    assert.deepEqual(await send(task, 5, [one('far')]), { expected: 2 });
    assert.deepEqual(await send(task, 1, [one('b'), one('c')]), { expected: 2 });
    const stranger = runner.beside('stranger');
    const theirs = { claim, start: 2, tests: [one('theirs')], isLast: true };
    assert.deepEqual(await stranger.dispatch.tests(stranger.self, theirs), { gone: true });
    assert.deepEqual(await send(task, 2, [failed('c')], true), taken);
    assert.deepEqual(await send(task, 2, [failed('c')], true), taken);
    assert.deepEqual(await send(task, 3, [failed('d')], true), taken); // complete is complete
    await task.exit(0);
    assert.deepEqual(await names(`${path}/tests`), ['a', 'b', 'c']);
    const { build_state: state, tests_passed: passed, tests_failed: wrong } = (await alice.get(path)).record;
    assert.deepEqual([state, passed, wrong], ['passed', 2, 1]);
    assert.deepEqual(await send(task, 3, [one('late')]), { gone: true });
  });

  test('are no more than a build may have', async () => {
    const { path, task } = await runningBuild(alice, runner);
    await send(task, 0, [one('a')]);
    const { db } = service.store;
    const build = BigInt(path.split('/').at(-1) ?? '');
    await db.transaction((trx) =>
      trx.updateTable('test_runs').set({ size: most.tests }).where('build_id', '=', build).execute(),
    );
    assert.deepEqual(await send(task, most.tests, [one('one too many')]), { refused: 'too_many' });
    await db.transaction((trx) =>
      trx
        .updateTable('test_runs')
        .set({ size: 1, bytes: 64n * 1024n * 1024n })
        .where('build_id', '=', build)
        .execute(),
    );
    assert.deepEqual(await send(task, 1, [one('too much')]), { refused: 'too_many' });
    await task.exit(0);
  });

  test('that failed and passed on one commit and suite are flaky', async () => {
    const { project, path, task } = await runningBuild(alice, runner);
    const flaky = `/projects/${project.id}/tests/flaky`;
    await send(task, 0, [failed('now and then', 'first'), failed('always'), one('never'), one('at last')], true);
    await task.exit(1);
    assert.deepEqual((await alice.get(flaky)).list, []);
    const second = await again(path);
    await send(second.task, 0, [one('now and then'), failed('always'), one('never'), failed('at last', 'late')], true);
    await second.task.exit(1);
    const third = await again(second.path);
    await send(third.task, 0, [failed('now and then', 'third'), failed('always')], true);
    await third.task.exit(1);
    const shown = (await alice.get(flaky)).list.map(({ last_seen_at: at, key, ...rest }) => {
      assert.match(String(key), /^[0-9a-f]{12}$/);
      assert.match(String(at), /^20\d\d-\d\d-\d\dT/);
      return rest;
    });
    const test = { class: 'cart', suite: 'unit' };
    assert.deepEqual(shown, [
      { name: 'now and then', ...test, failures: 2, passes: 1, message: 'third' },
      { name: 'at last', ...test, failures: 1, passes: 1, message: 'late' },
    ]);
  });

  test('that failed in one variant and passed in another are not flaky', async () => {
    const project = await alice.createProject();
    await alice.createSuite(project, { 'matrix[]': 'SIZE=small,large' });
    await alice.requestBuild(project);
    await (await runner.take('fetch_commit')).fetched();
    const [small, large] = [await runner.take('run_suite'), await runner.take('run_suite')];
    await send(small, 0, [failed('depends'), one('retried', { failures: 1 })], true);
    await send(large, 0, [one('depends')], true);
    await small.exit(1);
    await large.exit(0);
    const { list } = await alice.get(`/projects/${project.id}/tests/flaky`);
    assert.deepEqual(
      list.map(({ name }) => name),
      ['retried'],
    );
  });

  test('that failed on one commit and passed on another are not flaky', async () => {
    const { project, task } = await runningBuild(alice, runner);
    const flaky = `/projects/${project.id}/tests/flaky`;
    await send(task, 0, [failed('mended')], true);
    await task.exit(1);
    const other = await anotherCommit(project, 'b');
    await send(other.task, 0, [one('mended'), one('slow to start', { failures: 2, message: 'refused' })], true);
    await other.task.exit(0);
    const [only, ...more] = (await alice.get(flaky)).list;
    assert.deepEqual([only?.name, only?.failures, only?.passes, only?.message], ['slow to start', 2, 1, 'refused']);
    assert.deepEqual(more, []);
    const third = await anotherCommit(project, 'c');
    await send(third.task, 0, [failed('slow to start', 'again'), one('slow to start')], true);
    await third.task.exit(1);
    const [both] = (await alice.get(flaky)).list;
    assert.deepEqual([both?.name, both?.failures, both?.passes, both?.message], ['slow to start', 3, 2, 'again']);
  });

  test('that are slow are told with their average', async () => {
    const { project, path, task } = await runningBuild(alice, runner);
    const slow = `/projects/${project.id}/tests/slow`;
    assert.deepEqual((await alice.get(slow)).list, []);
    const quick = many(300).map((test) => ({ ...test, durationMs: 1 }));
    const skipped = one('left out', { state: 'skipped', durationMs: 99_999 });
    await send(
      task,
      0,
      [...quick, one('slowest', { durationMs: 3000 }), one('slow', { durationMs: 900 }), skipped],
      true,
    );
    await task.exit(0);
    const second = await again(path);
    await send(second.task, 0, [one('slowest', { durationMs: 1000 }), failed('slow')], true);
    await second.task.exit(1);
    const { list } = await alice.get(slow);
    const shown = list.map(({ key: _key, ...rest }) => rest);
    assert.deepEqual(shown.slice(0, 2), [
      { name: 'slowest', class: 'cart', suite: 'unit', duration_ms: 2000, runs: 2 },
      { name: 'slow', class: 'cart', suite: 'unit', duration_ms: 453, runs: 2 },
    ]);
    assert.ok(list.length <= 100 && list.every(({ name }) => name !== 'left out'));
  });

  test('go with old logs, and when their last batch never came', async () => {
    const { project, path, task } = await runningBuild(alice, runner);
    await send(task, 0, [one('kept', { failures: 1, message: 'once' })], true);
    await task.exit(0);
    const lost = await again(path);
    await send(lost.task, 0, [one('half')]);
    await lost.task.exit(1);
    assert.deepEqual(await names(`${lost.path}/tests`), []);
    const { db } = service.store;
    const rows = async (): Promise<number> => {
      const builds = db.read.selectFrom('builds').select('id').where('project_id', '=', project.id);
      return (await db.read.selectFrom('test_results').select('build_id').where('build_id', 'in', builds).execute())
        .length;
    };
    assert.equal(await rows(), 2);
    await forgetOldTests(db, 0);
    assert.equal(await rows(), 1);
    await forgetOldTests(db, 1);
    assert.deepEqual(await names(`${path}/tests`), ['kept']);
    await forgetOldTests(db, 1, Date.now() + 2 * 24 * 60 * 60 * 1000);
    assert.equal(await rows(), 0);
    assert.deepEqual(await names(`${path}/tests`), []);
    assert.deepEqual((await alice.get(`/projects/${project.id}/tests/flaky`)).list, []);
    assert.equal((await alice.get(path)).record.tests_passed, 1);
  });

  test('go with their project', async () => {
    const { project, task } = await runningBuild(alice, runner);
    await send(task, 0, [one('kept', { failures: 1 })], true);
    await task.exit(0);
    assert.equal((await alice.delete(`/projects/${project.id}`)).status, 200);
    const { read } = service.store.db;
    for (const table of ['test_runs', 'test_flakes'] as const) {
      assert.deepEqual(
        await read.selectFrom(table).select('project_id').where('project_id', '=', project.id).execute(),
        [],
      );
    }
  });
});

function linkOf(header: string | string[] | undefined, relation: string): string | undefined {
  const found = new RegExp(`<([^>]+)>; rel="${relation}"`).exec(String(header ?? ''))?.[1];
  if (found === undefined) return undefined;
  const { pathname, search } = new URL(found);
  return `${pathname}${search}`;
}

test('a batch of tests is read strictly [promise: runner-claims]', () => {
  const claim = 'c'.repeat(22);
  const batch = (change: object): unknown => ({ claim, start: 0, tests: [], isLast: false, ...change });
  const withTest = (change: object): unknown => batch({ tests: [{ ...one('a'), ...change }] });
  assert.deepEqual(readCall('tests', withTest({ more: 1, failures: 2 })), {
    claim,
    start: 0,
    tests: [{ ...one('a'), failures: 2 }],
    isLast: false,
  });
  const wrong = [
    null,
    [],
    batch({ claim: 'short' }),
    batch({ start: -1 }),
    batch({ start: 1.5 }),
    batch({ start: most.tests + 1 }),
    batch({ isLast: 'yes' }),
    batch({ tests: {} }),
    batch({ tests: [null] }),
    batch({ tests: Array.from({ length: 501 }, () => one('a')) }),
    withTest({ name: 5 }),
    withTest({ name: 'a\0b' }),
    withTest({ name: '\uD800' }),
    withTest({ name: 'ä'.repeat(513) }),
    withTest({ class: 'x'.repeat(1025) }),
    withTest({ message: 'x'.repeat(8193) }),
    withTest({ file: undefined }),
    withTest({ state: 'error' }),
    withTest({ state: '__proto__' }),
    withTest({ durationMs: -1 }),
    withTest({ durationMs: 1e15 }),
    withTest({ durationMs: '5' }),
    withTest({ failures: -1 }),
    withTest({ failures: 1e9 }),
  ];
  for (const body of wrong)
    assert.throws(() => readCall('tests', body), { name: 'ApiError' }, JSON.stringify(body)?.slice(0, 200));
});
