import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { WorkflowFile } from '../../../src/shared/domain/workflow-files.ts';
import type { Record_ } from '../../support/client.ts';
import { longestTurn } from '../../support/event-loop.ts';
import { describeService } from '../../support/service.ts';
import { ci, seen } from '../../support/workflows.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

describeService('files of other CI systems, on the server', (service) => {
  let alice: User;
  let tab: Tab;
  before(async () => {
    alice = await service.user();
    tab = new Tab(service);
    await tab.signIn(alice.credentials);
  });

  const found = async (...workflows: WorkflowFile[]) => {
    const project = await alice.createProject();
    await seen(service, project, workflows);
    return { project, path: `/projects/${project.id}/import` };
  };
  const suitesOf = async (project: Record_): Promise<string[]> =>
    (await alice.get(`/projects/${project.id}/suites`)).list.map(({ name }) => String(name));

  test('are shown as one file with what it leaves out, and become suites when that file is sent', async () => {
    const { project, path } = await found(ci);
    const { status, record } = await alice.get(path);
    assert.equal(status, 200);
    assert.deepEqual(Object.keys(record), ['toml', 'suites', 'carried', 'total', 'left_out', 'to_set', 'mistakes']);
    assert.deepEqual([record.suites, record.mistakes], [['build', 'test'], []]);
    assert.equal(Number(record.total), Number(record.carried) + 1);
    assert.match(String(record.to_set), /NPM_TOKEN/);
    const [left] = record.left_out as Record_[];
    assert.deepEqual([left?.file, left?.line], [ci.path, 16]);
    assert.match(String(left?.what), /some\/action@v1/);
    assert.deepEqual(await suitesOf(project), []);
    const toml = String(record.toml);
    const trial = (await alice.post(path, { toml, dry_run: 'true' })).record;
    assert.equal(trial.applied, false);
    assert.deepEqual(await suitesOf(project), []);
    const made = (await alice.post(path, { toml })).record;
    assert.equal(made.applied, true);
    assert.deepEqual(made.changes, trial.changes);
    assert.deepEqual(await suitesOf(project), ['build', 'test']);
    // A secret is for a person to set: it is not made without a value, and does not hinder the rest.
    assert.deepEqual((await alice.get(`/projects/${project.id}/environment_variables`)).list, []);
    const again = await alice.post(path, { toml });
    assert.deepEqual([again.status, again.body.error], [403, { toml: ['invalid_format'] }]);
    assert.match(String(again.body.message), /^\.headrace\.toml:\d+: suites\[build\]\[name\] appears twice\.$/m);
  });

  test('keep what the project has: its variables, its settings and its suites of other names', async () => {
    const { project, path } = await found(ci);
    await alice.post(`/projects/${project.id}/environment_variables`, { name: 'NPM_TOKEN', content: 'own' });
    await alice.put(`/projects/${project.id}`, { description: 'Weirs' });
    await alice.createSuite(project, { name: 'lint' });
    const { toml } = (await alice.get(path)).record;
    // Meanwhile another user adds something that the shown file does not have.
    await alice.createSuite(project, { name: 'docs' });
    assert.equal((await alice.post(path, { toml: String(toml) })).status, 200);
    assert.deepEqual((await suitesOf(project)).toSorted(), ['build', 'docs', 'lint', 'test']);
    assert.equal((await alice.get(`/projects/${project.id}`)).record.description, 'Weirs');
    const [{ name, content } = {} as Record_] = (await alice.get(`/projects/${project.id}/environment_variables`)).list;
    assert.deepEqual([name, content], ['NPM_TOKEN', 'own']);
  });

  test('are refused with lines, and change nothing', async () => {
    const { project, path } = await found(ci);
    for (const [toml, message] of [
      ['[[suites]]\nname = "a"\ncommand = "make"\ntimout = 3\n', /^\.headrace\.toml:4: .*timout/],
      [
        '[[suites]]\nname = "a"\ncommand = "make"\ndependencies = ["none"]\n',
        /^\.headrace\.toml:4: .*You have no dependency/,
      ],
      ['description = "x"\n[[suites]]\nname = "a"\ncommand = "make"\n', /^\.headrace\.toml:1: description: only/],
      ['[[hooks]]\nprovider = "github"\n[[suites]]\nname = "a"\ncommand = "x"\n', /hooks: only suites/],
      ['suites = 3', /^\.headrace\.toml/],
      ['= = =', /cannot be read/],
      [`a = ${'['.repeat(5000)}`, /cannot be read|nested/],
    ] as const) {
      const { status, body } = await alice.post(path, { toml });
      assert.deepEqual([status, body.error], [403, { toml: ['invalid_format'] }], toml.slice(0, 80));
      assert.match(String(body.message), message);
    }
    assert.deepEqual((await alice.post(path, {})).body.error, { toml: ['is_blank'] });
    assert.deepEqual(await suitesOf(project), []);
  });

  test('are for those who may change the settings as a whole', async () => {
    const { project, path } = await found(ci);
    const [friend, stranger] = [await service.user('collaborator'), await service.user()];
    await alice.invite(project, friend);
    for (const [user, status] of [
      [friend, 401],
      [stranger, 404],
    ] as const) {
      assert.equal((await user.get(path)).status, status);
      assert.equal((await user.post(path, { toml: '' })).status, status);
    }
    const his = new Tab(service);
    await his.signIn(friend.credentials);
    const setup = `/ui/projects/${project.id}/setup`;
    assert.doesNotMatch((await his.get(setup)).text, />\s*Import\s*</);
    assert.notEqual((await his.get(`${setup}/import`)).status, 200);
  });

  test('are not read where the repository has a file of its own, or nothing was found', async () => {
    const project = await alice.createProject();
    const path = `/projects/${project.id}/import`;
    assert.deepEqual((await alice.get(path)).body.error, { generic: ['resource_temporary_unavailable'] });
    await seen(service, project, [ci], ['.headrace.toml', 'Makefile']);
    const { status, body } = await alice.get(path);
    assert.deepEqual([status, body.error], [403, { generic: ['already_exists'] }]);
    const setup = `/ui/projects/${project.id}/setup`;
    const page = (await tab.get(setup)).text;
    assert.match(page, /The repository has a <code>\.headrace\.toml<\/code>/);
    assert.doesNotMatch(page, /action="[^"]*\/import"/);
    await alice.put(`/projects/${project.id}`, { config_file: '.headrace.toml' });
    assert.match((await tab.get(setup)).text, /Each commit is built by it/);
  });

  test('may be hostile: others are answered meanwhile, and what cannot be read is named [promise: untrusted-input]', async () => {
    const bomb = Array.from({ length: 40 }, (_, at) => `a${at}: &a${at} [${`*a${at - 1}, `.repeat(9)}x]`).join('\n');
    const { path } = await found(
      { path: 'x/bomb.yml', text: bomb.replaceAll('*a-1, ', '') },
      { path: 'x/deep.yml', text: `a: ${'['.repeat(60_000)}` },
      { path: 'x/list.yml', text: '- 1\n- 2' },
      { path: 'x/left.yml', problem: 'x/left.yml has more than 128 kB, the limit.' },
      { path: '.gitlab-ci.yml', text: `build: { script: make, nope: 1 }\n${'# x\n'.repeat(30_000)}` },
      ci,
    );
    const { result, longestMs } = await longestTurn(() => alice.get(path));
    assert.equal(result.status, 200, JSON.stringify(result.body));
    const files = (result.record.left_out as Record_[]).map(({ file }) => file);
    for (const name of ['bomb', 'deep', 'list', 'left']) assert.ok(files.includes(`x/${name}.yml`), name);
    assert.ok((result.record.suites as string[]).length >= 3);
    assert.ok(longestMs < 250, `${longestMs} ms`);
  });

  test('have limits: 100 files of jobs become one file of at most 128 kB, or none', async () => {
    const job = (at: number): string => `j${at}: { runs-on: ubuntu-latest, steps: [{ run: '${'x'.repeat(2000)}' }] }`;
    const text = `on: push\njobs:\n${Array.from({ length: 40 }, (_, at) => `  ${job(at)}`).join('\n')}`;
    const { path } = await found(
      ...Array.from({ length: 10 }, (_, at) => ({ path: `.github/workflows/${at}.yml`, text })),
    );
    const { record } = await alice.get(path);
    assert.equal(record.toml, '');
    assert.deepEqual(record.mistakes, ['.headrace.toml has more than 128 kB, the limit.']);
    const keys = `on: push\njobs:\n${Array.from({ length: 3000 }, (_, at) => `  j${at}: { nope: 1 }`).join('\n')}`;
    const many = await found({ path: '.github/workflows/a.yml', text: keys });
    assert.ok(((await alice.get(many.path)).record.left_out as unknown[]).length <= 1000);
  });

  test('a page shows them and makes what it showed, without scripts', async () => {
    const hostile = `on: push\njobs:\n  "<script>x</script>":\n    name: '</textarea><script>alert(1)</script>'\n    runs-on: ubuntu-latest\n    steps: [{ run: make }, { uses: 'a/b@<img src=x>' }]\n`;
    const { project } = await found({ path: '.github/workflows/<b>.yml', text: hostile }, ci);
    const setup = `/ui/projects/${project.id}/setup`;
    const page = await tab.get(setup);
    assert.match(page.text, new RegExp(`<form method="get" action="${setup}/import"`));
    assert.match(page.text, />Import</);
    assert.doesNotMatch(page.text, /<b>\.yml/);
    const shown = await tab.get(`${setup}/import`);
    assert.equal(shown.status, 200);
    assert.doesNotMatch(shown.text, /<script>(?:x|alert)|<img src=x>|<b>\.yml/);
    assert.match(shown.text, /&lt;img src=x/);
    const [, text = ''] = /<textarea[^>]*>([^<]*)<\/textarea>/.exec(shown.text) ?? [];
    const toml = text
      .replace(/^\n/, '')
      .replaceAll('&lt;', '<')
      .replaceAll('&gt;', '>')
      .replaceAll('&quot;', '"')
      .replaceAll('&#39;', "'")
      .replaceAll('&amp;', '&');
    // The repository changes after the look. The suites are those that the user saw.
    await seen(service, project, [{ path: '.travis.yml', text: 'language: c\nscript: evil' }]);
    const wrong = await tab.submit(shown, `${setup}/import`, { do: 'make', toml: `${toml}\n[[suites]]\nnme = "x"\n` });
    assert.equal(wrong.status, 403);
    assert.match(wrong.text, /role="alert">[^]*?\.headrace\.toml:\d+: [^<]*nme/);
    assert.match(wrong.text, /nme = &quot;x&quot;/);
    const done = await tab.submit(shown, `${setup}/import`, { do: 'make', toml: toml.replaceAll('\n', '\r\n') });
    assert.deepEqual(
      [done.status, done.headers.location],
      [303, `/ui/projects/${project.id}/settings/suites?done=added`],
    );
    const names = await suitesOf(project);
    assert.equal(names.length, 3);
    assert.ok(names.includes('build'));
    const answer = await tab.post(`${setup}/import`, { do: 'make', toml });
    assert.notEqual(answer.status, 303, 'a form without its key');
  });
});
