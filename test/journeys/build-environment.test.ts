import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { command } from '../support/command.ts';
import { onOneDatabase, temporaryFolder } from '../support/databases.ts';
import { startInstallation, type Installation, type Project } from '../support/installation.ts';

type Named = { kind: string; name: string };
const submodule = '[submodule "lib"]\n\tpath = lib\n\turl = ext::sh\n';

/** What builds of a runner find and what they are refused, as its operator and a developer see it. */
onOneDatabase((database) => {
  let installation: Installation;
  let project: Project;
  let file: string;
  before(async () => {
    file = join(temporaryFolder(), 'build.env');
    writeFileSync(file, 'MIRROR=https://mirror.example/\nSTAGE=from the operator\nPATH=/opt/tool/bin:/usr/bin:/bin\n');
    installation = await startInstallation(database, { HEADRACE_BUILD_ENV: file, HEADRACE_BUILD_NETWORK: 'internet' });
    database.afterwards(async () => rmSync(join(file, '..'), { recursive: true }));
    project = await installation.project();
  });

  test('the operator’s variables are in every build, below all others, as the file has them at that moment', async (t) => {
    const suite = await project.suite(t, 'shows', `echo "$MIRROR $STAGE $PATH"; echo x > ${file} || :`);
    await project.variable(suite, 'STAGE', 'the suite', { secret: 'false' });
    await project.repository.commit({ message: 'Show' });
    const built = async (): Promise<[string, string, string]> => {
      await project.build('main');
      const [commit] = await project.commits();
      const [build] = (await project.builds(commit)).toSorted((a, b) => b.attempt - a.attempt);
      return [String(build?.build_state), String(build?.failure_reason), await project.log(build)];
    };
    const [state, , log] = await built();
    assert.equal(state, 'passed');
    const [first = '', second = ''] = log.split('\n');
    assert.equal(first, 'https://mirror.example/ the suite /opt/tool/bin:/usr/bin:/bin');
    assert.match(second, /build\.env/, 'the file is not there for a build');
    writeFileSync(file, 'MIRROR=elsewhere\n');
    const [, , next] = await built();
    assert.match(
      next,
      /^elsewhere the suite \/home\/build\/\.local\/bin:\/home\/build\/go\/bin:\/home\/build\/\.cargo\/bin:/,
    );
    writeFileSync(file, 'MIRROR=elsewhere\nHOME=/root\n');
    const [bad, reason, words] = await built();
    assert.deepEqual([bad, reason], ['errored', 'environment_unreadable']);
    assert.match(words, /^The variables that the operator of this runner sets .*build\.env, line 2: HOME is set/m);
    const refused = await command(['serve', '--no-runner', '--data-dir', join(file, '..', 'new')], installation.env);
    assert.equal(refused.status, 1);
    assert.match(String(refused.stderr), /build_env: .*build\.env, line 2: HOME is set for each build/);
    rmSync(file);
    assert.match((await built())[2], /build\.env: it cannot be read: ENOENT/);
    writeFileSync(file, '');
    assert.equal((await built())[0], 'passed');
  });

  test('the record of a build names what its runner knows, and what changed since', async (t) => {
    writeFileSync(file, 'MIRROR=one\n');
    await project.suite(t, 'stands', 'cat greeting');
    const files = { greeting: 'hello\n', '.gitmodules': submodule, lib: { submodule: 'a'.repeat(40) } };
    await project.repository.commit({ files });
    const built = async (): Promise<string> => {
      await project.build('main');
      const [commit] = await project.commits();
      const [build] = (await project.builds(commit)).toSorted((a, b) => b.attempt - a.attempt);
      assert.equal(build?.build_state, 'passed');
      return build.id_str;
    };
    const inputs = (id: string, query = '') =>
      installation.api().get<{ inputs: Named[]; differences?: Named[] }>(`${project.path}/builds/${id}/inputs${query}`);
    const first = await built();
    const names = (await inputs(first)).inputs.map(({ kind, name }) => `${kind} ${name}`);
    for (const known of [
      'tree commit',
      'tree missing parts',
      'command command',
      'variable MIRROR',
      'network mode',
      'architecture processor',
      'packages installed packages',
      'packages /usr/local',
    ])
      assert.ok(names.includes(known), `${known} in ${names.join(', ')}`);
    const differences = async (): Promise<string[]> => {
      const { differences = [] } = await inputs(await built(), `?compare=${first}`);
      return differences.map(({ kind, name }) => `${kind} ${name}`);
    };
    await project.repository.commit({ message: 'The same files', files });
    assert.deepEqual(await differences(), []);
    writeFileSync(file, 'MIRROR=two\n');
    assert.deepEqual(await differences(), ['variable MIRROR']);
    await project.repository.commit({ files: { '.gitmodules': null, lib: null } });
    assert.deepEqual(await differences(), ['tree commit', 'tree missing parts', 'variable MIRROR']);
  });

  test('the log of a build that did not pass ends with what it was refused', async (t) => {
    const call = (address: string): string =>
      `perl -MIO::Socket::INET -e 'IO::Socket::INET->new(PeerAddr => "${address}", Timeout => 5)'`;
    await project.suite(t, 'asks', `${call('10.1.2.3:443')}; ${call('169.254.169.254:80')}; echo done; exit "$CODE"`, {
      'matrix[]': 'CODE=0,1',
    });
    await project.repository.commit({ message: 'Ask' });
    await project.build('main');
    const [commit] = await project.commits();
    const logs = new Map<unknown, string>();
    for (const build of await project.builds(commit)) logs.set(build.build_state, await project.log(build));
    assert.equal(logs.get('passed'), 'done\n');
    assert.match(
      logs.get('failed') ?? '',
      /^done\n\n.*to these addresses:\n {2}(10\.1\.2\.3 port 443\n {2}169\.254\.169\.254 port 80|169\.254\.169\.254 port 80\n {2}10\.1\.2\.3 port 443)\n.*HEADRACE_BUILD_ALLOW.*\n$/,
    );
  });
});
