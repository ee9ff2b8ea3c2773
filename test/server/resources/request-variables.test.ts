import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { Scope } from '../../../src/server/http/route.ts';
import { registerApplication } from '../../support/applications.ts';
import { assertCreated, assertRefused, assertWrongFields } from '../../support/expect.ts';
import type { Record_ } from '../../support/client.ts';
import { Developer } from '../../support/developer.ts';
import { describeWithRunner } from '../../support/runner.ts';
import type { User } from '../../support/user.ts';

describeWithRunner('the variables of a build request', (service, runner) => {
  let alice: User;
  let project: Record_;
  let path: string;
  let suite: Record_;
  before(async () => {
    alice = await service.user();
    project = await alice.createProject({ name: 'Lock', repository_url: 'git@example.org:team/lock.git' });
    path = `/projects/${project.id}`;
    suite = await alice.createSuite(project, { 'matrix[]': 'NODE=20' });
    await alice.createVariable(project, suite, { name: 'TOKEN', content: 'of-the-suite' });
    await alice.createVariable(project, suite, { name: 'STAGE', content: 'production', secret: 'false' });
    await alice.post(`${path}/environment_variables`, { name: 'WIDE', content: 'of-the-project' });
    await alice.post(`${path}/environment_variables`, { name: 'REGION', content: 'north', secret: 'false' });
  });
  const ask = (variables: Record<string, string>) =>
    alice.post(`${path}/build_requests`, {
      commit_ref: 'main',
      ...Object.fromEntries(Object.entries(variables).map(([name, value]) => [`variables[${name}]`, value])),
    });
  const ran = async () => {
    const build = await runner.take('run_suite');
    await build.exit(0);
    return build.order.work;
  };

  test('reach its builds, win over what is no secret, are shown, and stay for its reruns', async () => {
    const variables = {
      STAGE: 'test',
      REGION: ' two\nlines ',
      NODE: '24',
      EXTRA: '',
      PATH: '/opt:/bin',
      LD_PRELOAD: 'x.so',
    };
    const asked = await ask(variables);
    assertCreated(asked, Object.keys(asked.record).join(' '));
    assert.deepEqual(asked.record.variables, variables);
    await (await runner.take('fetch_commit')).fetched();
    const expected = { ...variables, NODE: '20', TOKEN: 'of-the-suite', WIDE: 'of-the-project', CI: 'true' };
    for (const again of [false, true]) {
      if (again) await alice.post(`${path}/build_requests/${asked.record.id}/rerun`);
      const { environment, secrets } = await ran();
      const seen = Object.fromEntries(Object.keys(expected).map((name) => [name, environment[name]]));
      assert.deepEqual(seen, expected, 'a variant is what it says');
      assert.deepEqual(secrets.toSorted(), ['of-the-project', 'of-the-suite']);
    }
    assert.deepEqual((await alice.get(`${path}/build_requests/${asked.record.id}`)).record.variables, variables);
    const json = { commit_ref: 'main', variables: { STAGE: 'json' } };
    const sent = await service.api.post(`${path}/build_requests`, { as: alice.credentials, json });
    assert.deepEqual(sent.record.variables, json.variables);
    await (await runner.take('fetch_commit')).fetched();
    assert.equal((await ran()).environment['STAGE'], 'json');
    const plain = await alice.requestBuild(project);
    assert.deepEqual(plain.variables, {});
    await (await runner.take('fetch_commit')).fetched();
    assert.equal((await ran()).environment['STAGE'], 'production');
  });

  test('cannot take the place of a secret, nor of what the service says [promise: request-variables]', async () => {
    const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, at) => [`V${at}`, 'x']));
    const refused: [Record<string, string>, string][] = [
      [{ CI: 'false' }, 'is_reserved'],
      [{ HEADRACE_COMMIT: 'f'.repeat(40) }, 'is_reserved'],
      [{ HEADRACEX: 'x' }, 'is_reserved'],
      [{ TOKEN: 'mine' }, 'invalid_format'],
      [{ WIDE: 'mine' }, 'invalid_format'],
      [{ GOOD: 'x', WIDE: 'mine' }, 'invalid_format'],
      [{ 'A-B': 'x' }, 'invalid_format'],
      [{ '1A': 'x' }, 'invalid_format'],
      [{ NUL: 'a\0b' }, 'invalid_format'],
      [{ LARGE: 'x'.repeat(32_769) }, 'invalid_format'],
    ];
    for (const [variables, code] of refused) {
      const [wrong] = Object.keys(variables).filter((name) => name !== 'GOOD');
      assertWrongFields(await ask(variables), { [`variables[${wrong}]`]: code });
    }
    assertWrongFields(await ask({ CI: 'false', GOOD: 'x', '1A': 'x' }), {
      'variables[CI]': 'is_reserved',
      'variables[1A]': 'invalid_format',
    });
    assertWrongFields(await ask({ TOKEN: 'mine', GOOD: 'x', WIDE: 'mine' }), {
      'variables[TOKEN]': 'invalid_format',
      'variables[WIDE]': 'invalid_format',
    });
    for (const variables of [{ ONE: 'x'.repeat(32_768), TWO: 'x'.repeat(32_768) }, many(51)])
      assertWrongFields(await ask(variables), { variables: 'invalid_format' });
    for (const form of [{ variables: 'A=b' }, { 'variables[]': 'A=b' }])
      assertWrongFields(await alice.post(`${path}/build_requests`, { commit_ref: 'main', ...form }), {
        variables: 'invalid_format',
      });
    for (const value of [1, true, null, ['x'], { A: 'x' }]) {
      const json = { commit_ref: 'main', variables: { A: value } };
      const answer = await service.api.post(`${path}/build_requests`, { as: alice.credentials, json });
      assertWrongFields(answer, { 'variables[A]': 'invalid_format' });
    }
    assert.ok([403, 413].includes((await ask({ HUGE: 'x'.repeat(1_048_576) })).status));
    await runner.assertIdle();
    // One that another project has as a secret is free, and so are fifty.
    const other = await alice.createProject();
    await alice.post(`/projects/${other.id}/environment_variables`, { name: 'V1', content: 'of-another' });
    const asked = (await ask(many(50))).record;
    // A secret that is made, or becomes one, after the request wins when its builds run.
    await alice.post(`${path}/environment_variables`, { name: 'V2', content: 'made-later' });
    await alice.createVariable(project, suite, { name: 'V3', content: 'made-later-too' });
    await (await runner.take('fetch_commit')).fetched();
    const { environment, secrets } = await ran();
    assert.deepEqual([environment['V1'], environment['V2'], environment['V3']], ['x', 'made-later', 'made-later-too']);
    assert.equal(secrets.length, 4);
    assert.equal(Object.keys(asked.variables as object).length, 50);
  });

  test('are sent by a token only if it may change suites, which can print secrets too [promise: request-variables]', async () => {
    const application = await registerApplication(service, alice);
    const send = async (scopes: readonly Scope[], variables: Record<string, string>) => {
      const headers = { authorization: `Bearer ${await application.token(alice, scopes)}` };
      return service.api.post(`${path}/build_requests`, { headers, json: { commit_ref: 'main', variables } });
    };
    const starting: Scope[] = ['build_requests_create', 'build_requests', 'projects', 'commits', 'shells', 'deploys'];
    // The last two would also tell which names are those of secrets.
    for (const variables of [
      { BASH_ENV: '$(env | base64 >&2)' },
      { GOOD: '' },
      { TOKEN: 'x' },
      { WIDE: 'x', GOOD: 'x' },
    ])
      assertRefused(await send(starting, variables), 401, { generic: ['unauthorized'] });
    await runner.assertIdle();
    const changing: Scope[] = [...starting, 'suites'];
    assertWrongFields(await send(changing, { TOKEN: 'x' }), { 'variables[TOKEN]': 'invalid_format' });
    const allowed: [readonly Scope[], Record<string, string>][] = [
      [starting, {}],
      [changing, { GOOD: 'x' }],
    ];
    for (const [scopes, variables] of allowed) {
      assert.equal((await send(scopes, variables)).status, 201);
      await (await runner.take('fetch_commit')).fetched();
      assert.equal((await ran()).environment['GOOD'], variables['GOOD']);
    }
  });

  test('go to builds of forks as well, where they are all that somebody gives them', async () => {
    const fork = {
      branches: [],
      tags: [],
      branch: null,
      ref: 'refs/pull/7/head',
      defaultHead: 'kept' as const,
      sha: 'e'.repeat(40),
    };
    await alice.post(`${path}/build_requests`, { commit_ref: 'refs/pull/7/head', 'variables[STAGE]': 'fork' });
    await (await runner.take('fetch_commit')).fetched(fork);
    const { environment, secrets, isFork } = await ran();
    assert.deepEqual(
      [isFork, environment['STAGE'], environment['REGION'], environment['TOKEN'], secrets],
      [true, 'fork', undefined, undefined, []],
    );
  });

  test('are given on the command line', async () => {
    const developer = await Developer.of(service, alice);
    developer.clone('git@example.org:team/lock.git');
    const wrong = await developer.run(['run', 'main', '--variable', 'STAGE']);
    assert.deepEqual([wrong.status, wrong.err], [2, 'headrace: Write a variable as NAME=value, not as STAGE\n']);
    const run = await developer.run(['run', 'main', '--variable', 'STAGE=a=b', '--variable', 'OTHER=', '--json']);
    assert.deepEqual([run.status, JSON.parse(run.out).variables], [0, { STAGE: 'a=b', OTHER: '' }]);
    await (await runner.take('fetch_commit')).fetched();
    assert.equal((await ran()).environment['STAGE'], 'a=b');
  });
});
