import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Record_ } from '../../support/client.ts';
import {
  assertCreated,
  assertDestroyed,
  assertFields,
  assertNotFound,
  assertRecent,
  assertWrongFields,
} from '../../support/expect.ts';
import { addDelivery, addDeliveryAttempt } from '../../support/rows.ts';
import { describeService } from '../../support/service.ts';

describeService('notifications', (service) => {
  test('tell their secret once, when created', async () => {
    const alice = await service.user();
    const project = await alice.createProject();
    const path = `/projects/${project.id}/notifications`;
    const form = { notifiable_type: 'build', name: 'webhook', 'options[url]': 'https://127.0.0.1:9/hook?x=1' };
    const answer = await alice.post(path, form);
    assertCreated(answer, 'id id_str name options notifiable_type on branches secret');
    const { secret, ...shown } = answer.record;
    assert.match(String(secret), /^whsec_[A-Za-z0-9+/]{43}=$/);
    const { id, id_str } = shown;
    assert.deepEqual(shown, {
      id,
      id_str,
      name: 'webhook',
      notifiable_type: 'build',
      on: 'all',
      branches: [],
      options: { url: form['options[url]'] },
    });
    const { secret: __, ...second } = await alice.createNotification(project, { notifiable_type: 'dependency' });
    const ofProject = { project_id: project.id, project_id_str: project.id_str };
    assert.deepEqual((await alice.get(path)).list, [
      { ...shown, ...ofProject },
      { ...second, ...ofProject },
    ]);
    assert.deepEqual((await alice.get(`${path}/${id}`)).record, { ...shown, ...ofProject });
    const changed = await alice.put(`${path}/${id}`, { notifiable_type: 'dependency' });
    assert.deepEqual(changed.record, { ...shown, ...ofProject, notifiable_type: 'dependency' });
    const moved = await alice.put(`${path}/${id}`, { 'options[url]': 'http://10.0.0.1/' });
    assert.deepEqual(moved.record, { ...changed.record, options: { url: 'http://10.0.0.1/' } });
    assert.deepEqual((await alice.get(`${path}/${id}`)).record, moved.record);
    assertDestroyed(await alice.delete(`${path}/${id}`));
    assertNotFound(await alice.get(`${path}/${id}`));
  });

  test('report everything that is wrong', async () => {
    const alice = await service.user();
    const path = `/projects/${(await alice.createProject()).id}/notifications`;
    assertWrongFields(await alice.post(path), {
      notifiable_type: 'is_blank',
      name: 'is_blank',
      'options[url]': 'is_blank',
    });
    const wrong = { notifiable_type: 'weather', name: 'pigeon' };
    for (const url of ['ftp://example.org', 'example.org', 'https://', 'https://me:secret@example.org/', 'file:///x']) {
      assertWrongFields(await alice.post(path, { ...wrong, 'options[url]': url }), {
        notifiable_type: 'invalid_format',
        name: 'invalid_format',
        'options[url]': 'invalid_format',
      });
    }
  });

  test('show what was delivered, every attempt of it, and send it again', async () => {
    const alice = await service.user();
    const project = await alice.createProject();
    const [notification, other] = [await alice.createNotification(project), await alice.createNotification(project)];
    const older = await addDelivery(service.store, notification);
    const newer = await addDelivery(service.store, notification, { event_type: 'commit.failed', state: 'delivered' });
    await addDeliveryAttempt(service.store, older, { status: null, answer: '', error: 'the connection was refused' });
    await addDeliveryAttempt(service.store, older, { status: 503, answer: 'busy' });
    const path = `/projects/${project.id}/notifications/${notification.id}/deliveries`;
    // The oldest is the greeting that every new notification is sent.
    const [first, second, ping] = (await alice.get(path)).list as [Record_, Record_, Record_];
    assert.equal(ping.type, 'ping');
    for (const delivery of [first, second])
      assertFields(
        delivery,
        'id id_str type build_id build_id_str suite_name variant commit_id commit_id_str commit_ref state created_at attempts',
      );
    assert.deepEqual([first.id, first.type, first.attempts], [newer.id, 'commit.failed', []]);
    const attempts = second.attempts as Record<string, unknown>[];
    for (const attempt of attempts) assertRecent(attempt.created_at);
    assert.deepEqual(
      attempts.map(({ status, duration_ms, answer, error }) => [status, duration_ms, answer, error]),
      [
        [null, 12, '', 'the connection was refused'],
        [503, 12, 'busy', ''],
      ],
    );
    const again = await alice.post(`${path}/${older.id}/redeliver`);
    assert.equal(again.status, 200);
    assert.deepEqual(again.record, { ...second, state: 'pending' });
    assert.equal((await alice.get(path)).list[1]?.state, 'pending');
    const elsewhere = `/projects/${project.id}/notifications/${other.id}/deliveries`;
    assertNotFound(await alice.post(`${elsewhere}/${older.id}/redeliver`));
    assert.deepEqual(
      (await alice.get(elsewhere)).list.map(({ type }) => type),
      ['ping'],
    );
  });
});
