import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { onOneDatabase } from '../support/databases.ts';
import { startInstallation, type Installation, type Project } from '../support/installation.ts';

/** What suites say about how they are run, as real builds. */
onOneDatabase((database) => {
  let installation: Installation;
  let project: Project;
  before(async () => {
    installation = await startInstallation(database);
    project = await installation.project();
  });
  const built = async (...fields: string[]): Promise<string[]> => {
    const [commit] = await project.commits();
    const builds = (await project.builds(commit)).toReversed();
    return builds.map((build) => fields.map((field) => String(build[field as keyof typeof build])).join(' '));
  };

  test('a time limit ends one suite and not the others', async (t) => {
    const hasty = await project.suite(t, 'hasty', 'echo begun; sleep 1000', { timeout: '1', allow_failure: 'true' });
    await project.suite(t, 'patient', 'sleep 2; echo done');
    await project.repository.commit({ message: 'Wait' });
    assert.equal((await project.build('main')).build_state, 'passed');
    const seen = await built('suite_id_str', 'build_state', 'allow_failure');
    assert.ok(seen.includes(`${hasty} timed_out true`), seen.join('\n'));
    assert.equal(seen.filter((one) => one.endsWith('passed false')).length, 1);
  });

  test('a build that fails first and passes then is flaky, and every attempt has its log', async (t) => {
    await project.suite(t, 'shaky', 'echo "attempt $HEADRACE_ATTEMPT"; test "$HEADRACE_ATTEMPT" -ge 3', {
      retries: '2',
    });
    await project.repository.commit({ message: 'Shake' });
    assert.equal((await project.build('main')).build_state, 'passed');
    assert.deepEqual(await built('build_state', 'attempt', 'flaky'), [
      'failed 1 false',
      'failed 2 false',
      'passed 3 true',
    ]);
    const [commit] = await project.commits();
    const logs = (await project.builds(commit)).toReversed().map((build) => project.log(build));
    assert.deepEqual(await Promise.all(logs), ['attempt 1\n', 'attempt 2\n', 'attempt 3\n']);
  });

  test('a runner that is killed during a retry loses it to the next attempt, which is the same retry', async (t) => {
    // The retry does not end by itself while the test looks for it.
    const command = 'echo "begun $HEADRACE_ATTEMPT"; case "$HEADRACE_ATTEMPT" in 1) exit 1 ;; 2) sleep 1000 ;; esac';
    const suite = await project.suite(t, 'doomed', command, { retries: '1' });
    await project.repository.commit({ message: 'Lose' });
    const request = await project.ask('main');
    await project.untilLogged(suite, /begun 2/);
    await installation.killRunner();
    assert.equal((await project.end(request)).build_state, 'passed');
    assert.deepEqual(await built('build_state', 'attempt', 'failure_reason', 'flaky'), [
      'failed 1  false',
      'errored 2 runner_lost false',
      'passed 3  true',
    ]);
  });

  test('every combination of a matrix runs with its own values; what failed is run again alone', async (t) => {
    const command = 'echo "$NODE on $OS"; test "$NODE $OS $HEADRACE_ATTEMPT" != "22 debian 1"';
    const suite = await project.suite(t, 'wide', command, { 'matrix[]': 'NODE=20,22\nOS=debian,alpine' });
    await project.variable(suite, 'OS', 'none of these');
    await project.repository.commit({ message: 'Spread' });
    const request = await project.build('main');
    assert.equal(request.build_state, 'failed');
    const [commit] = await project.commits();
    for (const build of await project.builds(commit)) {
      const [node, os] = String(build.variant)
        .split(' ')
        .map((pair) => pair.split('=')[1]);
      assert.equal(await project.log(build), `${node} on ${os}\n`);
    }
    const path = project.path;
    await installation.api().post(`${path}/build_requests/${request.id_str}/rerun`, { failed_only: 'true' });
    assert.equal((await project.end(request)).build_state, 'passed');
    assert.deepEqual((await built('variant', 'attempt', 'build_state')).toSorted(), [
      'NODE=20 OS=alpine 1 passed',
      'NODE=20 OS=debian 1 passed',
      'NODE=22 OS=alpine 1 passed',
      'NODE=22 OS=debian 1 failed',
      'NODE=22 OS=debian 2 passed',
    ]);
  });
});
