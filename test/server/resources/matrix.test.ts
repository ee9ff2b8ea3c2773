import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertWrongFields } from '../../support/expect.ts';
import { Receiver, reply } from '../../support/receiver.ts';
import { aCommit } from '../../support/runner.ts';
import { describeSuiteRuns, type SuiteRuns } from '../../support/suite-runs.ts';
import { fromFork, trigger } from '../../support/triggered.ts';

const four = ['A=1 B=x', 'A=1 B=y', 'A=2 B=x', 'A=2 B=y'];

describeSuiteRuns(
  'a suite with a matrix',
  ({ service, runner, alice, begin }) => {
    const rerun = (runs: SuiteRuns, request: { id: bigint }, form: Record<string, string> = {}) =>
      alice().post(`${runs.path}/build_requests/${request.id}/rerun`, form);

    test('has one build for every combination, with its values before those of the suite’s own variables', async () => {
      const runs = await begin();
      const suite = await runs.suite({ 'matrix[]': 'A=1,2\nB = x, y' });
      assert.deepEqual(suite.matrix, ['A=1,2', 'B=x,y']);
      await alice().createVariable(runs.project, suite, { name: 'B', content: 'from the suite' });
      await alice().createVariable(runs.project, suite, { name: 'C', content: 'also from it' });
      const request = await runs.fetched();
      assert.deepEqual(await runs.seen('variant'), four);
      const tasks = await runs.take(4);
      assert.deepEqual([...tasks.keys()].toSorted(), four);
      const { A, B, C, HEADRACE_VARIANT } = tasks.get('A=2 B=x')?.order.work.environment ?? {};
      assert.deepEqual(
        { A, B, C, HEADRACE_VARIANT },
        { A: '2', B: 'x', C: 'also from it', HEADRACE_VARIANT: 'A=2 B=x' },
      );
      for (const task of tasks.values()) await task.exit(0);
      assert.equal(await runs.rolledUp(request), 'passed passed passed');
    });

    test('counts every variant by its newest attempt, and runs again what did not pass', async () => {
      const runs = await begin();
      await runs.suite({ 'matrix[]': 'A=1,2\nB=x,y' });
      const request = await runs.fetched();
      for (const [variant, task] of await runs.take(4)) await task.exit(variant.startsWith('A=1') ? 1 : 0);
      assert.equal(await runs.rolledUp(request), 'failed failed failed');
      await rerun(runs, request, { failed_only: 'true' });
      const again = await runs.take(2);
      assert.deepEqual([...again.keys()].toSorted(), ['A=1 B=x', 'A=1 B=y']);
      await runner.assertIdle();
      await again.get('A=1 B=x')?.exit(0);
      await again.get('A=1 B=y')?.exit(1);
      assert.equal(await runs.rolledUp(request), 'failed failed failed', 'one of them is still wrong');
      const failed = (await runs.builds()).findLast(({ variant }) => variant === 'A=1 B=y');
      const next = await alice().post(`${runs.path}/builds/${failed?.id}/restart`);
      assert.deepEqual([next.record.variant, next.record.attempt], ['A=1 B=y', 3]);
      await (await runs.take(1)).get('A=1 B=y')?.exit(0);
      assert.equal(await runs.rolledUp(request), 'passed passed passed');
    });

    test('can be restarted variant by variant while others run', async () => {
      const runs = await begin();
      await runs.suite({ 'matrix[]': 'A=1,2' });
      const request = await runs.fetched();
      const tasks = await runs.take(2);
      await tasks.get('A=1')?.exit(1);
      const [first] = await runs.builds();
      assert.equal((await alice().post(`${runs.path}/builds/${first?.id}/restart`)).status, 201);
      await (await runs.take(1)).get('A=1')?.exit(0);
      await tasks.get('A=2')?.exit(0);
      assert.equal(await runs.rolledUp(request), 'passed passed passed');
    });

    test('that is changed counts as it was when it was last started', async () => {
      const runs = await begin();
      const suite = await runs.suite({ 'matrix[]': 'A=1,2' });
      const first = await runs.fetched();
      for (const [variant, task] of await runs.take(2)) await task.exit(variant === 'A=1' ? 1 : 0);
      assert.equal(await runs.rolledUp(first), 'failed failed failed');
      await runs.change(suite, { 'matrix[]': 'A=2,3' });
      const second = await alice().requestBuild(runs.project, aCommit.sha);
      for (const task of (await runs.take(2)).values()) await task.exit(0);
      assert.equal(await runs.rolledUp(second), 'passed passed passed', 'A=1 is not asked for any more');
      const [commit] = (await alice().get(`${runs.path}/commits`)).list;
      const counted = async (query = ''): Promise<unknown[]> =>
        (await alice().get(`${runs.path}/commits/${commit?.id}/builds?counted=true${query}`)).list.map((build) =>
          [build.variant, build.attempt].join(' '),
        );
      assert.deepEqual(await counted(), ['A=3 1', 'A=2 2']);
      assert.deepEqual(await counted('&limit=1'), ['A=3 1']);
      assert.equal((await alice().get(`${runs.path}/build_requests/${first.id}`)).record.build_state, 'failed');
      // What the first request had is run again; of the commit it is what the matrix had last that counts.
      await rerun(runs, first);
      const again = await runs.take(2);
      assert.deepEqual([...again.keys()].toSorted(), ['A=1', 'A=2']);
      await again.get('A=1')?.exit(1);
      await again.get('A=2')?.exit(0);
      assert.equal(await runs.rolledUp(first), 'failed passed passed');
      await runs.change(suite, { 'matrix[]': '' });
      const third = await alice().requestBuild(runs.project, aCommit.sha);
      await (await runs.take(1)).get('')?.exit(1);
      assert.equal(await runs.rolledUp(third), 'failed failed failed');
      assert.deepEqual(await counted(), [' 1']);
      const empty = await begin();
      await empty.fetched();
      const [other] = (await alice().get(`${empty.path}/commits`)).list;
      assert.deepEqual((await alice().get(`${empty.path}/commits/${other?.id}/builds?counted=true`)).list, []);
    });

    test('leaves out and adds combinations, and lets some of them fail', async () => {
      const runs = await begin();
      const lists = {
        'matrix[]': 'A=1,2\nB=x,y',
        'matrix_exclude[]': 'A=1 B=y\nB=y  A=2',
        'matrix_include[]': 'A=2 B=y\nB=x A=1\nA=3 C=z',
        'matrix_allow_failure[]': 'B=y\nC=z',
      };
      const suite = await runs.suite(lists);
      assert.deepEqual(suite.matrix_exclude, ['A=1 B=y', 'B=y A=2']);
      assert.deepEqual(suite.matrix_include, ['A=2 B=y', 'B=x A=1', 'A=3 C=z']);
      assert.deepEqual(suite.matrix_allow_failure, ['B=y', 'C=z']);
      const request = await runs.fetched();
      assert.deepEqual(await runs.seen('variant', 'allow_failure'), [
        'A=1 B=x false',
        'A=2 B=x false',
        'A=2 B=y true',
        'A=3 C=z true',
      ]);
      const tasks = await runs.take(4);
      const { A, B, C } = tasks.get('A=3 C=z')?.order.work.environment ?? {};
      assert.deepEqual({ A, B, C }, { A: '3', B: undefined, C: 'z' });
      for (const [variant, task] of tasks) await task.exit(variant.endsWith('B=x') ? 0 : 1);
      assert.equal(await runs.rolledUp(request), 'passed passed passed');
      // What is run again is allowed as much as the suite says by then.
      await runs.change(suite, { 'matrix_allow_failure[]': 'C=z' });
      const failed = (await runs.builds()).find(({ variant }) => variant === 'A=2 B=y');
      const next = await alice().post(`${runs.path}/builds/${failed?.id}/restart`);
      assert.deepEqual([next.record.variant, next.record.allow_failure], ['A=2 B=y', false]);
      await (await runs.take(1)).get('A=2 B=y')?.exit(1);
      assert.equal(await runs.rolledUp(request), 'failed failed failed');
      const whole = (await rerun(runs, request)).status;
      assert.equal(whole, 200);
      for (const [variant, task] of await runs.take(4)) await task.exit(variant === 'A=3 C=z' ? 1 : 0);
      assert.equal(await runs.rolledUp(request), 'passed passed passed');
    });

    test('is built from a fork with its values, and without the suite’s variables', async () => {
      const runs = await begin();
      const suite = await runs.suite({ 'matrix[]': 'A=1,2' });
      await alice().createVariable(runs.project, suite, { name: 'TOKEN', content: 'for members only' });
      await trigger(service.store, runs.project, aCommit.sha, fromFork);
      const fetch = await runner.take('fetch_commit');
      await fetch.fetched({ branches: [], branch: '', ref: 'refs/pull/7/head', defaultHead: 'kept' });
      const tasks = await runs.take(2);
      for (const [variant, { order }] of tasks) {
        assert.equal(`A=${order.work.environment.A}`, variant);
        assert.equal(order.work.environment.TOKEN, undefined);
      }
      for (const task of tasks.values()) await task.exit(0);
    });

    test('may have 256 combinations, and not one more', async () => {
      const runs = await begin();
      const numbers = (count: number): string => Array.from({ length: count }, (_, at) => at).join(',');
      const refused = { matrix: 'invalid_format' };
      const body = { name: 'large', command: 'true' };
      for (const matrix of [`A=${numbers(257)}`, `A=${numbers(43)}\nB=1,2,3,4,5,6`])
        assertWrongFields(await alice().post(`${runs.path}/suites`, { ...body, 'matrix[]': matrix }), refused);
      const suite = await runs.suite({ 'matrix[]': `A=${numbers(16)}\nB=${numbers(16)}`, retries: '1' });
      assertWrongFields(await runs.change(suite, { 'matrix_include[]': 'A=16' }), { matrix_include: 'invalid_format' });
      assert.equal((await runs.change(suite, { 'matrix_include[]': 'B=3 A=7' })).status, 200, 'it is there already');
      const wider = { 'matrix[]': `A=${numbers(17)}\nB=${numbers(16)}` };
      assertWrongFields(await runs.change(suite, wider), refused);
      assert.equal((await runs.change(suite, { ...wider, 'matrix_exclude[]': 'A=16' })).status, 200);
      const request = await runs.fetched();
      const first = await runner.take('run_suite');
      await first.exit(1);
      const builds = await runs.builds();
      assert.equal(new Set(builds.map(({ variant }) => variant)).size, 256);
      assert.equal(builds.length, 257, 'one of them is tried again');
      await alice().post(`${runs.path}/build_requests/${request.id}/cancel`);
      assert.equal(await runs.rolledUp(request), 'cancelled cancelled cancelled');
      await runner.assertIdle();
    });

    test('is asked for twice at once: every attempt of every variant is made once', async () => {
      const runs = await begin();
      await runs.suite({ 'matrix[]': 'A=1,2,3' });
      await runs.fetched();
      for (const task of (await runs.take(3)).values()) await task.exit(0);
      await Promise.all(Array.from({ length: 4 }, () => alice().requestBuild(runs.project, aCommit.sha)));
      const seen = await runs.seen('variant', 'attempt');
      const expected = ['A=1', 'A=2', 'A=3'].flatMap((variant) =>
        [1, 2, 3, 4, 5].map((number) => `${variant} ${number}`),
      );
      assert.deepEqual(seen.toSorted(), expected);
      for (let left = 12; left > 0; left -= 1) await (await runner.take('run_suite')).exit(0);
    });

    test('has a status at the forge for every variant', async () => {
      await using forge = await Receiver.start(reply(201));
      const runs = await begin();
      await runs.suite({ name: 'unit', 'matrix[]': 'A=1,2', retries: '1' });
      await runs.suite({ name: 'lint', allow_failure: 'true' });
      await alice().post(`${runs.path}/status_targets`, {
        provider: 'gitea',
        api_url: forge.url,
        repository: 'team/code',
        token: 'secret-token',
      });
      await runs.fetched();
      const tasks = await runs.take(3);
      for (const variant of ['A=1', 'A=2', '']) await tasks.get(variant)?.exit(variant === 'A=2' ? 0 : 1);
      await (await runner.take('run_suite')).exit(1);
      const told = (await forge.received(11)).map(
        ({ body }) => JSON.parse(body) as { state: string; context: string; description: string },
      );
      const last = new Map(told.map((one) => [one.context, one]));
      assert.deepEqual(Array.from(last.values(), ({ context, state }) => `${context} ${state}`).toSorted(), [
        'headrace/lint success',
        'headrace/unit (A=1) failure',
        'headrace/unit (A=2) success',
      ]);
      assert.match(
        last.get('headrace/lint')?.description ?? '',
        /^Failed with exit status 1.* It is allowed to fail\.$/,
      );
    });

    test('has names at the forge that are not too long, and each its own for all its attempts', async () => {
      await using forge = await Receiver.start(reply(201));
      const runs = await begin();
      const long = 'x'.repeat(300);
      await runs.suite({ name: 'unit', 'matrix[]': `A=${long}1,${long}2`, retries: '1' });
      const target = { provider: 'gitea', api_url: forge.url, repository: 'team/code', token: 'secret-token' };
      await alice().post(`${runs.path}/status_targets`, target);
      await runs.fetched();
      for (const task of (await runs.take(2)).values()) await task.exit(1);
      for (const task of (await runs.take(2)).values()) await task.exit(0);
      const told = (await forge.received(10)).map(({ body }) => JSON.parse(body) as { state: string; context: string });
      const passed = told.filter(({ state }) => state === 'success').map(({ context }) => context);
      assert.equal(new Set(passed).size, 2);
      assert.deepEqual(new Set(told.map(({ context }) => context)), new Set(passed));
      for (const name of passed) assert.match(name, /^headrace\/unit \(A=x{220,}… [0-9a-f]{12}$/);
      for (const name of passed) assert.ok(name.length <= 255);
    });

    test('refuses what is no matrix', async () => {
      const runs = await begin();
      const suite = await runs.suite({ 'matrix[]': 'A=1' });
      const wrong = [
        'A',
        '=1',
        'A=',
        'A=1,',
        'A=1,,2',
        'A=1,1',
        'A=1\nA=2',
        'A=1 2',
        '1A=1',
        'A-B=1',
        'A=\u00a0',
        'A=1\tB=2',
        `A=${'x'.repeat(500)}`,
        Array.from({ length: 17 }, (_, at) => `A${at}=1`).join('\n'),
      ];
      for (const matrix of wrong) {
        const answer = await runs.change(suite, { 'matrix[]': matrix });
        assertWrongFields(answer, { matrix: 'invalid_format' });
      }
      for (const matrix of ['CI=1', 'HEADRACE_BUILD_ID=1', 'HEADRACE=1'])
        assertWrongFields(await runs.change(suite, { 'matrix[]': matrix }), { matrix: 'is_reserved' });
      assertWrongFields(await runs.change(suite, { matrix: 'A=1' }), { matrix: 'invalid_format' });
      assert.deepEqual((await runs.change(suite, { description: 'd' })).record.matrix, ['A=1']);
      const unfit = [
        'A',
        'A=1,2',
        'A=1 A=1',
        'A=1 A=2',
        'A=1\tB=2',
        'A=\u0001',
        'A=1\0',
        `A=${'x'.repeat(499)}`,
        `A=${'x'.repeat(500_000)}`,
        Array.from({ length: 10_000 }, (_, at) => `A=${at}`).join('\n'),
      ];
      for (const field of ['matrix_exclude', 'matrix_include', 'matrix_allow_failure']) {
        for (const list of unfit)
          assertWrongFields(await runs.change(suite, { [`${field}[]`]: list }), { [field]: 'invalid_format' });
        assertWrongFields(await runs.change(suite, { [`${field}[]`]: 'CI=1' }), { [field]: 'is_reserved' });
      }
      assertWrongFields(await runs.change(suite, { 'matrix_exclude[]': 'A=1' }), { matrix_exclude: 'invalid_format' });
      const none = { 'matrix[]': 'B=1', 'matrix_exclude[]': 'B=1' };
      assertWrongFields(await runs.change(suite, none), { matrix_exclude: 'invalid_format' });
      const awkward = 'A=a=b,"x",$(id),ä\nPATH_=1';
      assert.deepEqual((await runs.change(suite, { 'matrix[]': awkward })).record.matrix, awkward.split('\n'));
    });
  },
  { settings: { webhook_allow: '127.0.0.0/8' } },
);
