import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test, type TestContext } from 'node:test';
import { removeTree } from '../../src/shared/lib/remove-tree.ts';
import { command } from '../support/command.ts';
import { onOneDatabase, temporaryFolder } from '../support/databases.ts';
import { startInstallation, type Build, type Installation, type Item, type Project } from '../support/installation.ts';
import { startProgram } from '../support/program.ts';

/** Suites that begin with what another one left, with real servers, runners and sandboxes. */
onOneDatabase((database) => {
  let installation: Installation;
  let project: Project;
  let first: string;
  let second: string;
  before(async () => {
    installation = await startInstallation(database, { HEADRACE_FILES_HOURS: '24' });
    project = await installation.project();
    const make =
      'echo made >made; rm -f README; mkdir -p ~/.state; echo "$HEADRACE_ATTEMPT" >~/.state/by; chmod 750 made';
    first = (await project.api().post(`${project.path}/suites`, { name: 'compile', command: make })).id_str;
    const fields = { name: 'check', command: look, 'needs[]': first, files_from_id: first };
    second = (await project.api().post(`${project.path}/suites`, fields)).id_str;
  });
  const look = 'cat made ~/.state/by; stat -c %a made; ls made; echo mine >>made';

  const builds = async (request: Item): Promise<Partial<Record<string, Build[]>>> => {
    const { commit_id_str: id } = await project.api().get(`${project.path}/build_requests/${request.id_str}`);
    const all = await project.api().get<Build[]>(`${project.path}/commits/${String(id)}/builds?limit=1000`);
    return Object.groupBy(all.toReversed(), ({ suite_name: name }) => String(name));
  };
  const states = async (request: Item): Promise<string[]> =>
    Object.entries(await builds(request)).flatMap(([name, some]) =>
      (some ?? []).map(({ attempt, build_state: state }) => `${name} ${attempt} ${state}`),
    );
  const newest = async (request: Item, suite = 'check'): Promise<Build> => {
    const found = (await builds(request))[suite]?.at(-1);
    return found ?? assert.fail(`${suite} was not built`);
  };
  const built = async (): Promise<Item> => {
    await project.repository.commit({ on: 'main' });
    return project.build('main');
  };
  const restarted = async (request: Item): Promise<Build> => {
    await project.api().post(`${project.path}/builds/${(await newest(request)).id_str}/restart`);
    await project.end(request);
    return newest(request);
  };
  /** Another runner, which takes work with its tag, and other work. */
  const another = async (t: TestContext, tag: string, ...flags: string[]) => {
    const folder = temporaryFolder();
    const made = await command(['admin', 'runner', 'create', tag, '--data-dir', installation.folder], installation.env);
    const { token } = JSON.parse(made.stdout.toString()) as { token: string };
    const tokenFile = join(folder, 'token');
    writeFileSync(tokenFile, token, { mode: 0o600 });
    const kills: (() => unknown)[] = [];
    const start = () =>
      startProgram(
        { afterwards: (kill) => void kills.push(kill) },
        [
          'runner',
          '--url',
          installation.address(),
          '--token-file',
          tokenFile,
          '--data-dir',
          join(folder, 'data'),
          '--tag',
          tag,
          '--ca-file',
          join(installation.folder, 'tls', 'cert.pem'),
          ...flags,
        ],
        {
          HEADRACE_SSH_CONFIG: installation.host.sshConfig,
          HEADRACE_BUILD_NETWORK: 'none',
          HEADRACE_CONCURRENCY: '1',
        },
      );
    t.after(async () => {
      for (const kill of kills) await kill();
      await removeTree(folder);
    });
    return { folder, program: start(), start };
  };

  test('a build begins with what the needed one left, and again after restarts', async () => {
    const request = await built();
    assert.deepEqual(await states(request), ['compile 1 passed', 'check 1 passed']);
    const begins = /^This starts with the files of compile\.\nmade\n1\n750\nmade\n$/;
    assert.match(await project.log(await newest(request)), begins);
    // They stay for who restarts it: the first suite does not run again, also not after a restart of everything.
    assert.match(await project.log(await restarted(request)), begins);
    await installation.killRunner();
    await installation.killServer();
    await installation.startServer();
    assert.match(await project.log(await restarted(request)), begins);
    assert.deepEqual(await states(request), ['compile 1 passed', 'check 1 passed', 'check 2 passed', 'check 3 passed']);
  });

  test('another runner gets them packed, once for all; when the one that has them is gone, the suite runs again first', async (t) => {
    const other = await another(t, 'other');
    await project.api().put(`${project.path}/suites/${second}`, { 'tags[]': 'other', 'matrix[]': 'N=1,2,3' });
    const request = await built();
    const logs = await Promise.all(((await builds(request)).check ?? []).map((build) => project.log(build)));
    assert.equal(logs.length, 3);
    for (const log of logs) assert.match(log, /This starts with the files of compile\.\nmade\n1\n750\nmade\n$/);
    const blobs = readdirSync(join(other.folder, 'data/remote-runner/files'), { recursive: true, encoding: 'utf8' });
    assert.equal(blobs.filter((path) => /^\d+-\d+$/.test(path)).length, 1, 'there is one tree');
    await project.api().put(`${project.path}/suites/${second}`, { 'matrix[]': '' });

    // Compiled on the other runner, which is killed before the second suite begins.
    await project.api().put(`${project.path}/suites/${first}`, { 'tags[]': 'other' });
    await project.api().put(`${project.path}/suites/${second}`, { 'tags[]': '', approval: 'true' });
    await project.repository.commit({ on: 'main' });
    const waiting = await project.ask('main');
    for (;;) {
      const { check = [] } = await builds(waiting).catch((): Awaited<ReturnType<typeof builds>> => ({}));
      if (check.at(-1)?.build_state === 'waiting_for_approval') break;
    }
    other.program.process.kill('SIGKILL');
    await other.program.exited;
    await project.api().put(`${project.path}/suites/${first}`, { 'tags[]': '' });
    await project.api().post(`${project.path}/builds/${(await newest(waiting)).id_str}/approve`);
    await project.end(waiting);
    assert.deepEqual(await states(waiting), ['compile 1 passed', 'compile 2 passed', 'check 1 passed']);
    const log = await project.log(await newest(waiting));
    assert.match(
      log,
      /^The files of compile are no longer stored\. It runs again first\.\nThis starts with the files of compile\.\nmade\n2\n/,
    );
    await project.api().put(`${project.path}/suites/${second}`, { approval: 'false' });
  });

  test('a runner that ends by itself leaves them behind as well, after one job or when none comes', async (t) => {
    await project.api().put(`${project.path}/suites/${first}`, { 'tags[]': 'once' });
    for (const [name, life] of [
      ['one', ['--once', '--idle', '20']],
      ['some', ['--until-idle', '--idle', '5', '--concurrency', '1']],
    ] as const) {
      await project.repository.commit({ on: 'main' });
      const request = await project.ask('main');
      // The commit is fetched by the other runner: this one has all its time for the suite.
      while (!(await builds(request).catch((): Awaited<ReturnType<typeof builds>> => ({}))).compile);
      const short = await another(t, name, ...life, '--tag', 'once');
      await project.end(request);
      assert.deepEqual(await states(request), ['compile 1 passed', 'check 1 passed']);
      assert.equal(await short.program.exited, 0, short.program.said());
      assert.match(await project.log(await newest(request)), /This starts with the files of compile\.\nmade\n1\n/);
    }
    await project.api().put(`${project.path}/suites/${first}`, { 'tags[]': '' });
  });

  test('what is left out leaves nothing: the build begins with the checkout', async () => {
    const rule = await project.rule(first, 'commit.message', 'matches', 'never said');
    await project.command(second, 'ls; cat made 2>&1 || true');
    const request = await built();
    assert.deepEqual(await states(request), ['check 1 passed']);
    assert.doesNotMatch(await project.log(await newest(request)), /files of compile|^made$/m);
    await project.api().delete(`${project.path}/suites/${first}/rules/${rule.id_str}`);
    await project.command(second, look);
  });

  test('files of one that may fail are taken, and a shell can be opened in them too', async () => {
    await project.api().put(`${project.path}/suites/${first}`, {
      command: 'echo made >made; chmod 750 made; mkdir ~/.state; echo f >~/.state/by; exit 3',
      allow_failure: 'true',
    });
    const request = await built();
    assert.deepEqual(await states(request), ['compile 1 failed', 'check 1 passed']);
    assert.match(await project.log(await newest(request)), /This starts with the files of compile\.\nmade\nf\n/);
    const { id_str: id } = await newest(request, 'compile');
    const build = await project.api().get(`${project.path}/builds/${id}`);
    assert.ok(build.files_kept_until, JSON.stringify(build));
    assert.ok(readFileSync(join(installation.folder, 'runner/kept/location'), 'utf8'));
  });

  test('a build has what several suites left beside its checkout, as the file of its commit says', async (t) => {
    await another(t, 'apart');
    const many = await installation.project('many');
    await many.api().put(many.path, { config_file: '.headrace.toml' });
    const suite = (name: string, ...lines: string[]): string => [`[[suites]]\nname = "${name}"`, ...lines].join('\n');
    const has = 'cd .headrace/files; find . -name made | LC_ALL=C sort; cat */made */*/made; cd ../..; test ! -e made';
    const file = [
      suite('one/two', 'command = "echo one >made"', 'tags = ["apart"]'),
      suite('all', 'matrix = ["OS=linux,mac"]', 'command = "echo $OS >made; ln -s /etc/passwd link"'),
      suite('of-linux', 'command = "echo by-linux >made"'),
      suite('of-mac', 'command = "echo by-mac >made"'),
      suite(
        'takes',
        'needs = ["one/two", "all", "of-linux"]',
        'files_from = ["one/two", "all", "of-linux"]',
        `command = "${has}; mkdir out; echo o >out/own"`,
        'artifacts = ["**"]',
      ),
      suite(
        'follows',
        'needs = ["takes"]',
        'files_from = "takes"',
        'command = "find . -name .git -prune -o -print | LC_ALL=C sort"',
      ),
      suite(
        'each',
        'matrix = ["OS=linux,mac"]',
        'needs = ["of-linux", "of-mac"]',
        'files_from = "of-$OS"',
        'command = "cat made"',
      ),
    ].join('\n\n');
    await many.repository.commit({ on: 'main', files: { '.headrace.toml': `name = "many"\n${file}\n` } });
    const request = await many.build('main');
    const { commit_id_str: commit } = await many.api().get(`${many.path}/build_requests/${request.id_str}`);
    const all = await many.api().get<Build[]>(`${many.path}/commits/${String(commit)}/builds?limit=100`);
    const of = (name: string, variant = ''): Build =>
      all.find((build) => build.suite_name === name && build.variant === variant) ?? assert.fail(name);
    const log = await many.log(of('takes'));
    assert.equal(
      log,
      [
        'The files of one/two, all, of-linux are in .headrace/files.',
        ...['all/OS=linux', 'all/OS=mac', 'of-linux', 'one%2Ftwo'].map((at) => `./${at}/made`),
        'by-linux',
        'one',
        'linux',
        'mac',
        '',
        'Artifacts: 2 files kept, 13 bytes.',
        '',
      ].join('\n'),
    );
    const followed =
      /^This starts with the files of takes\.\n\.\n\.\/\.headrace\.toml\n\.\/file-\d+\n\.\/out\n\.\/out\/own\n$/;
    assert.match(await many.log(of('follows')), followed);
    for (const os of ['linux', 'mac'])
      assert.equal(await many.log(of('each', `OS=${os}`)), `This starts with the files of of-${os}.\nby-${os}\n`);
    // What the default branch's file says is now the project's, and is written as it was.
    const { document } = await many.api().get(`${many.path}/config`);
    const { suites } = JSON.parse(String(document)) as { suites: { name: string; files_from?: unknown }[] };
    const from = suites.flatMap(({ name, files_from: taken }) => (taken === undefined ? [] : [[name, taken]]));
    assert.deepEqual(Object.fromEntries(from), {
      takes: ['one/two', 'all', 'of-linux'],
      follows: 'takes',
      each: 'of-$OS',
    });
  });
});
