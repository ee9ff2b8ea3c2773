import assert from 'node:assert/strict';
import { before, test, type TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { onOneDatabase } from '../support/databases.ts';
import { startInstallation, type Build, type Installation, type Project } from '../support/installation.ts';
import { archiveOf } from '../support/software.ts';

const megabyte = 1024 * 1024;
const words =
  'The log was cut here and the job was ended, because a log may have at most 1 MB. Print less, or write long output to a file.';

/** Builds that would fill the machine with what they say or make, in the whole service. */
onOneDatabase((database) => {
  let installation: Installation;
  let project: Project;
  before(async () => {
    installation = await startInstallation(database, { HEADRACE_LOG_SIZE: '1' });
    project = await installation.project();
  });

  const newest = async (): Promise<Build> => {
    const [commit] = await project.commits();
    return (await project.builds(commit))[0] ?? assert.fail('it was not built');
  };
  const built = async (t: TestContext, name: string, command: string): Promise<Build> => {
    await project.suite(t, name, command);
    await project.build(await project.repository.commit({ message: name }));
    return newest();
  };

  test('a build with endless output is ended at the limit, and its output so far is kept [promise: build-log]', async (t) => {
    const build = await built(t, 'flood', 'exec yes "all work and no play"');
    assert.deepEqual([build.build_state, build.failure_reason], ['failed', 'log_too_long']);
    const bytes = await project.logBytes(build);
    assert.deepEqual(bytes.subarray(0, megabyte), Buffer.alloc(megabyte, 'all work and no play\n'));
    assert.equal(bytes.subarray(megabyte).toString(), `\n${words}\n`);
  });

  test('a log is too long also when the build ends by itself', async (t) => {
    const build = await built(t, 'quick', `head -c ${megabyte + 1} /dev/zero`);
    assert.deepEqual([build.build_state, build.failure_reason, build.exit_status], ['failed', 'log_too_long', null]);
  });

  test('a build whose log is exactly at the limit passes', async (t) => {
    const build = await built(t, 'exact', `head -c ${megabyte} /dev/zero`);
    assert.equal(build.build_state, 'passed');
    assert.equal((await project.logBytes(build)).length, megabyte);
  });

  test('a compile that never stops talking fails, and its log says why', async () => {
    const api = installation.api();
    const form = { name: 'talker', command: 'yes /srv/dependency' };
    const id = String((await api.post('/dependencies', form)).id_ref);
    await api.upload(`/dependencies/${id}/archive`, await archiveOf({ hello: 'hello\n' }));
    for (;;) {
      const { marketplace_state: state } = await api.get(`/dependencies/${id}`);
      if (state === 'compile_failed') break;
      assert.ok(state === 'enqueued_for_compile' || state === 'compiling', String(state));
      await pause(50);
    }
    const text = await api.text(`/dependencies/${id}/log.txt`);
    assert.ok(text.endsWith(`\n${words}\n`));
    assert.equal(text.length, megabyte + words.length + 2);
  });

  const deep = `perl -e 'for my $place (qw(/build /tmp)) { chdir $place or die $!; for (1..5000) { mkdir "deep" or die $!; chdir "deep" or die $! } }'`;

  test('a build that nests 5,000 directories does not disturb the next one', async (t) => {
    assert.equal((await built(t, 'deep', `${deep} && echo made`)).build_state, 'passed');
    const next = await project.suite(t, 'next', 'find /build /tmp -name deep; echo looked');
    await project.build(await project.repository.commit({ message: 'next' }));
    const looked = (await project.builds((await project.commits())[0])).find(({ suite_id_str: id }) => id === next);
    assert.equal(await project.log(looked), 'looked\n');
  });

  test('a build that has nested 5,000 directories when its runner is killed does not disturb the next one', async (t) => {
    const suite = await project.suite(t, 'killed', `${deep} && echo made && sleep 1000`);
    const request = await project.ask(await project.repository.commit({ message: 'killed' }));
    await project.untilLogged(suite, /made/);
    await project.command(suite, 'echo again');
    await installation.killRunner();
    assert.equal((await project.end(request)).build_state, 'passed');
    const [again] = (await project.builds((await project.commits())[0])).filter(({ attempt }) => attempt === 2);
    assert.deepEqual([again?.build_state, await project.log(again)], ['passed', 'again\n']);
    await installation.stop();
    await installation.startServer();
    assert.equal((await project.build(await project.repository.commit({ message: 'later' }))).build_state, 'passed');
  });
}, 'postgres');
