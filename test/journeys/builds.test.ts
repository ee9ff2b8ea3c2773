import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { onEveryDatabase } from '../support/databases.ts';
import { startInstallation, type Installation, type Item, type Project } from '../support/installation.ts';

/** A real server with its real runner, sandbox, git and sshd, as a person uses them. */
onEveryDatabase((database) => {
  let installation: Installation;
  let project: Project;
  before(async () => {
    installation = await startInstallation(database);
    project = await installation.project();
  });

  test('a branch is fetched and every suite that applies runs', async (t) => {
    await project.suite(t, 'unit', 'cat greeting; git log --oneline | wc -l; echo "on $HEADRACE_BRANCH"');
    await project.suite(t, 'lint', 'echo found something >&2; exit 3');
    const other = await project.suite(t, 'elsewhere', 'true');
    await project.rule(other, 'commit.branches', 'equals', 'release');
    const sha = await project.repository.commit({ message: 'Greet', files: { greeting: 'hello\n' } });

    const request = await project.build('main');
    assert.equal(request.build_state, 'failed');
    const [commit] = await project.commits();
    assert.equal(commit?.ref, sha);
    assert.equal(commit?.build_state, 'failed');
    const builds = await project.builds(commit);
    const ends = builds.map((build) => `${build.build_state} ${build.exit_status}`);
    assert.deepEqual(ends.toSorted(), ['failed 3', 'passed 0']);
    const passed = builds.find((build) => build.build_state === 'passed');
    assert.equal(await project.log(passed), 'hello\n2\non main\n');
  });

  test('a line that fails ends its command, with its status', async (t) => {
    await project.suite(t, 'stops', 'echo before\n(exit 4)\necho after');
    await project.suite(t, 'goes on', 'set +e\n(exit 4)\necho after');
    await project.repository.commit({ message: 'Stop there' });
    assert.equal((await project.build('main')).build_state, 'failed');
    const [commit] = await project.commits();
    const builds = await project.builds(commit);
    const ends = await Promise.all(
      builds.map(async (build) => `${build.build_state} ${build.exit_status} ${await project.log(build)}`),
    );
    assert.deepEqual(ends.toSorted(), ['failed 4 before\n', 'passed 0 after\n']);
  });

  test('variables reach the command and are masked in its log', async (t) => {
    const command = 'test "$TOKEN" = s3cr3t-t0ken && echo "it is $TOKEN in $STAGE, $PLACE; all have $SHARED"';
    const suite = await project.suite(t, 'secretive', command);
    await project.variable(suite, 'TOKEN', 's3cr3t-t0ken');
    await project.variable(suite, 'STAGE', 'production', { secret: 'false' });
    await project.variable(suite, 'PLACE', 'with-s3cr3t-t0ken', { secret: 'false' });
    // For all suites; the suite's own win.
    await project.variableOfAll(t, 'SHARED', 'fr0m-the-project');
    await project.variableOfAll(t, 'STAGE', 'the-stage-of-all');
    const sha = await project.repository.commit({ message: 'Hush' });
    assert.equal((await project.build(sha)).build_state, 'passed');
    const [commit] = await project.commits();
    const build = (await project.builds(commit)).find(({ suite_id_str }) => suite_id_str === suite);
    assert.equal(await project.log(build), 'it is [masked] in production, with-[masked]; all have [masked]\n');
  });

  test('a commit is built by the file that it holds', async () => {
    await project.api().put(project.path, { config_file: '.headrace.toml' });
    const file = (command: string) => ({ '.headrace.toml': `[[suites]]\nname = "filed"\ncommand = "${command}"\n` });
    const last = async (): Promise<string> => {
      const [commit] = await project.commits();
      return project.log((await project.builds(commit))[0]);
    };
    await project.repository.commit({ files: file('echo from the file') });
    assert.equal((await project.build('main')).build_state, 'passed');
    assert.equal(await last(), 'from the file\n');
    await project.repository.commit({ on: 'feature', files: file('echo from elsewhere') });
    assert.equal((await project.build('feature')).build_state, 'passed');
    assert.equal(await last(), 'from elsewhere\n');
    await project.repository.commit({ files: { '.headrace.toml': { link: '/etc/passwd' } } });
    assert.equal((await project.build('main')).build_state, 'errored');
    await project.api().put(project.path, { config_file: '' });
    const [filed] = (await project.api().get(`${project.path}/suites`)) as unknown as Item[];
    await project.api().delete(`${project.path}/suites/${filed?.id_str}`);
  });

  test('a ref that is not there ends in words', async () => {
    const request = await project.build('no-such-branch');
    assert.equal(request.build_state, 'errored');
    assert.match(await project.fetchLog(request), /no-such-branch/);
  });

  test('a running build is called off, with all it started', async (t) => {
    const suite = await project.suite(t, 'endless', 'sleep 1000 & echo started; wait');
    await project.repository.commit({ message: 'Wait' });
    const request = await project.ask('main');
    await project.untilLogged(suite, /started/);
    await project.cancel(request);
    assert.equal((await project.end(request)).build_state, 'cancelled');
  });

  test('a server that is killed finds its runner and the build again', async (t) => {
    const suite = await project.suite(
      t,
      'patient',
      'echo begun; while [ ! -e /build/never ] && [ $SECONDS_LEFT -gt 0 ]; do sleep 0.2; SECONDS_LEFT=$((SECONDS_LEFT-1)); done; echo done',
    );
    await project.variable(suite, 'SECONDS_LEFT', '15');
    await project.repository.commit({ message: 'Survive' });
    const request = await project.ask('main');
    await project.untilLogged(suite, /begun/);
    await installation.killServer();
    await installation.startServer();
    assert.equal((await project.end(request)).build_state, 'passed');
    const [commit] = await project.commits();
    const attempts = (await project.builds(commit)).filter(({ suite_id_str }) => suite_id_str === suite);
    assert.deepEqual(
      attempts.map(({ attempt, build_state }) => [attempt, build_state]),
      [[1, 'passed']],
    );
    assert.equal(await project.log(attempts[0]), 'begun\ndone\n');
  });

  const victims = {
    'a runner that is killed': () => installation.killRunner(),
    'a runner that cannot isolate builds any more': async () => installation.killMountHelpers(),
  };
  for (const [victim, kill] of Object.entries(victims)) {
    test(`${victim} loses its builds to the next attempt`, async (t) => {
      // The first attempt does not end by itself while the test looks for it.
      const command = 'test "$HEADRACE_SUITE" = again; test "$HEADRACE_ATTEMPT" -ge 2 || sleep 60; echo done';
      const suite = await project.suite(t, 'again', `echo begun; ${command}`);
      await project.repository.commit({ message: 'Try twice' });
      const request = await project.ask('main');
      await project.untilLogged(suite, /begun/);
      await kill();
      assert.equal((await project.end(request)).build_state, 'passed');
      const [commit] = await project.commits();
      const attempts = (await project.builds(commit)).filter(({ suite_id_str }) => suite_id_str === suite);
      assert.deepEqual(
        attempts.map(({ attempt, build_state, failure_reason }) => [attempt, build_state, failure_reason]),
        [
          [2, 'passed', ''],
          [1, 'errored', 'runner_lost'],
        ],
      );
    });
  }
});
