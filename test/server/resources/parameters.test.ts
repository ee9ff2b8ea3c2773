import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { stringify } from 'smol-toml';
import type { Scope } from '../../../src/server/http/route.ts';
import { runDueSchedules } from '../../../src/server/triggers/schedules.ts';
import { registerApplication } from '../../support/applications.ts';
import type { Record_ } from '../../support/client.ts';
import { Developer } from '../../support/developer.ts';
import { assertRefused, assertWrongFields } from '../../support/expect.ts';
import { aCommit, describeWithRunner } from '../../support/runner.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

const stage = { name: 'STAGE', type: 'choice', options: ['test', 'live'], required: true };
const count = { name: 'COUNT', type: 'number', default: '3', description: 'How many <b>machines</b>' };
const dry = { name: 'DRY', type: 'boolean' };
const note = { name: 'NOTE', type: 'string' };
const all = [stage, count, dry, note];

describeWithRunner('the parameters of a project', (service, runner) => {
  let alice: User;
  let project: Record_;
  let path: string;
  before(async () => {
    alice = await service.user();
  });
  const fresh = async (parameters: object[] = all): Promise<void> => {
    project = await alice.createProject({
      name: `Mill ${Math.random()}`,
      repository_url: 'git@example.org:team/mill.git',
    });
    path = `/projects/${project.id}`;
    await alice.createSuite(project, { name: 'unit' });
    await put({ parameters });
  };
  const put = (json: object) => service.api.put(path, { as: alice.credentials, json });
  const ask = (variables: Record<string, string> = {}) =>
    service.api.post(`${path}/build_requests`, { as: alice.credentials, json: { commit_ref: 'main', variables } });
  const asked = async (): Promise<Record_[]> => (await alice.get(`${path}/build_requests`)).list;
  /** What the next build has of these variables. */
  const built = async () => {
    await (await runner.take('fetch_commit')).fetched();
    const build = await runner.take('run_suite');
    await build.exit(0);
    const { environment } = build.order.work;
    return Object.fromEntries(all.flatMap(({ name }) => (name in environment ? [[name, environment[name]]] : [])));
  };

  test('are a field of it, and refused by their number and field', async () => {
    await fresh();
    const whole = { default: '', options: [], description: '', required: false };
    assert.deepEqual(
      (await alice.get(path)).record.parameters,
      all.map((one) => ({ ...whole, ...one })),
    );
    await alice.post(`${path}/environment_variables`, { name: 'TOKEN', content: 'x' });
    const wrong: [object[], Record<string, string>][] = [
      [[{}], { 'parameters[0][name]': 'is_blank', 'parameters[0][type]': 'is_blank' }],
      [[note, { ...note }], { 'parameters[1][name]': 'already_exists' }],
      [[{ ...note, name: 'CI' }], { 'parameters[0][name]': 'is_reserved' }],
      [
        [{ ...note, name: 'a b', type: 'text' }],
        { 'parameters[0][name]': 'invalid_format', 'parameters[0][type]': 'invalid_format' },
      ],
      [[note, { ...note, name: 'TOKEN' }], { 'parameters[1][name]': 'invalid_format' }],
      [[{ ...note, options: ['x'] }], { 'parameters[0][options]': 'invalid_format' }],
      [[{ ...stage, options: [] }], { 'parameters[0][options]': 'is_blank' }],
      [[{ ...stage, default: 'other' }], { 'parameters[0][default]': 'invalid_format' }],
      [[{ ...dry, default: 'yes' }], { 'parameters[0][default]': 'invalid_format' }],
      ...['1e3', '.5', '1,5', '0x1', '1.', ' 1'].map((value): [object[], Record<string, string>] => [
        [{ ...count, default: value }],
        { 'parameters[0][default]': 'invalid_format' },
      ]),
      [Array.from({ length: 21 }, (_, at) => ({ ...note, name: `N${at}` })), { parameters: 'invalid_format' }],
    ];
    for (const [parameters, fields] of wrong) assertWrongFields(await put({ parameters }), fields);
    assert.equal((await put({ parameters: [] })).status, 200);
    assert.deepEqual((await alice.get(path)).record.parameters, []);
  });

  test('are answered by requests, which are refused if a value does not fit [promise: request-variables]', async () => {
    await fresh();
    const refused: [Record<string, string>, Record<string, string>][] = [
      [{}, { 'variables[STAGE]': 'is_blank' }],
      [{ STAGE: '' }, { 'variables[STAGE]': 'is_blank' }],
      [
        { STAGE: 'other', DRY: 'yes' },
        { 'variables[STAGE]': 'invalid_format', 'variables[DRY]': 'invalid_format' },
      ],
      [{ STAGE: 'live', COUNT: 'many' }, { 'variables[COUNT]': 'invalid_format' }],
    ];
    for (const [variables, fields] of refused) assertWrongFields(await ask(variables), fields);
    await runner.assertIdle();
    assert.deepEqual((await ask({ STAGE: 'live', DRY: '', OTHER: 'x' })).record.variables, {
      STAGE: 'live',
      COUNT: '3',
      OTHER: 'x',
    });
    assert.deepEqual(await built(), { STAGE: 'live', COUNT: '3' });
    await ask({ STAGE: 'test', COUNT: '-0.5', DRY: 'true', NOTE: 'two\nlines' });
    assert.deepEqual(await built(), { STAGE: 'test', COUNT: '-0.5', DRY: 'true', NOTE: 'two\nlines' });

    // Later secrets of the same name win, and are not asked for.
    await alice.post(`${path}/environment_variables`, { name: 'STAGE', content: 'secret-stage' });
    assertWrongFields(await ask({ STAGE: 'live' }), { 'variables[STAGE]': 'invalid_format' });
    assert.equal((await ask()).status, 201);
    assert.deepEqual(await built(), { STAGE: 'secret-stage', COUNT: '3' });

    // A token needs the same scope for an answer as for any variable.
    const application = await registerApplication(service, alice);
    const scopes: Scope[] = ['build_requests_create', 'projects'];
    const headers = { authorization: `Bearer ${await application.token(alice, scopes)}` };
    const variables = { DRY: 'true' };
    for (const [of, json] of [
      ['build_requests', { commit_ref: 'main', variables }],
      ['schedules', { cron: '0 3 * * *', variables }],
    ] as const)
      assertRefused(await service.api.post(`${path}/${of}`, { headers, json }), 401, { generic: ['unauthorized'] });
  });

  test('have their defaults in triggered builds, which are never refused, and schedules answer them', async () => {
    await fresh([{ ...stage, default: '' }, count, dry]);
    const schedules = `${path}/schedules`;
    const add = (variables: object) =>
      service.api.post(schedules, { as: alice.credentials, json: { cron: '0 3 * * *', variables } });
    assertWrongFields(await add({ STAGE: 'nowhere', CI: 'x' }), { 'variables[CI]': 'is_reserved' });
    assertWrongFields(await add({ STAGE: 'nowhere' }), { 'variables[STAGE]': 'invalid_format' });
    const { record } = await add({ STAGE: 'live', COUNT: '9', B: 'x', A: 'y' });
    assert.deepEqual(record.variables, { A: 'y', B: 'x', COUNT: '9', STAGE: 'live' });
    const run = async (): Promise<unknown> => {
      const { next_run_at: due } = (await alice.get(`${schedules}/${record.id}`)).record;
      await runDueSchedules(service.store, Date.parse(String(due)), (error) => {
        throw error;
      });
      await built();
      return (await asked())[0]?.variables;
    };
    assert.deepEqual(await run(), { A: 'y', B: 'x', COUNT: '9', STAGE: 'live' });
    // A value that no longer fits gives way to the default, and a required one without a value is left out.
    await put({
      parameters: [
        { ...stage, options: ['test'] },
        { ...count, type: 'boolean', default: 'true' },
      ],
    });
    assert.deepEqual(await run(), { A: 'y', B: 'x', COUNT: 'true' });
    const changed = await alice.put(`${schedules}/${record.id}`, { cron: '0 4 * * *' });
    assert.equal(changed.status, 200, 'only variables that are sent are checked');
    assert.deepEqual((await alice.put(`${schedules}/${record.id}`, { variables: '' })).record.variables, {});
  });

  test('come from the file of the default branch only, and guarded variables keep their builds [promise: branch-file]', async () => {
    await fresh([]);
    await alice.put(path, { config_file: '.headrace.toml' });
    const suites = [{ name: 'unit', command: 'make' }];
    let head: string | null = null;
    let number = 0xaaa000;
    const fetch = async (file: object) => {
      const { record } = await ask();
      const task = await runner.take('fetch_commit');
      const sha = (number += 1).toString(16).padStart(40, '0');
      const config = { text: stringify(file), path: '.headrace.toml', before: head };
      await task.finish({ kind: 'fetched', commit: { ...aCommit, sha }, config });
      const log = (await alice.get(`${path}/build_requests/${record.id}/log.txt`)).text;
      const { build_state: state } = (await alice.get(`${path}/build_requests/${record.id}`)).record;
      if (state !== 'errored') {
        head = sha;
        await (await runner.take('run_suite')).exit(0);
      }
      return log;
    };
    const names = async () =>
      ((await alice.get(path)).record.parameters as { name: string }[]).map(({ name }) => name).join();
    const open = { cron: '0 6 * * *', variables: { MODE: 'fast' } };
    await fetch({ suites, schedules: [open], parameters: [{ name: 'MODE', type: 'string' }] });
    assert.equal(await names(), 'MODE');
    assert.deepEqual((await alice.get(`${path}/schedules`)).list[0]?.variables, open.variables);
    assert.match(
      await fetch({ suites, parameters: [{ ...note, type: 'odd' }] }),
      /\.headrace\.toml:\d+: parameters\[0\]\[type\]/,
    );
    assert.equal(await names(), 'MODE');
    const schedule = { cron: '0 5 * * *', variables: { BASH_ENV: 'evil.sh' } };
    await alice.post(`${path}/environment_variables`, { name: 'KEY', content: 'x', 'refs[]': 'refs/tags/v*' });
    const log = await fetch({ suites, schedules: [schedule], parameters: [{ ...note, default: 'evil' }] });
    assert.match(log, /Parameters and variables of schedules stay unchanged/);
    assert.equal(await names(), 'MODE');
    assert.deepEqual(
      (await alice.get(`${path}/schedules`)).list.map(({ variables }) => variables),
      [{}],
    );
    // Whoever owns the project says it by a document, and gets it back.
    const { document } = (await alice.get(`${path}/config`)).record;
    const own = { ...(JSON.parse(String(document)) as object), schedules: [open, schedule], parameters: [stage, note] };
    const applied = await alice.put(`${path}/config`, { document: JSON.stringify(own) });
    assert.equal(applied.status, 200, applied.text);
    const exported = JSON.parse(String((await alice.get(`${path}/config`)).record.document)) as typeof own;
    assert.deepEqual(
      [exported.parameters, exported.schedules],
      [
        [stage, note],
        [open, schedule],
      ],
    );
    const secret = { ...own, variables: [{ name: 'NOTE', keep: true }] };
    assertWrongFields(await alice.put(`${path}/config`, { document: JSON.stringify(secret), prune: 'true' }), {
      'parameters[1][name]': 'invalid_format',
    });
  });

  test('are asked for on a page and set by headrace run', async () => {
    await fresh();
    const tab = new Tab(service);
    await tab.signIn(alice.credentials);
    const at = `/ui${path}/run`;
    assert.match((await tab.get(`/ui${path}`)).text, new RegExp(`href="${at}">Run<`));
    const page = await tab.get(at);
    assert.match(page.text, /How many &lt;b&gt;machines&lt;\/b&gt;/);
    assert.match(page.text, /<button[^>]*>\s*Run build/);
    const fields = {
      do: 'run',
      commit_ref: 'main',
      'variables[STAGE]': '',
      'variables[COUNT]': 'x',
      others: 'TOO=1',
    };
    const refused = await tab.submit(page, at, fields);
    assert.equal(refused.status, 403);
    const text = refused.text.replaceAll(/\s+/g, ' ');
    assert.match(text, /no decimal number/);
    assert.match(text, /STAGE is missing/);
    for (const others of ['TOO=1\n1=2', 'TOO', 'TOO=1\nTOO=2']) {
      const again = await tab.submit(page, at, { ...fields, others });
      assert.match(again.text.replaceAll(/\s+/g, ' '), /name="others"[^>]*> ?TOO[^<]*<\/textarea> <p class="mistake"/);
    }
    const sent = await tab.submit(page, at, {
      ...fields,
      'variables[STAGE]': 'live',
      'variables[COUNT]': '4',
      others: 'TOO=1',
    });
    assert.equal(sent.status, 303);
    assert.deepEqual((await asked())[0]?.variables, { STAGE: 'live', COUNT: '4', TOO: '1' });
    await built();

    const settings = `/ui${path}/settings/parameters`;
    const row = { 'parameters[0][name]': 'MODE', 'parameters[0][type]': 'choice', 'parameters[0][required]': '' };
    const form = { do: 'save', ...row, 'parameters[0][options][]': 'a\r\nb', 'parameters[1][type]': 'string' };
    assert.equal((await tab.submit(await tab.get(settings), settings, form)).status, 303);
    const mode = { name: 'MODE', type: 'choice', default: '', options: ['a', 'b'], description: '', required: false };
    assert.deepEqual((await alice.get(path)).record.parameters, [mode]);

    const developer = await Developer.of(service, alice);
    const inProject = ['--project', String(project.name)];
    const unknown = await developer.run(['run', 'main', '--set', 'MOOD=a', ...inProject]);
    assert.equal(unknown.status, 2);
    assert.match(unknown.err, /no parameter MOOD\. It has: MODE/);
    const wrong = await developer.run(['run', 'main', '--set', 'MODE=c', ...inProject]);
    assert.match(wrong.err, /variables\[MODE\] is not valid/);
    assert.equal(
      (await developer.run(['run', 'main', '--set', 'MODE=b', '--variable', 'X=1', ...inProject])).status,
      0,
    );
    assert.deepEqual((await asked())[0]?.variables, { MODE: 'b', X: '1' });
    await built();
  });
});
