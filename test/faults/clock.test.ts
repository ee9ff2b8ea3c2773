import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { settableClock, type SettableClock } from '../support/clock.ts';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { command } from '../support/command.ts';
import { onEveryDatabase, temporaryFolder } from '../support/databases.ts';
import { startInstallation, type Caller, type Installation, type Item } from '../support/installation.ts';
import { serve, startProgram } from '../support/program.ts';
import { Receiver, reply } from '../support/receiver.ts';
import { longestWait } from '../support/pauses.ts';

const fiveHours = 5 * 3600;

/** The clock of the machine is set, forwards and backwards, while server and runner are at work. */
onEveryDatabase((database) => {
  let clock: SettableClock;
  let installation: Installation;
  before(async () => {
    clock = await settableClock();
    const settings = { ...clock.env, HEADRACE_WEBHOOK_ALLOW: '127.0.0.0/8' };
    installation = await startInstallation(database, settings);
  });

  test('the clock of the machine is set by five hours, and nobody is refused or lost', async (t) => {
    await using receiver = await Receiver.start(reply(500, 'not now'));
    const api = (): Caller => installation.api();
    const project = await installation.project();
    const suite = await project.suite(t, 'long', 'echo begun; sleep 6; echo done');
    const notification = { name: 'webhook', notifiable_type: 'build', 'options[url]': receiver.url };
    await api().post(`${project.path}/notifications`, notification);
    const serverTime = async (): Promise<number> => Date.parse(String((await somethingNew()).created_at));
    const somethingNew = () => api().post(`${project.path}/build_requests`, { commit_ref: 'no-such-branch' });

    const request = await project.ask('main');
    await project.untilLogged(suite, /begun/);
    const before = await serverTime();
    clock.set(fiveHours);
    const during = [await serverTime(), await serverTime(), await serverTime()];
    assert.ok(
      during.every((time) => time - before >= fiveHours * 1000),
      'the clock was set',
    );
    await receiver.received(receiver.calls.length + 1);
    clock.set(-fiveHours);
    assert.ok((await serverTime()) < before);

    assert.equal((await project.end(request)).build_state, 'passed');
    const [commit] = await project.commits();
    const builds = await project.builds(commit);
    assert.deepEqual(
      builds.map(({ build_state: state, attempt }) => [state, attempt]),
      [['passed', 1]],
    );
    const refused = receiver.calls.length;
    receiver.answer = reply(200);
    const { promise: late, reject } = Promise.withResolvers<never>();
    const timer = setTimeout(() => reject(new Error('the webhook waits for the clock')), longestWait);
    await Promise.race([receiver.received(refused + 1), late]).finally(() => clearTimeout(timer));
    await project.command(suite, 'true');
    assert.equal((await project.build('main')).build_state, 'passed', 'and the next one is taken like the first');
  });

  test('two servers and a runner whose clocks are ten hours apart work together', async (t) => {
    if (database.kind === 'sqlite') return t.skip('it has one server');
    const folder = temporaryFolder();
    database.afterwards(() => rmSync(folder, { recursive: true, force: true }));
    const [ahead, behind] = [await settableClock(), await settableClock()];
    ahead.set(fiveHours);
    behind.set(-fiveHours);
    const of = (...names: string[]): string => join(installation.folder, ...names);
    const shared = { HEADRACE_MASTER_KEY_FILE: of('master.key'), HEADRACE_BLOB_URL: of('blobs') };
    // A certificate from the future would be refused, so it is the runner that is ahead.
    const env = { ...installation.env, ...behind.env, ...shared };
    const second = await serve(database, join(folder, 'second'), env);
    const certificate = join(folder, 'second', 'tls', 'cert.pem');
    const created = await command(['admin', 'runner', 'create', 'early', '--data-dir', installation.folder], env);
    writeFileSync(join(folder, 'token'), (JSON.parse(created.stdout.toString()) as { token: string }).token);
    const place = ['--url', second.address, '--token-file', join(folder, 'token'), '--ca-file', certificate];
    const { HEADRACE_DATABASE_URL: _, ...runnerEnv } = { ...installation.env, ...ahead.env };
    const runner = startProgram(database, ['runner', ...place, '--data-dir', join(folder, 'early')], runnerEnv);
    const project = await installation.project('apart');
    await project.suite(t, 'apart', 'echo begun; sleep 2; seq 1000');
    const counted = Array.from({ length: 1000 }, (_, number) => `${number + 1}\n`).join('');
    const ask = async (): Promise<Item> => {
      const form = { commit_ref: 'main' };
      const answer = await second.api.post(`${project.path}/build_requests`, { as: installation.admin, form });
      assert.equal(answer.status, 201, answer.text);
      return answer.record;
    };
    // Asked for at either server, done by either runner.
    const theirs = await Promise.all([ask(), ask(), ask()]);
    const own = await Promise.all([project.ask('main'), project.ask('main'), project.ask('main')]);
    for (const request of [...theirs, ...own])
      assert.equal((await project.end(request)).build_state, 'passed', runner.said());
    const [commit] = await project.commits();
    const builds = await project.builds(commit);
    assert.equal(builds.length, 6, 'each was run once');
    for (const build of builds) {
      assert.equal(build.build_state, 'passed');
      assert.equal(await project.log(build), `begun\n${counted}`);
    }
    runner.process.kill('SIGTERM');
    await runner.exited;
    second.process.kill('SIGTERM');
    await second.exited;
  });
});
