import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createHmac } from 'node:crypto';
import { parse as parseToml } from 'smol-toml';
import { before, test } from 'node:test';
import type { Answer, Record_ } from '../../support/client.ts';
import { Developer, tokenOf } from '../../support/developer.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import type { User } from '../../support/user.ts';

const file = `name = "Sluice"
repository_url = "git@example.org:team/sluice.git"
description = "Gates and weirs"
poll_interval = 60
fork_builds = "approval"
cancel_superseded = "waiting"
public_badge = true

[[variables]]
name = "REGION"
content = "north"
secret = false

[[variables]]
name = "TOKEN"
from_env = "SLUICE_TOKEN"

[[suites]]
name = "unit"
command = "make test"
tags = [ "linux" ]
timeout = 600
allow_failure = true
retries = 2
matrix = [ "CC=gcc,clang" ]
image = "docker.io/library/debian:13"
reuse = "on"
inputs = [ "src", "*.json" ]
ignore_variables = [ "REGION" ]
reuse_days = 7
uses_request = true
cache = [ "~/.cache" ]
cache_save = "always"
artifacts = [ "out/**" ]
reports = [ "reports/*.xml" ]

[[suites.rules]]
subject = "commit.branches"
operator = "equals"
value = "main"

[[suites.variables]]
name = "TOKEN"
from_env = "SLUICE_TOKEN"

[[suites.variables]]
name = "MODE"
from_env = "SLUICE_MODE"
secret = false

[[suites]]
name = "lint"
dependencies = [ "lua" ]

[[suites.steps]]
name = "prepare"
command = "make tools"

[[suites.steps]]
name = "lint"
command = "make lint\\nmake format"

[[suites.steps]]
name = "tell"
command = "tools/tell 'it failed'"
when = "failed"

[[suites.services]]
name = "db"
image = "postgres:17"
data = [ "/srv/data" ]

[[suites.services.variables]]
name = "PASSWORD"
content = ""
from = "TOKEN"

[[suites.services]]
name = "queue"
image = "docker.io/library/redis:7"

[[deploy_strategies]]
name = "live"
strategy_type = "git"
repository_url = "deploy@example.org:live.git"
local_branch = "main"
remote_branch = "production"

[[hooks]]
provider = "github"
events = [ "push" ]

[[schedules]]
cron = "0 3 * * *"

[[notifications]]
notifiable_type = "build"
name = "webhook"
url = "https://receiver.example.org/secret-path"
`;

const signed = (body: string, secret: string) => ({
  'x-hub-signature-256': `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`,
});

describeServiceOnOne('a project as a document', (service) => {
  let alice: User;
  let project: Record_;
  let developer: Developer;
  let path: string;
  const env = { SLUICE_TOKEN: 'a-token-of-the-sluice', SLUICE_MODE: 'fast' };
  before(async () => {
    alice = await service.user();
    project = await alice.createProject({ name: 'Sluice', repository_url: 'git@example.org:team/sluice.git' });
    await alice.createDependency({ name: 'lua' });
    developer = await Developer.of(service, alice);
    developer.clone('git@example.org:team/sluice.git');
    path = join(developer.folder, 'project.toml');
    writeFileSync(path, file);
  });

  const applyFile = (place: string, ...args: string[]) =>
    developer.run(['apply', '-f', place, ...Object.keys(env).map((name) => `--from-env=${name}`), ...args], '', env);
  const apply = (...args: string[]) => applyFile(path, ...args);
  const config = async (): Promise<string> =>
    String((await alice.get(`/projects/${project.id}/config`)).record.document);
  const configure = (document: object, fields: Record<string, string> = {}): Promise<Answer> =>
    alice.put(`/projects/${project.id}/config`, { document: JSON.stringify(document), ...fields });
  /** Without the variables of the environment: they are shown each time, before their values are sent. */
  const changesIn = (out: string): string => out.replaceAll(/^variable .*\n/gm, '');
  const entries = async (): Promise<number> =>
    (await service.store.db.read.selectFrom('audit_entries').select('id').execute()).length;

  test('is shown, applied once, and then the same', async () => {
    const shown = await apply('--dry-run');
    assert.deepEqual([shown.status, shown.err], [0, '']);
    assert.equal(
      shown.out,
      [
        '+ variable REGION',
        '+ variable TOKEN',
        '+ suite unit',
        '+ suite lint',
        '+ deploy strategy live',
        '+ hook github',
        '~ project',
        '    description: "" → "Gates and weirs"',
        '    poll_interval: "0" → "60"',
        '    fork_builds: "without_secrets" → "approval"',
        '    cancel_superseded: "none" → "waiting"',
        '    public_badge: "false" → "true"',
        '+ notification build https://receiver.example.org/secret-path',
        '+ schedule 0 3 * * * UTC',
        'variable TOKEN of the project ← environment variable SLUICE_TOKEN (new)',
        'variable TOKEN of suite unit ← environment variable SLUICE_TOKEN (new)',
        'variable MODE of suite unit ← environment variable SLUICE_MODE (new)',
        '',
      ].join('\n'),
    );
    assert.equal((await apply('--check')).status, 1);
    assert.deepEqual((await alice.get(`/projects/${project.id}/suites`)).list, [], 'nothing was changed');

    const before_ = await entries();
    const applied = await apply();
    assert.deepEqual([applied.status, applied.err], [0, '']);
    assert.match(applied.out, /\nSluice now matches .*project\.toml\.\n$/);
    assert.ok((await entries()) - before_ >= 11, 'every change has its own entry');
    const written = await entries();
    for (const args of [['--check'], ['--dry-run'], []]) {
      const again = await apply(...args);
      assert.deepEqual([again.status, changesIn(again.out), again.err], [0, 'Nothing to change in Sluice.\n', '']);
    }
    assert.equal(await entries(), written);

    const [unit] = (await alice.get(`/projects/${project.id}/suites`)).list;
    const variables = `/projects/${project.id}/suites/${unit?.id}/environment_variables`;
    assert.deepEqual(
      (await alice.get(variables)).list.map(({ name, content, secret }) => [name, content, secret]),
      [
        ['TOKEN', env.SLUICE_TOKEN, true],
        ['MODE', env.SLUICE_MODE, false],
      ],
    );
    assert.deepEqual(
      (await alice.get(`/projects/${project.id}/environment_variables`)).list.map(({ name, content }) => [
        name,
        content,
      ]),
      [
        ['REGION', 'north'],
        ['TOKEN', env.SLUICE_TOKEN],
      ],
    );
  });

  test('is exported as it was applied, in each form, without a secret', async () => {
    const { out, status } = await developer.run(['export']);
    assert.deepEqual([status, out], [0, file]);
    for (const form of ['toml', 'yaml', 'json']) {
      const exported = await developer.run(['export', '--format', form]);
      assert.ok(!exported.out.includes(env.SLUICE_TOKEN) && !exported.out.includes('whsec'));
      const place = join(developer.folder, `again.${form}`);
      writeFileSync(place, exported.out);
      const again = await applyFile(place);
      assert.deepEqual([again.status, changesIn(again.out)], [0, 'Nothing to change in Sluice.\n'], exported.out);
      assert.equal((await developer.run(['export', '--format', form])).out, exported.out);
    }
  });

  test('is exported in its own order, and with what it says although it goes without saying', async () => {
    const [head = '', ...parts] = file.split(
      /(?=\[\[(?:variables|suites|deploy_strategies|hooks|schedules|notifications)\]\]\n)/,
    );
    const turned = `${head}${parts.toReversed().join('\n').replace('cron =', 'time_zone = "UTC"\ncron =')}`;
    const place = join(developer.folder, 'turned.toml');
    writeFileSync(place, `# a comment\n${turned}`);
    const again = await applyFile(place);
    assert.deepEqual([again.status, changesIn(again.out), again.err], [0, 'Nothing to change in Sluice.\n', '']);
    const exported = await developer.run(['export']);
    assert.deepEqual(parseToml(exported.out), parseToml(turned));
    assert.deepEqual(Object.keys(parseToml(exported.out)), Object.keys(parseToml(turned)));
    assert.match(exported.out, /time_zone = "UTC"\ncron/);
    assert.equal(changesIn((await apply()).out), 'Nothing to change in Sluice.\n');
    assert.equal((await developer.run(['export'])).out, file);
  });

  test('does not say any more where a value came from that was set otherwise', async () => {
    const [unit] = (await alice.get(`/projects/${project.id}/suites`)).list;
    const variables = `/projects/${project.id}/suites/${unit?.id}/environment_variables`;
    const [token] = (await alice.get(variables)).list;
    await alice.put(`${variables}/${token?.id}`, { secret: 'false' });
    assert.match(await config(), /"from_env":"SLUICE_TOKEN"/, 'its content is the same');
    await alice.put(`${variables}/${token?.id}`, { content: 'by hand', secret: 'true' });
    assert.match(await config(), /"name":"TOKEN","keep":true/);
    const place = join(developer.folder, 'kept.toml');
    writeFileSync(place, (await developer.run(['export'])).out);
    const kept = await applyFile(place);
    assert.deepEqual([kept.status, changesIn(kept.out)], [0, 'Nothing to change in Sluice.\n']);
    const back = await apply();
    const [first, ...fields] = back.out.split('\n');
    assert.deepEqual(
      [first, ...fields.slice(0, 3)],
      [
        '~ variable TOKEN of suite unit',
        '    from_env: "" → "SLUICE_TOKEN"',
        'variable TOKEN of the project ← environment variable SLUICE_TOKEN',
        'variable TOKEN of suite unit ← environment variable SLUICE_TOKEN (new)',
      ],
    );
    assert.equal((await developer.run(['export'])).out, file);
    writeFileSync(place, file.replaceAll('from_env = "SLUICE_TOKEN"', 'keep = true'));
    assert.equal((await applyFile(place)).status, 0);
    assert.match((await developer.run(['export'])).out, /name = "TOKEN"\nkeep = true/);
    assert.equal((await alice.get(variables)).list[0]?.content, env.SLUICE_TOKEN, 'kept');
    assert.equal((await apply()).status, 0);
  });

  test('makes the project itself, if that was said, and none where it is refused', async () => {
    const place = join(developer.folder, 'other.toml');
    const other = file.replace('name = "Sluice"', 'name = "Weir"');
    writeFileSync(place, other);
    const create = (...args: string[]) => applyFile(place, '--create', ...args);
    const names = async () => (await alice.get('/projects')).list.map(({ name }) => name);
    const shown = await create('--dry-run');
    assert.deepEqual([shown.status, shown.err], [0, '']);
    assert.match(shown.out, /^\+ project Weir\n\+ variable REGION\n\+ variable TOKEN\n\+ suite unit\n\+ suite lint\n/);
    assert.equal((await create('--check')).status, 1);
    writeFileSync(place, other.replace('cron = "0 3 * * *"', 'cron = "never"'));
    const refused = await create();
    assert.notEqual(refused.status, 0);
    assert.match(refused.err, /schedules.*cron/);
    assert.deepEqual(await names(), ['Sluice']);

    writeFileSync(place, other);
    const made = await create();
    assert.deepEqual([made.status, made.err], [0, '']);
    assert.match(made.out, /^\+ project Weir\n\+ variable REGION\n\+ variable TOKEN\n\+ suite unit\n/);
    const weir = (await alice.get('/projects')).list.find(({ name }) => name === 'Weir');
    const [hook] = (await alice.get(`/projects/${weir?.id_str}/hooks`)).list;
    const [, url, secret = ''] =
      /\nSecret of the hook github, .*:\n {4}address: (\S+)\n {4}secret: (whsec_\S+)\n/.exec(made.out) ?? [];
    assert.equal(url, hook?.url);
    assert.match(made.out, /\nSecret of the notification build https:\S+, .*:\n {4}secret: \S+\n/);
    assert.ok(made.out.endsWith(`${String(weir?.ssh_public_key)}\n`));
    const called = await service.api.post(`/hooks/${hook?.id_str}`, {
      headers: { 'x-github-event': 'ping', 'content-type': 'application/json', ...signed('{}', secret) },
      body: '{}',
    });
    assert.equal(called.status, 202, 'the secret that was shown is the one that counts');
    assert.ok(!(await create()).out.includes('secret'), 'the second time nothing is made');
    assert.deepEqual(await names(), ['Sluice', 'Weir']);
    await alice.delete(`/projects/${weir?.id_str}`);
  });

  test('deletes only where that was said, and says what it would delete', async () => {
    const less = file
      .replace(/\[\[suites\]\]\nname = "lint"\n[^]*?(?=\[\[deploy)/, '')
      .replace('make test', 'make check');
    writeFileSync(path, less.replace('value = "main"', 'value = "next"').replace(/\[\[hooks\]\]\n.*\n.*\n\n/, ''));
    const refused = await apply();
    assert.equal(refused.status, 2);
    assert.equal(
      refused.out,
      [
        '- suite lint',
        '~ suite unit',
        '    command: "make test" → "make check"',
        '~ rule commit.branches equals next of suite unit',
        '    value: "main" → "next"',
        '- hook github',
        'variable TOKEN of the project ← environment variable SLUICE_TOKEN',
        'variable TOKEN of suite unit ← environment variable SLUICE_TOKEN',
        'variable MODE of suite unit ← environment variable SLUICE_MODE',
        '',
      ].join('\n'),
    );
    assert.match(refused.err, /would delete 2 things\. To confirm, add --prune\. Nothing was changed/);
    assert.match(await config(), /"lint"/);
    assert.equal((await apply('--prune')).status, 0);
    assert.doesNotMatch(await config(), /"lint"|github/);
    assert.match(await config(), /make check/);
  });

  test('is applied whole or not at all', async () => {
    const now = await config();
    const written = await entries();
    const document = JSON.parse(now) as { suites: object[]; notifications: object[] };
    const broken = {
      ...document,
      suites: [{ name: 'first', command: 'true' }, ...document.suites],
      notifications: [{ notifiable_type: 'build', name: 'webhook', url: 'not an address' }],
    };
    const refused = await configure(broken);
    assert.deepEqual([refused.status, refused.body], [403, { error: { 'notifications[0][url]': ['invalid_format'] } }]);
    assert.equal(await config(), now);
    assert.equal(await entries(), written, 'nothing is left, not even in the audit log');
  });

  test('names every mistake of a document at its place', async () => {
    const document = JSON.parse(await config()) as { suites: Record<string, unknown>[] };
    const [unit] = document.suites;
    const twice = [unit, unit, { name: 'x', commnd: 'y', dependencies: ['nothing'] }];
    const { body, status } = await configure({ ...document, suites: twice, nonsense: 1, name: [{}] });
    assert.equal(status, 403);
    assert.deepEqual(body.error, {
      nonsense: ['invalid_format'],
      name: ['invalid_format'],
      'suites[unit][name]': ['already_exists'],
      'suites[x][commnd]': ['invalid_format'],
      'suites[x][command]': ['is_blank'],
    });
    const missing = { ...document, suites: [{ ...unit, dependencies: ['nothing'] }] };
    assert.deepEqual((await configure(missing)).body.error, { 'suites[unit][dependencies]': ['not_found'] });
    const unknown = { ...document, suites: [{ ...unit, variables: [{ name: 'NEW', keep: true }] }] };
    const kept = { 'suites[unit][variables][NEW][content]': ['is_blank'] };
    assert.deepEqual((await configure(unknown, { prune: 'true' })).body.error, kept);
    for (const text of ['', 'no json', '[]', '{"__proto__":{"name":"x"}}', '"x"'])
      assert.equal((await alice.put(`/projects/${project.id}/config`, { document: text })).status, 403, text);
  });

  test('is for its owner, with the scopes of all that is in it', async () => {
    const bob = await service.user();
    await alice.invite(project, bob);
    assert.equal((await bob.get(`/projects/${project.id}/config`)).status, 401);
    assert.equal((await (await service.user()).get(`/projects/${project.id}/config`)).status, 404);
    const document = JSON.parse(await config()) as { suites: object[] };
    const suites = [...document.suites, { name: 'smuggled', command: 'true' }];
    for (const scopes of [['projects'], ['projects', 'suites', 'deploys']] as const) {
      const headers = { authorization: `Bearer ${await tokenOf(service, alice, scopes)}` };
      assert.equal((await service.api.get(`/projects/${project.id}/config`, { headers })).status, 401);
      const form = { document: JSON.stringify({ ...document, suites }) };
      assert.equal((await service.api.put(`/projects/${project.id}/config`, { headers, form })).status, 401);
    }
    assert.doesNotMatch(await config(), /smuggled/);
  });

  test('takes no value from the file, and none that is not there', async () => {
    writeFileSync(path, file);
    const unset = await developer.run(['apply', '-f', path]);
    assert.equal(unset.status, 2);
    assert.match(unset.err, /TOKEN takes its value from "SLUICE_TOKEN" of your environment, which is not set/);
    writeFileSync(path, file.replace('from_env = "SLUICE_TOKEN"', 'content = "in the file"'));
    const inside = await apply();
    assert.equal(inside.status, 2);
    assert.match(inside.err, /The file holds the value of TOKEN\. Refer to it with from_env/);
    writeFileSync(path, 'name = "unclosed');
    assert.match((await apply()).err, /project\.toml:1: cannot be read: Invalid TOML/);
    assert.match((await developer.run(['apply'])).err, /Name the file/);
    assert.equal(readFileSync(path, 'utf8'), 'name = "unclosed');
  });

  test('has whose files a suite begins with by its name, and steps without what goes without saying', async () => {
    const own = await alice.createProject({ name: 'Filed' });
    const first = await alice.createSuite(own, { name: 'first' });
    await alice.createSuite(own, {
      name: 'second',
      command: '',
      'steps[0][name]': 'one',
      'steps[0][command]': 'make',
      'steps[0][when]': 'passed',
      'steps[1][name]': 'two',
      'steps[1][command]': 'make clean',
      'steps[1][when]': 'always',
      'needs[]': first.id_str,
      files_from_id: first.id_str,
    });
    const at = `/projects/${own.id}/config`;
    type Written = { suites: Record<string, unknown>[] };
    const exported = async (): Promise<Written> => JSON.parse(String((await alice.get(at)).record.document)) as Written;
    const document = await exported();
    assert.deepEqual(document.suites[1], {
      name: 'second',
      steps: [
        { name: 'one', command: 'make' },
        { name: 'two', command: 'make clean', when: 'always' },
      ],
      needs: ['first'],
      files_from: 'first',
    });
    const put = (suites: object[], fields: Record<string, string> = {}) =>
      alice.put(at, { document: JSON.stringify({ ...document, suites }), ...fields });
    assert.deepEqual((await put(document.suites)).record.changes, []);
    const [one = {}, two = {}] = document.suites;
    const third = { name: 'third', command: 'make', needs: ['second', 'first'], files_from: 'second' };
    const changed = (await put([third, { ...two, files_from: '' }, one])).record.changes as { fields: object[] }[];
    assert.deepEqual(
      changed.flatMap(({ fields }) => fields),
      [
        { name: 'needs', from: '', to: 'second, first' },
        { name: 'files_from', from: '', to: 'second' },
        { name: 'files_from', from: 'first', to: '' },
      ],
    );
    const suites = (await alice.get(`/projects/${own.id}/suites`)).list;
    const idOf = (name: string) => suites.find((suite) => suite.name === name)?.id;
    assert.deepEqual(
      suites.map(({ name, files_from_id: from }) => [name, from]),
      [
        ['first', null],
        ['second', null],
        ['third', idOf('second')],
      ],
    );
    for (const [field, code] of [
      ['nobody', 'not_found'],
      ['third', 'invalid_format'],
    ] as const)
      assert.deepEqual((await put([third, { ...two, files_from: field }, one])).body, {
        error: { 'suites[second][files_from]': [code] },
      });
    // What another one begins with goes after that.
    assert.equal((await put([one], { prune: 'true' })).status, 200);
    assert.deepEqual((await exported()).suites, [one]);
  });

  test('has what is yes, no or neither, which goes without saying', async () => {
    const own = await alice.createProject({ name: 'Rooted' });
    const at = `/projects/${own.id}/config`;
    const document = { name: 'Rooted', repository_url: String(own.repository_url) };
    const plain = { name: 'unit', command: 'make', image: 'debian:12' };
    for (const [suite, change] of [
      [plain, undefined],
      [
        { ...plain, root: false },
        { name: 'root', from: '', to: 'false' },
      ],
      [
        { ...plain, root: true },
        { name: 'root', from: 'false', to: 'true' },
      ],
      [plain, { name: 'root', from: 'true', to: '' }],
    ] as const) {
      const { changes } = (await alice.put(at, { document: JSON.stringify({ ...document, suites: [suite] }) })).record;
      assert.deepEqual((changes as { fields: object[] }[])[0]?.fields, change === undefined ? [] : [change]);
      assert.deepEqual(JSON.parse(String((await alice.get(at)).record.document)).suites, [suite]);
    }
  });

  test('has what suites need by their names, in whatever order', async () => {
    const own = await alice.createProject({ name: 'Needy' });
    const put = (suites: object[], fields: Record<string, string> = {}): Promise<Answer> => {
      const document = { name: 'Needy', repository_url: 'git@example.org:team/code.git', suites };
      return alice.put(`/projects/${own.id}/config`, { document: JSON.stringify(document), ...fields });
    };
    const suite = (name: string, ...needs: string[]) => ({ name, command: 'make', needs });
    const needs = async (): Promise<Record<string, string>> =>
      Object.fromEntries(
        (await alice.get(`/projects/${own.id}/suites`)).list.map((one) => [
          one.name,
          (one.needs as { name: string }[]).map(({ name }) => name).join(' '),
        ]),
      );
    assert.equal((await put([suite('ship', 'unit', 'lint'), suite('unit', 'lint'), suite('lint')])).status, 200);
    assert.deepEqual(await needs(), { ship: 'unit lint', unit: 'lint', lint: '' });
    const exported = JSON.parse(String((await alice.get(`/projects/${own.id}/config`)).record.document)) as {
      suites: { name: string; needs?: string[] }[];
    };
    assert.deepEqual(exported.suites[0]?.needs, ['unit', 'lint']);
    // The other way round: no change alone would be possible.
    const turned = [suite('ship'), suite('unit', 'ship'), suite('lint', 'unit')];
    const changes = (await put(turned)).record.changes as { what: string; fields: object[] }[];
    assert.deepEqual(changes[0], {
      action: 'change',
      what: 'suite ship',
      fields: [{ name: 'needs', from: 'unit, lint', to: '' }],
    });
    assert.deepEqual(await needs(), { ship: '', unit: 'ship', lint: 'unit' });
    assert.deepEqual((await put(turned)).record.changes, []);
    const circle = await put([suite('ship', 'lint'), suite('unit', 'ship'), suite('lint', 'unit')]);
    assert.deepEqual(circle.body, { error: { 'suites[ship][needs]': ['invalid_format'] } });
    const unknown = await put([suite('ship', 'nobody'), suite('unit', 'ship'), suite('lint', 'unit')]);
    assert.deepEqual(unknown.body, { error: { 'suites[ship][needs]': ['not_found'] } });
    assert.deepEqual(await needs(), { ship: '', unit: 'ship', lint: 'unit' }, 'nothing of it was kept');
    assert.equal((await put([suite('lint')], { prune: 'true' })).status, 200);
    assert.deepEqual(await needs(), { lint: '' });
  });
});
