/* oxlint-disable no-control-regex -- control characters are what this is about */
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Record_ } from '../../support/client.ts';
import { Developer, type Ended } from '../../support/developer.ts';
import { startRecorder, type Recorder } from '../../support/recorder.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import type { User } from '../../support/user.ts';

const repository = 'git@example.org:team/sluice.git';
const head = `name = "Sluice"\nrepository_url = "${repository}"\n`;
const suite = (name: string, command: string): string => `\n[[suites]]\nname = "${name}"\ncommand = ${command}\n`;
const variable = (name: string, rest: string): string => `\n[[suites.variables]]\nname = "${name}"\n${rest}\n`;

describeServiceOnOne('headrace apply', (service) => {
  let alice: User;
  let project: Record_;
  let developer: Developer;
  let recorder: Recorder;
  let file: string;
  const secret = 'kingfisher-of-the-developer';
  before(async () => {
    alice = await service.user();
    project = await alice.createProject({ name: 'Sluice', repository_url: repository });
    developer = await Developer.of(service, alice);
    developer.clone(repository);
    file = join(developer.folder, 'project.toml');
    recorder = await startRecorder(service.address, readFileSync(join(service.folder, 'tls', 'cert.pem'), 'utf8'));
    Object.assign(developer.env, { HEADRACE_URL: recorder.address, AWS_SECRET_ACCESS_KEY: secret, MODE: 'fast' });
  });
  after(() => recorder[Symbol.dispose]());

  const apply = (document: string, ...args: string[]): Promise<Ended> => {
    writeFileSync(file, document);
    recorder.sent.length = 0;
    return developer.run(['apply', '-f', file, ...args]);
  };
  const isSent = (): boolean => recorder.sent.some((request) => request.includes(secret));
  const suites = async (): Promise<Record_[]> => (await alice.get(`/projects/${project.id}/suites`)).list;
  const valuesOf = async (one: Record_ | undefined): Promise<unknown[]> =>
    (await alice.get(`/projects/${project.id}/suites/${one?.id}/environment_variables`)).list.map(
      ({ name, content, secret: isSecret }) => [name, content, isSecret],
    );

  const hostile = `${head}${suite('unit', '"make"')}${variable('COLOUR', 'from_env = "AWS_SECRET_ACCESS_KEY"')}`;
  const line = 'variable COLOUR of suite unit ← environment variable AWS_SECRET_ACCESS_KEY';

  test('a file takes no variable of the environment unseen, nor without a word of the person [promise: apply-environment]', async () => {
    for (const args of [['--dry-run'], ['--check']]) {
      const shown = await apply(hostile, ...args);
      assert.deepEqual([shown.status, shown.err], [args[0] === '--check' ? 1 : 0, '']);
      assert.equal(shown.out, `+ suite unit\n${line} (new)\n`);
      assert.ok(!isSent(), 'what is only shown needs no value');
    }
    for (const args of [[], ['--json'], ['--from-env', 'MODE'], ['--create']]) {
      const document = args[0] === '--create' ? hostile.replace('"Sluice"', '"Weir"') : hostile;
      const refused = await apply(document, ...args);
      assert.equal(refused.status, 2, args.join(' '));
      assert.match(
        refused.err,
        /^headrace: The file takes variables of your environment .*: AWS_SECRET_ACCESS_KEY\. To allow it, add --from-env AWS_SECRET_ACCESS_KEY\. No value was sent, and nothing was changed\.\n$/,
      );
      if (args.length === 0) assert.ok(refused.out.includes(line));
      assert.ok(!isSent(), 'no value was sent');
    }
    const piped = await developer.run(['apply', '-f', '-'], hostile);
    assert.equal(piped.status, 2, 'what is piped in answers no question');
    assert.deepEqual(await suites(), []);
    assert.equal((await alice.get('/projects')).list.length, 1);
  });

  test('a person at a terminal is asked, and no is no [promise: apply-environment]', async () => {
    writeFileSync(file, hostile);
    for (const answer of ['', 'n', 'yes please']) {
      const terminal = developer.sit(['apply', '-f', file]);
      await terminal.until(/\[y\/N\]/);
      assert.match(terminal.text, /← environment variable AWS_SECRET_ACCESS_KEY \(new\)/);
      assert.match(terminal.text, /Send AWS_SECRET_ACCESS_KEY of your environment to http:/);
      terminal.type(`${answer}\n`);
      assert.equal(await terminal.end(), 2);
      assert.ok(!isSent());
    }
    const terminal = developer.sit(['apply', '-f', file]);
    await terminal.until(/\[y\/N\]/);
    terminal.type('y\n');
    assert.equal(await terminal.end(), 0);
    assert.deepEqual(await valuesOf((await suites())[0]), [['COLOUR', secret, true]]);
  });

  test('what a variable was taken from before is not asked for again, anything else is [promise: apply-environment]', async () => {
    const again = await apply(hostile);
    assert.deepEqual([again.status, again.out, again.err], [0, `${line}\nNothing to change in Sluice.\n`, '']);
    const checked = await apply(hostile, '--check');
    assert.deepEqual([checked.status, isSent()], [0, false]);
    const others = [
      hostile.replace('AWS_SECRET_ACCESS_KEY', 'HEADRACE_TOKEN'),
      `${hostile}${variable('OTHER', 'from_env = "AWS_SECRET_ACCESS_KEY"\nsecret = false')}`,
      `${hostile}${suite('other', '"env"')}${variable('COLOUR', 'from_env = "AWS_SECRET_ACCESS_KEY"')}`,
    ];
    for (const other of others) {
      const refused = await apply(other);
      assert.equal(refused.status, 2, refused.out);
      assert.match(refused.out, /← environment variable (HEADRACE_TOKEN|AWS_SECRET_ACCESS_KEY) \(new\)/);
      assert.ok(!isSent());
    }
    const [unit] = await suites();
    const path = `/projects/${project.id}/suites/${unit?.id}/environment_variables`;
    const [colour] = (await alice.get(path)).list;
    await alice.put(`${path}/${colour?.id}`, { content: 'by hand' });
    assert.equal((await apply(hostile)).status, 2, 'it is not from there any more');
    assert.ok(!isSent());
    const agreed = await apply(hostile, '--from-env', 'AWS_SECRET_ACCESS_KEY');
    assert.equal(agreed.status, 0, agreed.err);
    assert.deepEqual(await valuesOf(unit), [['COLOUR', secret, true]]);
    const changed = await developer.run(['apply', '-f', file], '', { AWS_SECRET_ACCESS_KEY: 'another' });
    assert.equal(
      changed.out,
      `${line}\n~ variable COLOUR of suite unit\n    content: another value\nSluice now matches ${file}.\n`,
    );
    assert.deepEqual(await valuesOf(unit), [['COLOUR', 'another', true]]);
  });

  test('names in a file do nothing to the terminal on which they are agreed to [promise: apply-environment]', async () => {
    const acting = 'A\\u001b[2K\\u001b]0;x\\u0007\\u202eB';
    for (const name of ['"unit"', '"COLOUR"', '"AWS_SECRET_ACCESS_KEY"', '"make"']) {
      writeFileSync(file, hostile.replace(name, `"${acting}"`));
      const terminal = developer.sit(['apply', '-f', file, name === '"make"' ? '--dry-run' : '--verbose'], {
        env: { NO_COLOR: '1' },
      });
      terminal.type('n\n');
      await terminal.end();
      assert.doesNotMatch(terminal.raw, /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202e]/, name);
    }
  });

  test('--dry-run refuses what apply would refuse, in the same words, and leaves nothing', async () => {
    const rule = (operator: string): string =>
      `\n[[suites.rules]]\nsubject = "commit.branches"\noperator = "${operator}"\nvalue = "main"\n`;
    const wrong = [
      `${hostile}${rule('resembles')}`,
      `${hostile}${suite('new', '"make"')}${rule('resembles')}`,
      `${hostile}${suite('new', '"make"')}timeout = -1\n`,
      `${hostile}\n[[schedules]]\ncron = "never"\n`,
      `${hostile}${suite('new', '"make"')}${variable('CI', 'from_env = "MODE"')}`,
      `${hostile}${variable('OTHER', 'keep = true')}`,
      `${hostile}${variable('OTHER', 'content = 5\nsecret = false')}`,
      `${hostile}${variable('OTHER', 'from_env = "NOT_SET"')}`,
    ];
    const entries = async (): Promise<number> =>
      (await service.store.db.read.selectFrom('audit_entries').select('id').execute()).length;
    const before_ = [await entries(), (await developer.run(['export'])).out];
    for (const document of wrong) {
      const tried = [await apply(document, '--dry-run'), await apply(document, '--from-env', 'MODE')];
      const weir = document.replace('"Sluice"', '"Weir"');
      if (document === wrong[1])
        tried.push(
          await apply(weir, '--create', '--dry-run'),
          await apply(weir, '--create', '--from-env', 'AWS_SECRET_ACCESS_KEY'),
        );
      for (const { status, err } of tried) assert.deepEqual([status, err], [2, tried[0]?.err], document);
      assert.notEqual(tried[0]?.err, '');
    }
    const good = `${hostile}${suite('new', '"make"')}${rule('equals')}\n[[hooks]]\nprovider = "github"\n`;
    const shown = await apply(good, '--dry-run');
    assert.deepEqual([shown.status, shown.err], [0, '']);
    assert.equal(shown.out, `+ suite new\n+ hook github\n${line}\n`);
    const made = await apply(good.replace('"Sluice"', '"Weir"'), '--create', '--dry-run');
    assert.equal(made.out, `+ project Weir\n+ suite unit\n+ suite new\n+ hook github\n${line} (new)\n`);
    assert.deepEqual([await entries(), (await developer.run(['export'])).out], before_);
    assert.equal((await alice.get('/projects')).list.length, 1);
    assert.doesNotMatch((await apply(good, '--dry-run', '--json')).out, /whsec/);
  });

  test('a long text is shown line by line, as diff -u does', async () => {
    const lines = Array.from({ length: 12 }, (_, at) => `step ${at + 1}`);
    const document = (texts: string[]): string => hostile.replace('"make"', `'''\n${texts.join('\n')}'''`);
    assert.equal((await apply(document(lines))).status, 0);
    const changed = [...lines.slice(0, 4), 'step five', ...lines.slice(5), 'step 13'];
    const shown = await apply(document(changed), '--dry-run');
    assert.equal(
      shown.out,
      [
        '~ suite unit',
        '    command:',
        '    @@ -2,7 +2,7 @@',
        '     step 2',
        '     step 3',
        '     step 4',
        '    -step 5',
        '    +step five',
        '     step 6',
        '     step 7',
        '     step 8',
        '    @@ -10,3 +10,4 @@',
        '     step 10',
        '     step 11',
        '     step 12',
        '    +step 13',
        line,
        '',
      ].join('\n'),
    );
    // What is wider than the screen is not cut off.
    const wide = `make ${'a'.repeat(100)}; hostile`;
    writeFileSync(file, hostile.replace('"make"', `'${wide}'`));
    const terminal = developer.sit(['apply', '-f', file, '--dry-run'], { columns: 60 });
    assert.equal(await terminal.end(), 0);
    assert.ok(terminal.text.replaceAll('\n', '').includes(`+${wide}`), terminal.text);
  });

  test('a value that is no secret may stand in the file, and is exported with it', async () => {
    const open = `${head}${suite('unit', '"make"')}${variable('COLOUR', 'from_env = "AWS_SECRET_ACCESS_KEY"')}${variable('MODE', 'content = "fast"\nsecret = false')}`;
    const first = await apply(open);
    assert.equal(first.status, 0, first.err);
    const [unit] = await suites();
    assert.deepEqual((await valuesOf(unit))[1], ['MODE', 'fast', false]);
    assert.equal((await developer.run(['export'])).out, open);
    assert.equal((await apply(open)).out, `${line}\nNothing to change in Sluice.\n`);
    assert.equal((await apply(open, '--check')).out, 'Nothing to change in Sluice.\n');
    const changed = await apply(open.replace('fast', 'slow'));
    assert.match(changed.out, /^~ variable MODE of suite unit\n {4}content: "fast" → "slow"\n/);
    // Also of a project that no file was applied to, and of an empty value.
    const path = `/projects/${project.id}/suites/${unit?.id}/environment_variables`;
    await alice.post(path, { name: 'EMPTY', content: '', secret: 'false' });
    await alice.post(path, { name: 'HIDDEN', content: 'kept' });
    const exported = (await developer.run(['export'])).out;
    assert.match(exported, /name = "EMPTY"\n(secret = false\ncontent = ""|content = ""\nsecret = false)\n/);
    assert.match(exported, /name = "HIDDEN"\nkeep = true\n/);
    assert.doesNotMatch(exported, /kept/);
    assert.equal((await apply(exported)).out, `${line}\nNothing to change in Sluice.\n`);
    for (const inside of ['content = "mine"', 'content = "mine"\nsecret = true', 'content = "x"\nfrom_env = "MODE"']) {
      const refused = await apply(`${open}${variable('OTHER', inside)}`);
      assert.deepEqual([refused.status, refused.out], [2, '']);
      assert.match(
        refused.err,
        /The file holds the value of OTHER\. .*a file may only contain values with secret = false/,
      );
      assert.ok(!isSent());
    }
    const document = JSON.stringify({
      ...JSON.parse(String((await alice.get(`/projects/${project.id}/config`)).record.document)),
      suites: [{ name: 'unit', command: 'make', variables: [{ name: 'OTHER', content: 'mine' }] }],
    });
    const sent = await alice.put(`/projects/${project.id}/config`, { document, dry_run: 'true' });
    assert.deepEqual(sent.body, { error: { 'suites[unit][variables][OTHER][content]': ['invalid_format'] } });
  });

  test('the name in the file says which project, and a folder that says another is a conflict', async () => {
    const lost = await Developer.of(service, alice);
    const place = join(lost.folder, 'project.toml');
    writeFileSync(
      place,
      (await developer.run(['export', '--format', 'toml'])).out.replaceAll(/from_env = .*/g, 'keep = true'),
    );
    const applied = await lost.run(['apply', '-f', place]);
    assert.deepEqual(
      [applied.status, applied.out.split('\n').at(-2)],
      [0, `Sluice now matches ${place}.`],
      applied.err,
    );
    const named = readFileSync(place, 'utf8');
    writeFileSync(place, named.replace('"Sluice"', '"Nowhere"'));
    const unknown = await lost.run(['apply', '-f', place]);
    assert.deepEqual(
      [unknown.status, unknown.err],
      [2, 'headrace: There is no project named Nowhere that you can see. List them with: headrace projects\n'],
    );

    await alice.createProject({ name: 'Weir', repository_url: 'git@example.org:team/weir.git' });
    writeFileSync(place, named);
    lost.clone('git@example.org:team/weir.git');
    const other = await lost.run(['apply', '-f', place]);
    assert.equal(other.status, 2);
    assert.equal(
      other.err,
      `headrace: ${place} is of Sluice, and this folder is of Weir. Name the project with --project NAME.\n`,
    );
    assert.equal((await lost.run(['apply', '-f', place, '--project', 'Sluice', '--check'])).status, 0);
    const stranger = await Developer.of(service, alice);
    stranger.clone('git@example.org:mallory/code.git');
    const foreign = await stranger.run(['apply', '-f', place]);
    assert.equal(foreign.status, 2);
    assert.match(
      foreign.err,
      /project\.toml is of Sluice, and of this folder, no project of yours builds git@example\.org:mallory\/code\.git\./,
    );
  });
});

const shared = `
[defaults]
image = "alpine"

[templates.make]
command = "make"
tags = ["a", "b"]

[[suites]]
name = "unit"
extends = "make"

[[suites]]
name = "lint"
extends = "unit"
tags = []
`;

describeServiceOnOne('headrace apply of a file with templates', (service) => {
  test('applies every suite whole, exports the file, and tells mistakes with their lines', async () => {
    const alice = await service.user();
    const { id } = await alice.createProject({ name: 'Sluice', repository_url: repository });
    const developer = await Developer.of(service, alice);
    developer.clone(repository);
    const apply = (text: string): Promise<Ended> => {
      writeFileSync(join(developer.folder, 'project.toml'), text);
      return developer.run(['apply', '-f', 'project.toml']);
    };
    assert.equal((await apply(head + shared)).status, 0);
    const suites = (await alice.get(`/projects/${id}/suites`)).list;
    assert.deepEqual(
      suites.map(({ name, command, image, tags }) => [name, command, image, tags]),
      [
        ['unit', 'make', 'alpine', ['a', 'b']],
        ['lint', 'make', 'alpine', []],
      ],
    );
    assert.match((await developer.run(['export'])).out, /^\[templates\.make\]$/m);
    assert.equal((await apply(head + shared)).out, 'Nothing to change in Sluice.\n');

    const wrong = await apply(`${head}${shared.replace('tags = ["a"', 'retries = 9\ntags = ["a"')}[include]\n`);
    assert.deepEqual(
      [wrong.status, wrong.err],
      [
        2,
        'headrace: project.toml:9: templates[make][retries] must be a whole number from 0 to 3.\n' +
          'project.toml:20: include is only for a file in a repository.\n',
      ],
    );
    const sent = { name: 'Sluice', repository_url: repository, suites: [{ name: 'a', extends: 'b' }] };
    const { status, body } = await alice.put(`/projects/${id}/config`, { document: JSON.stringify(sent) });
    assert.deepEqual([status, body.error], [404, { 'suites[a][extends]': ['not_found'] }]);
  });
});

describe('headrace check', () => {
  test('prints with --resolved what the suites come to, as a file that it accepts', async () => {
    const developer = new Developer({});
    const check = (text: string, name: string, ...args: string[]): Promise<Ended> => {
      writeFileSync(join(developer.folder, name), text);
      return developer.run(['check', name, ...args]);
    };
    const yaml =
      'defaults: &d {image: alpine}\nsuites: [{<<: *d, name: unit, command: make}, {name: lint, extends: unit}]\n';
    const json = JSON.stringify({ templates: { m: { command: 'make' } }, suites: [{ name: 'a', extends: 'm' }] });
    const plain: Record<string, string> = {
      'a.toml':
        '[[suites]]\nname = "unit"\ncommand = "make"\ntags = [ "a", "b" ]\nimage = "alpine"\n\n' +
        '[[suites]]\nname = "lint"\ntags = []\ncommand = "make"\nimage = "alpine"\n',
      'a.yml':
        'suites:\n  - image: alpine\n    name: unit\n    command: make\n' +
        '  - name: lint\n    image: alpine\n    command: make\n',
      'a.json': `${JSON.stringify({ suites: [{ name: 'a', command: 'make' }] }, undefined, 2)}\n`,
    };
    for (const [name, text] of [
      ['a.toml', shared],
      ['a.yml', yaml],
      ['a.json', json],
    ] as const) {
      const { status, out, err } = await check(text, name, '--resolved');
      assert.deepEqual([status, out, err], [0, plain[name], '']);
      assert.equal((await check(out, name, '--resolved')).out, out, 'comes to the same');
    }
    const wrong = await check('[templates.a]\nretries = 9\n', 'a.toml', '--resolved');
    assert.deepEqual(
      [wrong.status, wrong.out],
      [1, 'a.toml:2: templates[a][retries] must be a whole number from 0 to 3.\n'],
    );
    const { out } = await check(json, 'a.json', '--resolved', '--json');
    assert.deepEqual(JSON.parse(out).resolved, { suites: [{ name: 'a', command: 'make' }] });
  });

  test('tells file, line and what is wrong, without a server', async () => {
    const developer = new Developer({});
    const write = (name: string, content: string | Buffer): void =>
      writeFileSync(join(developer.folder, name), content);
    const check = async (...args: string[]): Promise<unknown[]> => {
      const { status, out, err } = await developer.run(['check', ...args]);
      return [status, out, err];
    };
    assert.deepEqual(await check(), [2, '', 'headrace: There is no .headrace.toml and no .headrace.yml here.\n']);
    write('.headrace.yml', 'suites:\n  - {name: unit, command: make}\n');
    assert.deepEqual(await check(), [0, '.headrace.yml has no mistakes.\n', '']);
    write(
      '.headrace.toml',
      `${suite('unit\\u001b[31m', '"make"')}retries = 9\n${suite('lint', '"make"')}needs = ["none"]\n`,
    );
    const mistakes = [
      '.headrace.toml:3: suites[unit\uFFFD[31m][name] contains a character that is not allowed, such as a line break.',
      '.headrace.toml:5: suites[unit\uFFFD[31m][retries] must be a whole number from 0 to 3.',
      '.headrace.toml:10: suites[lint][needs] names "none", which is not a suite of the file.',
    ];
    assert.deepEqual(await check(), [1, `${mistakes.join('\n')}\n`, ''], 'TOML comes first');
    const [status, json] = await check('--json');
    assert.deepEqual([status, JSON.parse(String(json))], [1, { file: '.headrace.toml', mistakes }]);
    const [good, none] = await check('.headrace.yml', '--json');
    assert.deepEqual([good, JSON.parse(String(none))], [0, { file: '.headrace.yml', mistakes: [] }]);

    write('.headrace.toml', suite('lint', '"make"') + 'needs = ["none"]\n');
    assert.deepEqual(await check(), [
      1,
      '.headrace.toml:5: suites[lint][needs] names "none", which is not a suite of the file.\n',
      '',
    ]);
    write('open.yml', 'suites:\n  - name: [\n');
    assert.match(String(await check('open.yml')), /^1,open\.yml:\d: cannot be read: /);
    write('bytes.toml', Buffer.from([0xff, 0xfe]));
    assert.deepEqual(await check('bytes.toml'), [1, 'bytes.toml: it is not UTF-8 text.\n', '']);
    write('large.toml', `# ${'x'.repeat(128 * 1024)}\n`);
    assert.deepEqual(await check('large.toml'), [1, 'large.toml: it has more than 128 kB.\n', '']);
    mkdirSync(join(developer.folder, 'folder.toml'));
    assert.deepEqual(await check('folder.toml'), [2, '', 'headrace: folder.toml is not a regular file.\n']);
    assert.deepEqual(await check('gone.yml', '--json'), [2, '', 'headrace: There is no gone.yml here.\n']);
    assert.equal((await check('one.toml', 'two.toml'))[0], 2);
  });
});
