import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { settableClock, type SettableClock } from '../support/clock.ts';
import { onEveryDatabase } from '../support/databases.ts';
import { startInstallation, type Caller, type Installation } from '../support/installation.ts';
import { Receiver, reply } from '../support/receiver.ts';

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
    const timer = setTimeout(() => reject(new Error('the webhook waits for the clock')), 60_000);
    await Promise.race([receiver.received(refused + 1), late]).finally(() => clearTimeout(timer));
    await project.command(suite, 'true');
    assert.equal((await project.build('main')).build_state, 'passed', 'and the next one is taken like the first');
  });
});
