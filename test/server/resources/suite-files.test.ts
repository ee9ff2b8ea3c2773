import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Record_ } from '../../support/client.ts';
import { assertRefused, assertWrongFields } from '../../support/expect.ts';
import { describeSuiteRuns } from '../../support/suite-runs.ts';

type Sent = Record<string, string | string[]>;

const form = (fields: Sent): [string, string][] =>
  Object.entries(fields).flatMap(([name, value]) => [value].flat().map((one): [string, string] => [name, one]));

describeSuiteRuns('suites that begin with files of another', ({ runner, alice, begin }) => {
  test('name one that they need, with the same variants', async () => {
    const runs = await begin();
    const post = (fields: Record<string, string>) =>
      alice().post(`${runs.path}/suites`, { command: 'make', ...fields });
    const put = (suite: Record_, fields: Record<string, string>) =>
      alice().put(`${runs.path}/suites/${suite.id}`, fields);
    const first = (await post({ name: 'first' })).record;
    const [needs, from] = [{ 'needs[]': String(first.id) }, { files_from_id: String(first.id) }];
    assertWrongFields(await post({ name: 'second', ...from }), { files_from_id: 'invalid_format' });
    assertRefused(await post({ name: 'second', ...needs, files_from_id: '12345' }), 404, {
      files_from_id: ['not_found'],
    });
    assertWrongFields(await post({ name: 'second', ...needs, files_from_id: 'x' }), {
      files_from_id: 'invalid_format',
    });
    const second = (await post({ name: 'second', ...needs, ...from })).record;
    assert.equal(second.files_from_id, first.id);
    assert.equal(second.files_from_id_str, first.id_str);
    assert.equal(first.files_from_id, null);
    assert.equal(first.files_from_id_str, '');
    assertWrongFields(await put(second, { 'needs[]': '' }), { files_from_id: 'invalid_format' });
    // One without a matrix serves every variant; one with a matrix serves those with the very same.
    assert.equal((await put(second, { 'matrix[]': 'N=1,2' })).status, 200);
    assertWrongFields(await put(first, { 'matrix[]': 'N=1,3' }), { matrix: 'invalid_format' });
    assert.equal((await put(first, { 'matrix[]': 'N=1,2' })).status, 200);
    assertWrongFields(await put(second, { 'matrix[]': '' }), { files_from_id: 'invalid_format' });
    const none = (await put(second, { files_from_id: '', 'needs[]': '' })).record;
    assert.equal(none.files_from_id, null);
  });

  test('get them from builds of their own request, in what the runner is ordered [promise: suite-files]', async () => {
    const runs = await begin();
    const first = await runs.suite({ name: 'first' });
    const fields = { 'needs[]': String(first.id), files_from_id: String(first.id) };
    await runs.suite({ name: 'second', ...fields });
    await runs.fetched();
    const task = await runner.take('run_suite');
    assert.equal(task.order.work.keep?.forSuites, 'passed');
    assert.equal(task.order.work.files, undefined);
    // It says that it keeps nothing: the first suite runs once more, and then the second one gives up, in words.
    await task.exit(0);
    const again = await runner.take('run_suite');
    assert.equal(again.order.work.environment.HEADRACE_SUITE, 'first');
    assert.equal(again.order.work.environment.HEADRACE_ATTEMPT, '2');
    const waiting = (await runs.builds()).find((build) => build.suite_name === 'second');
    assert.equal(waiting?.build_state, 'enqueued');
    assert.equal(waiting.waiting_reason, 'waits for first');
    await again.exit(0);
    await runner.assertIdle();
    const given = (await runs.builds()).find((build) => build.suite_name === 'second');
    assert.equal(given?.build_state, 'errored');
    assert.equal(given.failure_reason, 'files_not_kept');
    const log = await alice().get(`${runs.path}/builds/${given.id}/log.txt`);
    assert.equal(
      log.text,
      'The files of first are no longer stored. It runs again first.\nThe files of first are not stored, even after it ran again.\n',
    );
  });

  test('of several suites are named by ID or, with values of the matrix, by name', async () => {
    const runs = await begin();
    const post = (fields: Sent) => alice().post(`${runs.path}/suites`, form({ command: 'make', ...fields }));
    const put = (suite: Record_, fields: Sent) => alice().put(`${runs.path}/suites/${suite.id}`, form(fields));
    const names = ['build-a', 'build-b', 'x/y', '.', 'x%2Fy', 'é'.repeat(200)];
    const made: Record_[] = [];
    for (const name of names) made.push((await post({ name })).record);
    const ids = made.map(({ id }) => String(id));
    const [a = '', b = '', slash = '', dot = '', percent = '', long = ''] = ids;
    const taking = { name: 'takes', 'needs[]': ids };
    for (const [wrong, code] of [
      [[dot], 'invalid_format'],
      [[long], 'invalid_format'],
      [[slash, percent], 'invalid_format'],
      [[a, a], 'invalid_format'],
      [['12345'], 'not_found'],
      [['x'], 'invalid_format'],
      [['build-$T'], 'not_found'],
      [Array.from({ length: 21 }, () => a), 'invalid_format'],
    ] as const)
      assert.deepEqual((await post({ ...taking, 'files_from[]': [...wrong] })).body, { error: { files_from: [code] } });
    assertWrongFields(await post({ name: 'takes', 'files_from[]': a }), { files_from: 'invalid_format' });
    assertWrongFields(await post({ ...taking, files_from_id: a, 'files_from[]': b }), { files_from: 'invalid_format' });
    const { record: takes } = await post({ ...taking, 'files_from[]': [a, slash] });
    assert.deepEqual(takes.files_from, [
      { id: made[0]?.id, id_str: a, name: 'build-a' },
      { id: made[2]?.id, id_str: slash, name: 'x/y' },
    ]);
    assertWrongFields(await put(made[2] as Record_, { name: '..' }), { name: 'invalid_format' });
    // One way replaces the other.
    const single = (await put(takes, { files_from_id: a })).record;
    assert.deepEqual([single.files_from, single.files_from_id_str], [[], a]);
    const named = { 'matrix[]': 'T=a,b', 'files_from[]': ['build-${T}', slash] };
    const several = (await put(takes, named)).record;
    assert.equal(several.files_from_id, null);
    assert.deepEqual((several.files_from as unknown[])[0], { id: null, id_str: '', name: 'build-${T}' });
    assertRefused(await put(takes, { 'matrix[]': 'T=a,c' }), 404, { files_from: ['not_found'] });
    assertWrongFields(await put(takes, { 'files_from[]': [a, 'build-$T'] }), { files_from: 'invalid_format' });
    assertWrongFields(await put(made[0] as Record_, { name: 'other' }), { name: 'invalid_format' });
    assertWrongFields(await put(takes, { 'needs[]': [b, slash] }), { files_from: 'invalid_format' });
    const byName = (await put(takes, { files_from_name: 'build-$T' })).record;
    assert.deepEqual([byName.files_from, byName.files_from_name], [[], 'build-$T']);
    assertWrongFields(await put(takes, { files_from_name: 'build-a' }), { files_from_name: 'invalid_format' });
  });

  test('of several suites come with all variants, and each that is gone runs again', async () => {
    const runs = await begin();
    const plain = await runs.suite({ name: 'plain' });
    const many = await runs.suite({ name: 'many', 'matrix[]': 'N=1,2' });
    const [alone, needs] = [String(plain.id), { 'needs[]': [String(plain.id), String(many.id)] }];
    const fields = { name: 'takes', command: 'make', ...needs, 'files_from[]': [alone, String(many.id)] };
    const takes = await alice().post(`${runs.path}/suites`, form(fields));
    assert.equal(takes.status, 201);
    const request = await runs.fetched();
    const here = { location: 'here' };
    const kept = (name: string) => ({ location: 'here', name, key: 'ab'.repeat(32) });
    for (const name of ['first', 'second', 'third']) {
      const task = await runner.take('run_suite', here);
      assert.equal(task.order.work.keep?.forSuites, 'passed');
      await task.exit(0, name === 'second' ? {} : { kept: kept(name) });
    }
    // One of them kept nothing: it alone runs again.
    const again = await runner.take('run_suite', here);
    assert.equal(again.order.work.environment.HEADRACE_ATTEMPT, '2');
    assert.equal(again.order.work.environment.HEADRACE_VARIANT, 'N=1');
    await again.exit(0, { kept: kept('fourth') });
    const task = await runner.take('run_suite', here);
    const { lent = [], files } = task.order.work;
    assert.equal(files, undefined);
    assert.deepEqual(
      lent.map(({ suite, variant, kept: own }) => `${suite} ${variant} ${own?.name}`),
      ['plain  first', 'many N=1 fourth', 'many N=2 third'],
    );
    const seen = await runs.builds();
    const build = (name: string, attempt: number) =>
      seen.find((one) => one.suite_name === name && one.attempt === attempt && one.variant !== 'N=2');
    assert.deepEqual(
      lent.map((one) => one.build).slice(0, 2),
      [build('plain', 1), build('many', 2)].map((one) => one?.id_str),
    );
    const page = (await alice().get(`${runs.path}/builds/${build('takes', 1)?.id}/details`)).record;
    assert.equal((page.files_of as Record_[]).length, 3);
    // The runner cannot get one of them: that one alone is made again.
    assert.deepEqual(await task.finish({ kind: 'files_gone', build: lent[2]?.build ?? '' }), { taken: true });
    const third = await runner.take('run_suite', here);
    assert.equal(third.order.work.environment.HEADRACE_VARIANT, 'N=2');
    await third.exit(0, { kept: kept('fifth') });
    const last = await runner.take('run_suite', here);
    assert.equal(last.order.work.environment.HEADRACE_ATTEMPT, '2');
    assert.deepEqual(last.order.work.lent?.map(({ kept: own }) => own?.name).toSorted(), ['fifth', 'first', 'fourth']);
    await last.exit(0);
    assert.match(await runs.rolledUp(request), /^passed/);
  });
});
