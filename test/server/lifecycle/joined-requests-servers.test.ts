import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import type { Record_ } from '../../support/client.ts';
import { onEveryDatabase } from '../../support/databases.ts';
import { aCommit, ScriptedRunner, Task } from '../../support/runner.ts';
import type { Service } from '../../support/service.ts';
import { deadlocks, twoServers } from '../../support/two-servers.ts';
import type { User } from '../../support/user.ts';
import { deliver, sign, type Hook } from '../inbound-hooks/forge.ts';
import { github } from '../inbound-hooks/payloads.ts';

const rounds = 9;
const suites = ['unit', 'lint', 'docs'];

onEveryDatabase((database) => {
  describe('a push and a pull request that come to two servers at the same moment', () => {
    test('are built once, and end together, whatever is done with them meanwhile', async () => {
      const services = await twoServers(database);
      await using stopping = new AsyncDisposableStack();
      for (const service of new Set(services)) stopping.defer(() => service.stop());
      const [first, second] = services;
      if (!first || !second) throw new Error('there are two, or one twice');
      const owner = await first.user();
      const people = services.map((service) => service.signIn(owner.credentials));
      const project = await owner.createProject({ repository_url: 'git@example.org:team/code.git' });
      for (const name of suites) await owner.createSuite(project, { name });
      const hook = (await owner.post(`/projects/${project.id}/hooks`, { provider: 'github' })).record as Hook;
      const leaving = new AbortController();
      const working = services.map((service, at) => work(service, `runner ${at}`, leaving.signal));
      stopping.defer(async () => {
        leaving.abort();
        await Promise.all(working);
      });

      const path = `/projects/${project.id}/build_requests`;
      const all: [push: bigint, pull: bigint][] = [];
      for (let round = 0; round < rounds; round += 1) {
        const sha = `${round}`.padStart(2, '0').padEnd(40, 'c');
        const push = sign.github(hook.secret, 'push', github.push({ ref: 'refs/heads/topic', sha }));
        const pull = sign.github(hook.secret, 'pull_request', github.pull({ action: 'synchronize', sha }));
        const answers = await Promise.all([deliver(first.api, hook, push), deliver(second.api, hook, pull)]);
        const [one, other] = answers.map(({ record }) => record['build_request_id'] as bigint);
        assert.ok(one !== undefined && other !== undefined && one !== other);
        all.push([one, other]);
        if (round % 3 === 0) continue;
        const deed = round % 3 === 1 ? 'cancel' : 'rerun';
        await Promise.all([one, other].map(async (id, at) => people[at]?.post(`${path}/${id}/${deed}`)));
      }
      for (const [round, pair] of all.entries()) {
        const [push, pull] = [await settled(owner, `${path}/${pair[0]}`), await settled(owner, `${path}/${pair[1]}`)];
        const [lead, joined] = push.joined_to_id === null ? [push, pull] : [pull, push];
        const wasCancelled = round % 3 === 1;
        if (!wasCancelled || joined.joined_to_id !== null) assert.equal(joined.joined_to_id, lead.id, `round ${round}`);
        const [of, also] = [await built(owner, `${path}/${lead.id}`), await built(owner, `${path}/${joined.id}`)];
        if (wasCancelled) continue;
        assert.deepEqual([...of].toSorted(), [...suites].toSorted());
        assert.deepEqual([...also], []);
        assert.deepEqual([lead.build_state, joined.build_state], ['passed', 'passed']);
      }
      const url = first.config.database_url;
      await stopping.disposeAsync();
      if (database.kind === 'postgres') assert.equal(deadlocks(url ?? '').join('\n\n'), '');
    });
  });
});

async function settled(user: User, path: string): Promise<Record_> {
  for (;;) {
    const { record } = await user.get(path);
    if (['passed', 'failed', 'errored', 'cancelled'].includes(String(record.build_state))) return record;
    // Its firehose ends when it is over.
    await user.get(`${path}/firehose`);
  }
}

async function built(user: User, path: string): Promise<Set<string>> {
  return new Set((await user.get(`${path}/builds?limit=1000`)).list.map(({ suite_name: name }) => String(name)));
}

/** A runner with which everything passes. */
async function work(service: Service, name: string, leaving: AbortSignal): Promise<void> {
  const scripted = await ScriptedRunner.start(service.store);
  const runner = scripted.beside(name);
  while (!leaving.aborted) {
    const order = await runner.dispatch.next(runner.self, { claim: randomUUID() }, leaving);
    if (!order) continue;
    const task = new Task(runner, order);
    const { work: asked } = order;
    if (asked.kind === 'fetch_commit') {
      const commit = { ...aCommit, sha: asked.commitRef, branches: ['topic'], branch: 'topic', ref: null };
      await task.finish({ kind: 'fetched', commit });
    } else {
      const signals = await runner.dispatch.extend(runner.self, { claims: [order.claim] }, AbortSignal.abort());
      const isCancelled = signals[order.claim] === 'cancel';
      await task.finish(isCancelled ? { kind: 'cancelled' } : { kind: 'exited', status: 0 });
    }
  }
  await scripted.dispatch.close();
}
