import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { mistakesIn } from '../../../src/cli/developer/check.ts';
import { firstFile } from '../../../src/cli/developer/first-file.ts';
import { onOneDatabase } from '../../support/databases.ts';
import { Developer } from '../../support/developer.ts';
import { FakeForge, forgeToken } from '../../support/fake-forge.ts';
import { startInstallation, type Installation, type Item } from '../../support/installation.ts';
import { createRepository } from '../../support/repository.ts';

test('the first file fits what lies there, and has no mistakes', async () => {
  for (const [names, command] of [
    [['src', 'package.json', 'package-lock.json'], 'npm ci\nnpm test'],
    [['package.json', 'Makefile'], 'npm install\nnpm test'],
    [['Cargo.toml'], 'cargo test'],
    [['go.mod'], 'go test ./...'],
    [['pyproject.toml'], 'pip install . pytest\npytest'],
    [['requirements.txt'], 'pip install -r requirements.txt pytest\npytest'],
    [['pom.xml'], 'mvn --batch-mode verify'],
    [['CMakeLists.txt'], 'ctest --test-dir build'],
    [['Makefile'], 'make test'],
    [['README.md'], "Write the test command into .headrace.toml.'"],
  ] as const) {
    const text = firstFile(names);
    assert.deepEqual(await mistakesIn(Buffer.from(text), '.headrace.toml'), [], text);
    assert.ok(text.includes(`${command}\n"""\n`), text);
  }
  const typed = String.raw`printf "a\n" | grep '"""'`;
  const text = firstFile(['README.md'], typed);
  assert.deepEqual(await mistakesIn(Buffer.from(text), '.headrace.toml'), [], text);
  assert.ok(text.includes(JSON.stringify(typed)), text);
});

describe('headrace init', () => {
  onOneDatabase((database) => {
    let installation: Installation;
    before(async () => {
      installation = await startInstallation(database, { HEADRACE_WEBHOOK_ALLOW: '127.0.0.0/8' });
    });

    /** A forge with repositories that a key of it may read. */
    async function forgeWith(...names: string[]): Promise<FakeForge> {
      const { host } = installation;
      for (const name of names) {
        mkdirSync(join(host.folder, name, '..'), { recursive: true });
        const repository = await createRepository(join(host.folder, `${name}.git`));
        await repository.commit({ files: { Makefile: 'test:\n\t@echo it flows\n' } });
      }
      return forgeAt(host, ...names);
    }

    /** A forge with repositories of that host. */
    async function forgeAt(host: Installation['host'], ...names: string[]): Promise<FakeForge> {
      const forge = await FakeForge.start('gitea', ...names);
      forge.ssh = `${userInfo().username}@${host.name}`;
      forge.interfere = ({ method, path, body }, response) => {
        if (method !== 'POST' || !path.endsWith('/keys')) return undefined;
        const key = String(body.key);
        const { keys } = forge.of(path.split('/').slice(-3, -1).join('/'));
        keys.push({ id: 1, title: String(body.title), key, readOnly: body.read_only === true });
        const answer = () => response.writeHead(201, { 'content-type': 'application/json' }).end('{}');
        void host.authorize(key).then(answer);
        return 'answered';
      };
      return forge;
    }

    async function inClone(email: string, name: string): Promise<Developer> {
      const { host } = installation;
      const developer = await Developer.at(installation, email);
      const git = (...args: string[]) => execFileSync('git', args, { cwd: developer.folder, stdio: 'pipe' });
      git('clone', '--quiet', join(host.folder, `${name}.git`), '.');
      git('remote', 'set-url', 'origin', host.url(`${name}.git`));
      return developer;
    }

    test('leads from a clone to the first build, and makes nothing twice', async () => {
      await using forge = await forgeWith('team/app');
      await installation.api().post('/forges', forge.fields);
      const developer = await inClone(installation.admin.email, 'team/app');
      const first = await developer.run(['init', '--yes', '--plain']);
      assert.equal(first.status, 0, first.out + first.err);
      assert.match(first.out, /^Created the project app, with its key, its hook and its statuses at http:/);
      assert.match(first.out, /\nWrote \.headrace\.toml\. Commit it/);
      assert.match(first.out, /\n\+ suite test\n/);
      assert.match(first.out, /passed/);
      const path = join(developer.folder, '.headrace.toml');
      const written = readFileSync(path, 'utf8');
      assert.match(written, /there is a Makefile\.[^]*make test\n/);

      const seen = async () => {
        const api = installation.api();
        const projects = await api.get<Item[]>('/projects');
        const below = `/projects/${projects[0]?.id_str}`;
        const names = async (what: string) => (await api.get<Item[]>(`${below}/${what}`)).map(({ id_str: id }) => id);
        const { keys, hooks } = forge.of('team/app');
        const lists = await Promise.all(['suites', 'hooks', 'build_requests'].map(names));
        return { projects, lists, keys: keys.map(({ readOnly }) => readOnly), hooks: hooks.map(({ url }) => url) };
      };
      const made = await seen();
      const [project] = made.projects;
      assert.deepEqual(
        [project?.name, project?.forge_state, project?.forge_repository, project?.config_file],
        ['app', 'connected', 'team/app', '.headrace.toml'],
      );
      assert.deepEqual(
        [made.projects.length, made.lists.map(({ length }) => length), made.keys, made.hooks.length],
        [1, [1, 1, 1], [true], 1],
      );
      const [build] = await installation.api().get<Item[]>(`/projects/${project?.id_str}/builds`);
      const log = await installation.api().text(`/projects/${project?.id_str}/builds/${build?.id_str}/log.txt`);
      assert.match(log, /it flows/);

      const whole = await developer.run(['init', '--yes', '--json']);
      const {
        project: shown,
        changes,
        builds,
      } = JSON.parse(whole.out) as Record<'changes' | 'builds', Item[]> & { project: Item };
      assert.deepEqual([shown.name, changes, builds.map(({ build_state: state }) => state)], ['app', [], ['passed']]);

      const second = await developer.run(['init', '--yes', '--plain']);
      assert.equal(second.status, 0, second.out + second.err);
      assert.match(second.out, /^The project app is connected to team\/app at http:.*\nNothing to change in app\.\n/);
      assert.doesNotMatch(second.out, /Made|Wrote|\+ suite/);
      assert.deepEqual(await seen(), made);
      assert.equal(readFileSync(path, 'utf8'), written);
    });

    test('does not wait for a forge that is silent', async () => {
      await using forge = await forgeWith('team/quick');
      await using silent = await FakeForge.start('gitlab');
      const email = 'dora@example.org';
      const api = await installation.person(email);
      for (const one of [silent, forge]) await api().post('/forges', one.fields);
      silent.interfere = () => new Promise(() => {});
      const developer = await inClone(email, 'team/quick');
      const { status, out, err } = await developer.run(['init', '--yes', '--plain']);
      assert.equal(status, 0, out + err);
      assert.equal(err, `${silent.url} has not answered within 2.5 seconds.\n`);
      assert.match(out, /^Created the project quick, with its key/);
    });

    test('connects a forge at a terminal, without showing the token, and asks nothing with --yes', async () => {
      await using forge = await forgeWith('team/tool', 'team/hand');
      forge.repositories.delete('team/hand');
      const api = await installation.person('bob@example.org');
      const developer = await inClone('bob@example.org', 'team/tool');
      const refused = await developer.run(['init', '--yes']);
      assert.equal(refused.status, 2, refused.out + refused.err);
      assert.equal(
        refused.err,
        'headrace: None of your connected forges has git.test/team/tool, and there is no terminal to ask on. ' +
          'Run headrace init at a terminal, or with --forge none to install the key yourself. Nothing was created.\n',
      );
      assert.deepEqual(await api().get('/projects'), []);
      assert.deepEqual(execFileSync('git', ['status', '--porcelain'], { cwd: developer.folder }).toString(), '');

      const terminal = developer.sit(['init']);
      await terminal.until(/Which\? $/);
      terminal.type('github\n');
      await terminal.until(/Type a number from 1 to 5\.\s+Which\? $/);
      terminal.type('3\n');
      await terminal.until(/Its address \[https:\/\/git\.test\]: $/);
      terminal.type(`${forge.url}\n`);
      await terminal.until(/\(hidden as you type\): $/);
      terminal.type('not-this-one\n');
      await terminal.until(/Refused: [^]*Its address \[https:\/\/git\.test\]: $/);
      terminal.type(`${forge.url}\n`);
      await terminal.until(/\(hidden as you type\): $/);
      terminal.type(`${forgeToken}\n`);
      assert.equal(await terminal.end(), 0, terminal.text);
      assert.ok(!terminal.raw.includes(forgeToken), terminal.raw);
      const [project] = await api().get<Item[]>('/projects');
      assert.deepEqual([project?.name, project?.forge_state], ['tool', 'connected']);

      // Without a forge, the key is installed by hand.
      const byHand = await inClone('bob@example.org', 'team/hand');
      const asking = byHand.sit(['init'], { columns: 200 });
      await asking.until(/Which\? $/);
      asking.type('5\n');
      await asking.until(/Install this key[^]*Is it installed\? \[y\/N\] $/);
      const made = (await api().get<Item[]>('/projects')).find(({ name }) => name === 'hand');
      assert.ok(asking.raw.includes(String(made?.ssh_public_key)), asking.text);
      await installation.host.authorize(String(made?.ssh_public_key));
      asking.type('y\n');
      assert.equal(await asking.end(), 0, asking.text);
      assert.deepEqual([made?.forge_state, made?.clone_url], ['none', installation.host.url('team/hand.git')]);

      // A public forge is known by its address.
      execFileSync('git', ['remote', 'set-url', 'origin', 'git@github.com:team/else.git'], { cwd: developer.folder });
      const known = developer.sit(['init'], { columns: 200 });
      await known.until(
        /Create a token at https:\/\/github\.com\/settings[^]*Token for GitHub \(hidden as you type\): $/,
      );
      assert.doesNotMatch(known.text, /Which\?|Its address/);
      known.type('\u0003');
      await known.end();
    });

    test('takes the forge that is named, and connects and mends a project that is there', async () => {
      await using first = await forgeWith('team/lib', 'team/old', 'team/alone');
      await using second = await forgeAt(installation.host, 'team/lib');
      first.repositories.delete('team/alone');
      const email = 'carol@example.org';
      const api = await installation.person(email);
      const [one, two] = [await api().post('/forges', first.fields), await api().post('/forges', second.fields)];
      const developer = await inClone(email, 'team/lib');
      execFileSync('git', ['checkout', '--quiet', '--detach'], { cwd: developer.folder });
      const init = async (who: Developer, ...more: string[]) => {
        const { status, out, err } = await who.run(['init', '--plain', ...more]);
        return [status, `${out}${err}`] as const;
      };
      const [unclear, several] = await init(developer, '--yes');
      assert.equal(unclear, 2);
      assert.ok(several.includes(`--forge: ${one.id_str} (${first.url} as ada), ${two.id_str} (${second.url} as ada)`));
      const [unknown, none] = await init(developer, '--yes', '--forge', 'git.example.org');
      assert.equal(unknown, 2);
      assert.match(none, /^headrace: You have no connected forge git\.example\.org\. Connected: \d+ \(http:/);
      assert.deepEqual(await api().get('/projects'), []);

      const [made, said] = await init(developer, '--yes', '--forge', `${second.url}/`);
      assert.equal(made, 0, said);
      assert.deepEqual([first.of('team/lib').keys.length, second.of('team/lib').keys.length], [0, 1]);
      const [lib] = await api().get<Item[]>('/projects');
      const [request] = await api().get<Item[]>(`/projects/${lib?.id_str}/build_requests`);
      assert.match(String(request?.commit_ref), /^[0-9a-f]{40}$/, 'without a branch, the commit is built');

      // The forge takes the token no longer, and then takes it again.
      for (const token of [undefined, forgeToken]) {
        second.token = token;
        await api().post(`/forges/${two.id_str}/check`);
      }
      second.of('team/lib').hooks = [];
      const [mended, how] = await init(developer, '--yes');
      assert.equal(mended, 0, how);
      assert.match(how, /Connected lib: its key, its hook and its statuses are at http:/);
      assert.equal(second.of('team/lib').hooks.length, 1);

      // A project that somebody set up by hand is connected, and keeps what it has.
      const url = installation.host.url('team/old.git');
      const old = await api().post('/projects', { name: 'by hand', clone_url: url });
      await api().post(`/projects/${old.id_str}/suites`, { name: 'lint', command: 'echo linted' });
      const elsewhere = await inClone(email, 'team/old');
      writeFileSync(join(elsewhere.folder, '.headrace.toml'), '[[suites]]\nname = "unit"\ncommand = "make test"\n');
      const asking = elsewhere.sit(['init'], { columns: 200 });
      await asking.until(/is not connected to team\/old at http:[^]*statuses there\? \[y\/N\] $/);
      asking.type('y\n');
      assert.equal(await asking.end(), 0, asking.text);
      assert.equal((await api().get(`/projects/${old.id_str}`)).forge_state, 'connected');
      const names = (await api().get<Item[]>(`/projects/${old.id_str}/suites`)).map(({ name }) => name);
      assert.deepEqual(new Set(names), new Set(['lint', 'unit']));

      // By hand where nobody can be asked: the key is shown, and it goes on when that is there.
      const alone = await inClone(email, 'team/alone');
      const [waits, key] = await init(alone, '--yes', '--forge', 'none');
      assert.equal(waits, 2, key);
      const project = (await api().get<Item[]>('/projects')).find(({ name }) => name === 'alone');
      assert.ok(
        key.includes(
          `Install this key in the repository, so that it can be fetched:\n${String(project?.ssh_public_key)}`,
        ),
      );
      await installation.host.authorize(String(project?.ssh_public_key));
      const [passed, rest] = await init(alone, '--yes');
      assert.equal(passed, 0, rest);
      assert.doesNotMatch(rest, /Made/);
    });

    test('says what a folder lacks before anything is asked or made', async () => {
      const developer = await Developer.at(installation, installation.admin.email);
      const projects = await installation.api().get('/projects');
      const git = (...args: string[]) => execFileSync('git', args, { cwd: developer.folder, stdio: 'pipe' });
      const refused = async (who = developer) => {
        const { status, out, err } = await who.run(['init', '--yes']);
        assert.deepEqual([status, out], [2, '']);
        return err;
      };
      assert.equal(
        await refused(),
        'headrace: This folder is not a git repository. Run headrace init in a clone of one.\n',
      );
      git('init', '--quiet');
      assert.match(await refused(), /has no remote\. Add one with: git remote add origin ADDRESS\n$/);
      git('remote', 'add', 'origin', installation.host.url('team/app.git'));
      writeFileSync(join(developer.folder, '.headrace.toml'), '[[suites]]\nname = "unit"\ncomand = "make"\n');
      assert.match(await refused(), /\.headrace\.toml:3: .*comand/);
      assert.deepEqual(await installation.api().get('/projects'), projects);
    });
  });
});
