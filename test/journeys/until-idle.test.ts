import assert from 'node:assert/strict';
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { command } from '../support/command.ts';
import { onOneDatabase, temporaryFolder } from '../support/databases.ts';
import { startInstallation, type Installation, type Project } from '../support/installation.ts';
import { freePort } from '../support/ports.ts';
import { startProgram, type Started } from '../support/program.ts';

/** Runners that an engine starts, which work until no work comes: real ones, of a server that runs nothing itself. */
onOneDatabase((database) => {
  let installation: Installation;
  let project: Project;
  let last = 0;
  before(async () => {
    installation = await startInstallation(database, {}, { runner: false, port: await freePort() });
    project = await installation.project();
  });

  const admin = async (...args: string[]): Promise<Record<string, string>> => {
    const words = ['admin', 'runner', ...args, '--data-dir', installation.folder];
    const { stdout, stderr } = await command(words, installation.env);
    assert.match(stdout.toString(), /^\{.*\}\n$/, stderr.toString());
    return JSON.parse(stdout.toString()) as Record<string, string>;
  };
  interface Running extends Started {
    isReady(): boolean;
  }
  const runner = async (
    idle: number,
    settings: Record<string, string> = {},
    name = `engine-${(last += 1)}`,
  ): Promise<Running> => {
    const folder = temporaryFolder();
    database.afterwards(() => rmSync(folder, { recursive: true, force: true }));
    const { token = '' } = await admin('create', name);
    const [tokenFile, ready] = [join(folder, 'token'), join(folder, 'ready')];
    writeFileSync(tokenFile, token);
    const { HEADRACE_DATABASE_URL: _, ...env }: Record<string, string> = { ...installation.env, ...settings };
    const server = ['--url', installation.address(), '--token-file', tokenFile];
    server.push('--ca-file', join(installation.folder, 'tls', 'cert.pem'));
    const life = ['--until-idle', '--idle', String(idle), '--ready-file', ready, '--concurrency', '1'];
    const started = startProgram(database, ['runner', ...server, ...life, '--data-dir', join(folder, 'data')], env);
    return { ...started, isReady: () => existsSync(ready) };
  };
  const until = async (isSo: () => boolean, started: Started): Promise<void> => {
    for (; !isSo(); await pause(20)) assert.equal(started.process.exitCode, null, started.said());
  };
  const attempts = async () => {
    const [commit] = await project.commits();
    return (await project.builds(commit)).map(({ attempt, build_state: state, failure_reason: reason }) => [
      attempt,
      state,
      reason,
    ]);
  };

  test('one runner fetches and builds, what waits and what comes while it is idle', async (t) => {
    await project.suite(t, 'two kinds of work', 'echo done');
    await project.repository.commit({ message: 'Before it starts' });
    const request = await project.ask('main');
    const started = await runner(600);
    assert.equal((await project.end(request)).build_state, 'passed', started.said());
    assert.ok(started.isReady());
    await project.repository.commit({ message: 'While it is idle' });
    assert.equal((await project.build('main')).build_state, 'passed', started.said());
    started.process.kill('SIGTERM');
    assert.equal(await started.exited, 0, started.said());
    assert.equal(started.isReady(), false);
  });

  test('an empty queue ends it well', async () => {
    const started = await runner(0);
    assert.equal(await started.exited, 0, started.said());
  });

  test('a server that is killed in the middle does not end it; then nothing comes, and it ends', async (t) => {
    const suite = await project.suite(t, 'patient', 'echo begun; sleep 3; echo done');
    await project.repository.commit({ message: 'Survive' });
    const request = await project.ask('main');
    const started = await runner(5);
    await project.untilLogged(suite, /begun/);
    await installation.killServer();
    await until(() => !started.isReady(), started);
    await until(() => /server unreachable/.test(started.said()), started);
    await installation.startServer();
    assert.equal((await project.end(request)).build_state, 'passed', started.said());
    assert.deepEqual(await attempts(), [[1, 'passed', '']]);
    assert.equal(await started.exited, 0, started.said());
  });

  test('asked to stop while it builds, it ends well: after the build, or at once, and then others build', async (t) => {
    const suite = await project.suite(t, 'stopped', 'echo begun; sleep 2; echo done');
    await project.repository.commit({ message: 'Stop softly' });
    const soft = await runner(600, { HEADRACE_STOP: 'drain' });
    const request = await project.ask('main');
    await project.untilLogged(suite, /begun/);
    soft.process.kill('SIGTERM');
    assert.equal(await soft.exited, 0, soft.said());
    assert.equal((await project.end(request)).build_state, 'passed');
    assert.deepEqual(await attempts(), [[1, 'passed', '']]);

    await project.command(suite, 'echo hanging; sleep 1000');
    await project.repository.commit({ message: 'Stop at once' });
    const hard = await runner(600);
    const broken = await project.ask('main');
    await project.untilLogged(suite, /hanging/);
    await project.command(suite, 'echo done');
    hard.process.kill('SIGTERM');
    assert.equal(await hard.exited, 0, hard.said());
    const heir = await runner(600);
    assert.equal((await project.end(broken)).build_state, 'passed', heir.said());
    assert.deepEqual(await attempts(), [
      [2, 'passed', ''],
      [1, 'errored', 'runner_lost'],
    ]);
    heir.process.kill('SIGTERM');
    assert.equal(await heir.exited, 0, heir.said());
  });

  test('drained at the server it ends well; with a token that was taken back it does not', async () => {
    const drained = await runner(600, {}, 'drained');
    await until(() => drained.isReady(), drained);
    await admin('drain', 'drained');
    assert.equal(await drained.exited, 0, drained.said());
    const revoked = await runner(600, {}, 'revoked');
    await until(() => revoked.isReady(), revoked);
    await admin('revoke', 'revoked');
    assert.equal(await revoked.exited, 1, revoked.said());
  });
});
