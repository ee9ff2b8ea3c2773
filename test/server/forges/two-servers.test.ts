import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { Answer, Record_ } from '../../support/client.ts';
import { onEveryDatabase } from '../../support/databases.ts';
import { FakeForge } from '../../support/fake-forge.ts';
import type { Service } from '../../support/service.ts';
import { deadlocks, twoServers } from '../../support/two-servers.ts';
import type { User } from '../../support/user.ts';
import { longestWait } from '../../support/pauses.ts';

/** Servers that share a database, and an account with projects at one forge, of which both look after. */
onEveryDatabase((database) => {
  const opened = new AsyncDisposableStack();
  after(() => opened.disposeAsync());

  const begin = async (count: number) => {
    const services = await twoServers(database);
    const stopping = opened.use(new AsyncDisposableStack());
    for (const service of new Set(services)) stopping.defer(() => service.stop());
    const [first] = services as [Service];
    const alice = await first.user();
    const people = services.map((service) => service.signIn(alice.credentials)) as [User, User];
    const forge = opened.use(
      await FakeForge.start('gitea', ...Array.from({ length: count }, (_, at) => `team/app${at}`)),
    );
    const { id: forgeId } = (await alice.post('/forges', forge.fields)).record;
    const projects: Record_[] = [];
    for (const repository of forge.repositories.keys()) {
      const made = await alice.post('/projects', { forge_id: forgeId, repository });
      assert.equal(made.status, 201, made.text);
      projects.push(made.record);
    }
    return { services, stopping, first, alice, people, forge, forgeId, projects };
  };
  const placesAt = (forge: FakeForge) =>
    [...forge.repositories.values()].flatMap(({ keys, hooks }) => [...keys, ...hooks]);

  test('one server at a time works at a forge, and nothing is done twice', async () => {
    const { stopping, people, forge, forgeId, projects, first } = await begin(6);
    for (const one of forge.repositories.values()) one.hooks = [];
    let [underWay, most, began] = [0, 0, 0];
    forge.calls.length = 0;
    forge.interfere = async ({ path }) => {
      if (path.endsWith('/user') || path.includes('headrace-')) return undefined; // somebody asks, and need not wait
      began ||= performance.now();
      most = Math.max(most, (underWay += 1));
      await pause(10);
      underWay -= 1;
      return undefined;
    };
    await Promise.all(people.map((person) => person.put(`/forges/${forgeId}`, { token: forge.token ?? '' })));
    const { db } = first.store;
    const due = db.read.selectFrom('projects').select('id').where('forge_mends', '!=', 0);
    while ((await due.execute()).length > 0) await pause(50);
    assert.equal(most, 1);
    assert.deepEqual(
      [...forge.repositories.values()].map(({ keys, hooks }) => [keys.length, hooks.length]),
      projects.map(() => [1, 1]),
    );
    await stopping.disposeAsync();
  });

  test('tokens, checks, connections and deletions at once wait for nobody in a circle', async () => {
    const { services, stopping, people, forge, forgeId, projects } = await begin(6);
    const answered = (one: Answer): number => one.status;
    const [left, right] = people;
    const link = { forge_id: forgeId };
    for (let round = 0; round < 6; round += 1) {
      const victim = projects.pop();
      const statuses = await Promise.all([
        left.put(`/forges/${forgeId}`, { token: forge.token ?? '' }).then(answered),
        right.post(`/forges/${forgeId}/check`).then(answered),
        right.put(`/forges/${forgeId}`, { token: forge.token ?? '' }).then(answered),
        left.delete(`/projects/${victim?.id}`).then(answered),
        ...projects
          .toReversed()
          .map((project, at) =>
            (at % 2 === 0 ? left : right).post(`/projects/${project.id}/connect`, link).then(answered),
          ),
        ...projects.map((project) =>
          left.post(`/projects/${project.id}/build_requests`, { commit_ref: 'main' }).then(answered),
        ),
      ]);
      assert.deepEqual(
        statuses.filter((status) => status >= 500),
        [],
        statuses.join(),
      );
      if (round === 2) forge.token = 'no-longer-taken-0123456789';
      if (round === 3) forge.token = forge.fields.token;
    }
    await Promise.all([left.delete(`/forges/${forgeId}`), right.post(`/forges/${forgeId}/check`)]);
    for (const began = Date.now(); placesAt(forge).length > 0; await pause(20))
      assert.ok(Date.now() - began < longestWait, JSON.stringify(placesAt(forge)));
    const url = services[0]?.config.database_url ?? '';
    await stopping.disposeAsync();
    if (database.kind === 'postgres') assert.equal(deadlocks(url).join('\n\n'), '');
  });
});
