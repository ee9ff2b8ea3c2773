import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { sql } from 'kysely';
import { allEntries } from '../support/audit.ts';
import { registerApplication } from '../support/applications.ts';
import type { Answer } from '../support/client.ts';
import { assertFields, assertRecent, assertRefused } from '../support/expect.ts';
import { describeService } from '../support/service.ts';
import type { User } from '../support/user.ts';

describeService('the list of what was done', (service) => {
  let operator: User;
  before(async () => {
    operator = await service.user();
  });

  const linkTo = (answer: Answer, relation: string): string => {
    const [, url = ''] = new RegExp(`<([^>]+)>; rel="${relation}"`).exec(String(answer.headers.link)) ?? [];
    return url === '' ? '' : `${new URL(url).pathname}${new URL(url).search}`;
  };

  test('is read newest first, a page at a time, by operators alone', async () => {
    const alice = await service.user();
    for (let count = 0; count < 5; count += 1) await alice.createProject();
    assertRefused(await alice.get('/audit'), 401, { generic: ['unauthorized'] });
    const newest = await operator.get('/audit?limit=2');
    const rest = await operator.get(linkTo(newest, 'next'));
    const all = (await operator.get('/audit')).list;
    assert.equal(newest.list.length, 2);
    assert.deepEqual([...newest.list, ...rest.list], all.slice(0, 4));
    assert.deepEqual((await operator.get(linkTo(rest, 'prev'))).list, newest.list);
    assert.deepEqual(
      all.map(({ id }) => id),
      all.map(({ id }) => id).toSorted((a, b) => (a < b ? 1 : -1)),
    );
    const [entry] = all;
    assert.ok(entry);
    assertFields(
      entry,
      'id id_str created_at action actor via application address subject project_id project_id_str details',
    );
    assertRecent(entry.created_at);
    assertFields(entry.actor as Record<string, unknown>, 'id id_str email');
    assertFields(entry.subject as Record<string, unknown>, 'type id id_str name');
    const details = { clone_url: 'git@example.org:team/code.git', ssh_key: 'made' };
    assert.deepEqual([entry.action, entry.details], ['project.created', details]);
  });

  test('takes an operator’s token with the scope `user`, and no other', async () => {
    const application = await registerApplication(service, operator);
    for (const [scope, status] of [
      ['user', 200],
      ['projects', 401],
    ] as const) {
      const headers = { authorization: `Bearer ${await application.token(operator, [scope])}` };
      assert.equal((await service.api.get('/audit', { headers })).status, status);
    }
    const stranger = await service.user();
    const headers = { authorization: `Bearer ${await application.token(stranger, ['user'])}` };
    assert.equal((await service.api.get('/audit', { headers })).status, 401);
  });

  test('keeps what was done in a project that is gone, and believes no header about where it came from', async () => {
    const project = await operator.createProject({ name: 'short-lived' });
    const headers = { 'x-forwarded-for': '203.0.113.9', forwarded: 'for=203.0.113.9' };
    await service.api.delete(`/projects/${project.id}`, { as: operator.credentials, headers });
    const entries = (await operator.get('/audit')).list.filter(({ project_id: id }) => id === project.id);
    assert.deepEqual(
      entries.map(({ action, address, subject }) => [action, address, (subject as { name: string }).name]),
      [
        ['project.deleted', '127.0.0.1', 'short-lived'],
        ['project.created', '127.0.0.1', 'short-lived'],
      ],
    );
  });

  test('is changed by nobody: the database itself refuses', async () => {
    const { db } = service.store;
    const before = await allEntries(service);
    assert.ok(before.length > 0);
    for (const statement of [
      sql`update audit_entries set action = 'nothing.happened'`,
      sql`update audit_entries set details = '{}' where id = ${before[0]?.id}`,
      sql`delete from audit_entries`,
      sql`delete from audit_entries where id = ${before[0]?.id}`,
      ...(db.kind === 'postgres' ? [sql`truncate audit_entries`] : []),
    ]) {
      await assert.rejects(
        db.transaction((trx) => statement.execute(trx)),
        /audit entries are never changed/,
      );
    }
    assert.deepEqual(await allEntries(service), before);
  });
});
