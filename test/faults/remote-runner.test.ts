import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer as createProxy, request as ask } from 'node:https';
import type { AddressInfo, Server } from 'node:net';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { onOneDatabase, temporaryFolder } from '../support/databases.ts';
import { Developer } from '../support/developer.ts';
import { startInstallation, type Installation, type Project } from '../support/installation.ts';
import { command } from '../support/command.ts';
import { freePort } from '../support/ports.ts';
import { startProgram, type Started } from '../support/program.ts';
import { longestWait } from '../support/pauses.ts';

/** A server that runs nothing itself, and runners elsewhere that reach it over HTTPS alone. */
onOneDatabase((database) => {
  let installation: Installation;
  let project: Project;
  let certificate: string;
  before(async () => {
    installation = await startInstallation(database, {}, { runner: false, port: await freePort() });
    project = await installation.project();
    certificate = join(installation.folder, 'tls', 'cert.pem');
  });

  const admin = async (...args: string[]): Promise<Record<string, string>> => {
    const words = ['admin', 'runner', ...args, '--data-dir', installation.folder];
    const { stdout, stderr } = await command(words, installation.env);
    assert.match(stdout.toString(), /^\{.*\}\n$/, stderr.toString());
    return JSON.parse(stdout.toString()) as Record<string, string>;
  };
  const create = async (name: string): Promise<string> => (await admin('create', name)).token ?? '';
  /** Starts a runner on a machine of its own, as far as files go. */
  const runner = (
    token: string,
    {
      url = installation.address(),
      more = [],
      settings = {},
    }: { url?: string; more?: string[]; settings?: Record<string, string> } = {},
  ): Started => {
    const folder = temporaryFolder();
    database.afterwards(() => rmSync(folder, { recursive: true, force: true }));
    const tokenFile = join(folder, 'token');
    writeFileSync(tokenFile, `${token}\n`);
    const { HEADRACE_DATABASE_URL: _, ...env }: Record<string, string> = { ...installation.env, ...settings };
    const place = ['--url', url, '--token-file', tokenFile, '--ca-file', certificate];
    return startProgram(database, ['runner', ...place, '--data-dir', join(folder, 'data'), ...more], env);
  };
  const stop = async (started: Started): Promise<void> => {
    started.process.kill('SIGTERM');
    assert.equal(await started.exited, 0, started.said());
  };
  const newest = async () => {
    const [commit] = await project.commits();
    return project.builds(commit);
  };
  /** The first attempt was lost with its runner, and the second passed. */
  const assertTriedAgain = async (): Promise<void> =>
    assert.deepEqual(
      (await newest()).map(({ attempt, build_state: state, failure_reason: reason }) => [attempt, state, reason]),
      [
        [2, 'passed', ''],
        [1, 'errored', 'runner_lost'],
      ],
    );

  test('one piece of work is done by a runner that does one, and then it ends', async (t) => {
    await project.suite(t, 'remote', 'echo done elsewhere');
    await project.repository.commit({ message: 'Go elsewhere' });
    const request = await project.ask('main');
    const token = await create('once');
    const fetching = runner(token, { more: ['--once'] });
    assert.equal(await fetching.exited, 0, fetching.said());
    assert.deepEqual(
      (await newest()).map(({ build_state: state }) => state),
      ['enqueued'],
    );
    const building = runner(token, { more: ['--once', '--concurrency', '4'] });
    assert.equal(await building.exited, 0, building.said());
    assert.equal((await project.end(request)).build_state, 'passed');
    assert.equal(await project.log((await newest())[0]), 'done elsewhere\n');
  });

  test('a token that nobody gave out, and an address without TLS, are refused in words [promise: transport]', async () => {
    const stranger = runner('hrr_nobody');
    assert.equal(await stranger.exited, 1);
    assert.match(stranger.said(), /does not know the token/);
    const plain = runner(await create('plain'), { url: installation.address().replace('https:', 'http:') });
    assert.equal(await plain.exited, 1);
    assert.match(plain.said(), /use https .* not http:/);
  });

  test('a server whose certificate is not trusted is given nothing', async () => {
    const folder = temporaryFolder();
    database.afterwards(() => rmSync(folder, { recursive: true, force: true }));
    writeFileSync(join(folder, 'token'), await create('careful'));
    const args = ['runner', '--url', installation.address(), '--token-file', join(folder, 'token')];
    const { HEADRACE_DATABASE_URL: _, ...env } = installation.env;
    const careful = startProgram(database, [...args, '--data-dir', join(folder, 'data')], env);
    await until(() =>
      /the certificate of 127\.0\.0\.1 is not trusted here .* pass the copy with --ca-file/.test(careful.said()),
    );
    await stop(careful);
  });

  test('it goes on while the server is dead, and delivers; behind a proxy with a path too', async (t) => {
    const suite = await project.suite(t, 'patient', 'echo begun; sleep 4; seq 200000; echo done');
    await project.repository.commit({ message: 'Survive' });
    await using proxy = await startProxy(installation, certificate);
    const started = runner(await create('steady'), { url: `${proxy.address}/ci/` });
    const request = await project.ask('main');
    await project.untilLogged(suite, /begun/);
    await installation.killServer();
    await installation.startServer();
    assert.equal((await project.end(request)).build_state, 'passed', started.said());
    const [build, ...others] = await newest();
    assert.deepEqual([build?.attempt, others], [1, []]);
    const counted = Array.from({ length: 200_000 }, (_, number) => `${number + 1}\n`).join('');
    assert.ok((await project.log(build)) === `begun\n${counted}done\n`);
    await stop(started);
  });

  test('a shell opens in the files of a build that failed there', async (t) => {
    await project.suite(t, 'to be opened', 'echo made > made.txt; exit 5');
    await project.repository.commit({ message: 'Fail elsewhere' });
    const started = runner(await create('location'));
    assert.equal((await project.end(await project.ask('main'))).build_state, 'failed', started.said());
    const [{ id_str: id } = assert.fail()] = await newest();
    const developer = await Developer.at(installation, installation.admin.email);
    developer.clone(installation.host.url('app.git'));
    const script = await developer.run(['shell', id], 'cat made.txt; echo "$HEADRACE_SUITE"; seq 50000; exit 6');
    const counted = Array.from({ length: 50_000 }, (_, number) => `${number + 1}\n`).join('');
    assert.ok(script.out === `made\nto be opened\n${counted}`, script.out.slice(0, 1000));
    assert.equal(script.status, 6, script.err);
    const terminal = developer.sit(['shell', id]);
    await terminal.until(/[$#] $/m);
    terminal.type('cat made.txt; exit 7\r');
    assert.equal(await terminal.end(), 7);
    assert.match(terminal.text, /^made$/m);
    await stop(started);
  });

  test('when it dies, another one makes the next attempt', async (t) => {
    const suite = await project.suite(t, 'again', 'echo begun; sleep 1000');
    await project.repository.commit({ message: 'Try twice' });
    const doomed = runner(await create('doomed'));
    const request = await project.ask('main');
    await project.untilLogged(suite, /begun/);
    doomed.process.kill('SIGKILL');
    await project.command(suite, 'echo done');
    const heir = runner(await create('heir'));
    assert.equal((await project.end(request)).build_state, 'passed', heir.said());
    await assertTriedAgain();
    await stop(heir);
  });

  test('when it is revoked in the middle, it ends at once, and another one makes the next attempt', async (t) => {
    const suite = await project.suite(t, 'taken back', 'echo begun; sleep 1000');
    await project.repository.commit({ message: 'Take it back' });
    const token = await create('suspect');
    const suspect = runner(token);
    const request = await project.ask('main');
    await project.untilLogged(suite, /begun/);
    await project.command(suite, 'echo done');
    assert.deepEqual(await admin('revoke', 'suspect'), { name: 'suspect', revoked: true });
    assert.equal(await suspect.exited, 1, suspect.said());
    assert.match(suspect.said(), /does not know the token/);
    const back = runner(token);
    assert.equal(await back.exited, 1, 'it is let in again');
    const heir = runner(await create('suspect')); // the name is free, and means another one now
    assert.equal((await project.end(request)).build_state, 'passed', heir.said());
    await assertTriedAgain();
    await stop(heir);
  });

  test('when it is drained, it ends well after what it does, and comes back when that is taken back', async (t) => {
    const suite = await project.suite(t, 'to the end', 'echo begun; sleep 3; seq 20000; echo done');
    await project.repository.commit({ message: 'Drain it' });
    const token = await create('tired');
    const tired = runner(token);
    const request = await project.ask('main');
    await project.untilLogged(suite, /begun/);
    assert.deepEqual(await admin('drain', 'tired'), { name: 'tired', draining: true });
    await project.repository.commit({ message: 'Wait for another' });
    const waiting = await project.ask('main');
    assert.equal(await tired.exited, 0, tired.said());
    const counted = Array.from({ length: 20_000 }, (_, number) => `${number + 1}\n`).join('');
    assert.equal((await project.end(request)).build_state, 'passed');
    const [build] = await newest();
    assert.ok((await project.log(build)) === `begun\n${counted}done\n`);
    const again = runner(token);
    assert.equal(await again.exited, 0, again.said());
    await admin('drain', 'tired', '--off');
    const back = runner(token);
    assert.equal((await project.end(waiting)).build_state, 'passed', back.said());
    await stop(back);
  });

  test('when it is stopped and to drain, it ends after what it does; a second signal breaks that off', async (t) => {
    const suite = await project.suite(t, 'slowly', 'echo begun; sleep 3; echo done');
    await project.repository.commit({ message: 'Stop softly' });
    const settings = { HEADRACE_STOP: 'drain' };
    const soft = runner(await create('soft'), { settings });
    const request = await project.ask('main');
    await project.untilLogged(suite, /begun/);
    soft.process.kill('SIGTERM');
    assert.equal(await soft.exited, 0, soft.said());
    assert.equal((await project.end(request)).build_state, 'passed');
    assert.deepEqual(
      (await newest()).map(({ attempt, build_state: state }) => [attempt, state]),
      [[1, 'passed']],
    );
    await project.command(suite, 'echo hanging; sleep 1000');
    await project.repository.commit({ message: 'Stop hard' });
    const hard = runner(await create('hard'), { settings });
    const broken = await project.ask('main');
    await project.untilLogged(suite, /hanging/);
    hard.process.kill('SIGTERM');
    await new Promise((resolve) => setTimeout(resolve, 1500)); // signals within a second are one
    assert.equal(hard.process.exitCode, null);
    // They count from when it heard the first, and nobody is told when that was.
    hard.process.kill('SIGTERM');
    const insisting = setInterval(() => hard.process.kill('SIGTERM'), 1500);
    t.after(() => clearInterval(insisting));
    assert.equal(await hard.exited, 0, hard.said());
    clearInterval(insisting);
    await project.cancel(broken);
  });

  test('when its token is replaced, it ends, and comes back with the new one', async (t) => {
    await project.suite(t, 'again with another', 'echo done');
    const old = runner(await create('renewed'));
    await project.repository.commit({ message: 'Renew it' });
    assert.equal((await project.build('main')).build_state, 'passed', old.said());
    const { token = '' } = await admin('rotate', 'renewed');
    assert.equal(await old.exited, 1, old.said());
    const renewed = runner(token);
    await project.repository.commit({ message: 'Renewed' });
    assert.equal((await project.build('main')).build_state, 'passed', renewed.said());
    await stop(renewed);
  });
}, 'postgres');

/** Under a path of its own, as where one host name serves many things. */
async function startProxy(installation: Installation, certificate: string) {
  const cert = readFileSync(certificate);
  const key = readFileSync(join(installation.folder, 'tls', 'key.pem'));
  const proxy = createProxy({ cert, key }, (incoming, outgoing) => {
    assert.match(incoming.url ?? '', /^\/ci\/runner\//);
    const { method, headers } = incoming;
    const target = new URL((incoming.url ?? '').slice('/ci'.length), installation.address());
    const onward = ask(target, { method, headers, ca: cert }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
    });
    onward.on('error', () => outgoing.destroy());
    outgoing.on('close', () => onward.destroy());
    incoming.pipe(onward);
  });
  proxy.on('upgrade', (incoming, socket, first) => {
    assert.equal(incoming.url, '/ci/runner/connection');
    const { method, headers } = incoming;
    const target = new URL('/runner/connection', installation.address());
    const onward = ask(target, { method, headers, ca: cert });
    socket.on('error', () => onward.destroy());
    onward.on('error', () => socket.destroy());
    onward.on('upgrade', (answer, server, more) => {
      const said = answer.rawHeaders.map((word, at) => (at % 2 === 0 ? `${word}: ` : `${word}\r\n`));
      socket.write(`HTTP/1.1 101 Switching Protocols\r\n${said.join('')}\r\n`);
      for (const one of [socket, server]) one.on('error', () => {});
      server.unshift(more);
      socket.unshift(first);
      server.pipe(socket).pipe(server);
      socket.on('close', () => server.destroy());
      server.on('close', () => socket.destroy());
    });
    onward.end();
  });
  return {
    address: `https://127.0.0.1:${await portOf(proxy)}`,
    async [Symbol.asyncDispose]() {
      proxy.closeAllConnections();
      proxy.close();
      await once(proxy, 'close');
    },
  };
}

async function portOf(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

async function until(holds: () => boolean): Promise<void> {
  for (const startedAt = Date.now(); !holds();) {
    assert.ok(Date.now() - startedAt < longestWait, 'it did not come to that');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
