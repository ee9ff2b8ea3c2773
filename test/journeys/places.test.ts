import assert from 'node:assert/strict';
import { test } from 'node:test';
import { onOneDatabase } from '../support/databases.ts';
import { startInstallation } from '../support/installation.ts';
import { growingPauses, longestWait } from '../support/pauses.ts';
import { Receiver, reply } from '../support/receiver.ts';
import { deliver, sign, type Hook } from '../server/inbound-hooks/forge.ts';

/** The one place for builds is taken: a push is fetched and told of all the same, and what waits says why. */
onOneDatabase((database) => {
  test('a push is seen while a long build has the only place', { timeout: longestWait }, async (t) => {
    const settings = { HEADRACE_CONCURRENCY: '1', HEADRACE_WEBHOOK_ALLOW: '127.0.0.0/8' };
    const installation = await startInstallation(database, settings);
    const project = await installation.project();
    const api = project.api();
    await using forge = await Receiver.start(reply(201));
    const suite = await project.suite(t, 'unit', 'test -e quick || { echo begun; sleep 1000; }');
    const long = await project.ask('main');
    await project.untilLogged(suite, /begun/);

    await api.post(`${project.path}/status_targets`, {
      provider: 'github',
      api_url: `http://127.0.0.1:${forge.port}`,
      repository: 'team/code',
      token: 'a-token',
    });
    const sha = await project.repository.commit({ message: 'Hurry', files: { quick: '' } });
    const hook = (await api.post(`${project.path}/hooks`, { provider: 'generic' })) as unknown as Hook;
    const pushed = sign.generic(hook.secret, 'push', { ref: 'refs/heads/main', sha });
    const answer = await deliver(installation.serving().api, { id: BigInt(hook.id_str) }, pushed);
    const id = String(answer.record.build_request_id_str);
    const request = () => api.get(`${project.path}/build_requests/${id}`);
    for (const wait = growingPauses(); (await request()).commit_id_str === '';) await wait();

    const { commit_id_str: commit, waiting_reason: reason } = await request();
    assert.equal(reason, '1 of 1 slots are busy');
    const [build] = await project.builds({ id_str: String(commit) });
    assert.deepEqual([build?.build_state, build?.waiting_reason], ['enqueued', '1 of 1 slots are busy']);
    const running = await api.get(`${project.path}/build_requests/${long.id_str}`);
    assert.deepEqual([running.build_state, running.waiting_reason], ['building', '']);
    const told = async (many: number): Promise<string[]> =>
      (await forge.received(many)).map(({ body }) => {
        const { context, state, description } = JSON.parse(body) as Record<string, string>;
        return `${context} ${state} ${description}`;
      });
    assert.deepEqual(await told(2), [
      'headrace pending Fetching the commit',
      'headrace/unit pending Waiting for a runner.',
    ]);

    await project.cancel(long);
    assert.equal((await project.end({ id_str: id })).build_state, 'passed');
    // The cancelled build is told of too.
    const all = (await told(6)).filter((one) => !/Cancelled/.test(one));
    assert.deepEqual(
      all.slice(2).map((one) => one.split(' ').slice(0, 2).join(' ')),
      ['headrace/unit pending', 'headrace/unit success', 'headrace success'],
    );
  });
});
