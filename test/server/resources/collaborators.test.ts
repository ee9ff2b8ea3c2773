import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  assertCreated,
  assertDestroyed,
  assertNotFound,
  assertRecent,
  assertWrongFields,
} from '../../support/expect.ts';
import { describeService } from '../../support/service.ts';

describeService('collaborators', (service) => {
  test('are invited, listed and taken off again', async () => {
    const [alice, bob] = [await service.user(), await service.user()];
    const project = await alice.createProject();
    const path = `/projects/${project.id}/collaborators`;
    const answer = await alice.post(path, { email: ` ${bob.email.toUpperCase()} ` });
    assertCreated(answer, 'id id_str email created_at');
    assert.equal(answer.record.email, bob.email);
    assertRecent(answer.record.created_at);
    assert.deepEqual((await alice.get(path)).list, [answer.record]);
    assert.equal((await bob.get(`/projects/${project.id}`)).status, 200);
    assertDestroyed(await alice.delete(`${path}/${answer.record.id}`));
    assertNotFound(await alice.delete(`${path}/${answer.record.id}`));
    assertNotFound(await bob.get(`/projects/${project.id}`));
    assert.deepEqual((await alice.get(path)).list, []);
  });

  test('are there once, and never the owner', async () => {
    const [alice, bob] = [await service.user(), await service.user()];
    const project = await alice.createProject();
    await alice.invite(project, bob);
    const path = `/projects/${project.id}/collaborators`;
    assertWrongFields(await alice.post(path, { email: bob.email }), { email: 'already_exists' });
    assertWrongFields(await alice.post(path, { email: alice.email }), { email: 'already_exists' });
    for (const email of ['nobody', 'a@b@c', '@x', `${'x'.repeat(250)}@example.org`]) {
      assertWrongFields(await alice.post(path, { email }), { email: 'invalid_format' });
    }
    assertWrongFields(await alice.post(path), { email: 'is_blank' });
  });

  test('need no account yet: an unknown address becomes one that can only collaborate', async () => {
    const alice = await service.user();
    const [project, other] = [await alice.createProject(), await alice.createProject()];
    const email = 'new.person@example.org';
    await alice.invite(project, { email });
    await alice.invite(other, { email });
    const { db } = service.store;
    const users = await db.read.selectFrom('users').selectAll().where('email', '=', email).execute();
    assert.deepEqual(
      users.map(({ kind, password_hash, api_key_hash }) => [kind, password_hash, api_key_hash]),
      [['collaborator', null, null]],
    );
  });
});
