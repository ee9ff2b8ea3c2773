import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { bytes, longest, most } from '../../../src/shared/domain/bounds.ts';
import type { Record_ } from '../../support/client.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import type { User } from '../../support/user.ts';
import { deliver, hooksOfAllProviders, sign, type Hook } from './forge.ts';
import * as payloads from './payloads.ts';

/** A payload is a stranger's, and its texts are kept with the delivery. */
describeServiceOnOne('a payload', (service) => {
  let owner: User;
  let project: Record_;
  let hookOf: (provider: string) => Hook;
  before(async () => {
    owner = await service.user();
    ({ project, hookOf } = await hooksOfAllProviders(owner));
  });

  const newest = async (hook: Hook): Promise<Record_> => {
    const [first = assert.fail()] = (await owner.get(`/projects/${project.id}/hooks/${hook.id}/deliveries`)).list;
    return first;
  };

  test('has an event, an action and a sender that are cut where they are too long [promise: bounds]', async () => {
    const hook = hookOf('github');
    for (const more of [0, 1]) {
      const [event, action] = ['e', 'a'].map((letter) => letter.repeat(longest.hookEvent + more));
      const sender = { login: 's'.repeat(longest.hookSender + more) };
      const sent = sign.github(hook.secret, String(event), { ...payloads.github.push(), action, sender });
      assert.equal((await deliver(service.api, hook, sent)).status, 202);
      const kept = await newest(hook);
      assert.deepEqual(
        [kept.event, kept.sender].map((text) => String(text).length),
        [longest.hookEvent, longest.hookSender],
      );
      assert.ok(String(kept.action).length <= longest.hookEvent);
    }
  });

  test('tells of as many branches as are considered, and how many more there were [promise: bounds]', async () => {
    const hook = hookOf('bitbucket');
    for (const [more, told] of [
      [0, false],
      [1, true],
    ] as const) {
      const changes = Array.from({ length: most.hookChanges + more }, (_, at) => ({
        name: `b${more}-${at}`,
        deleted: true,
      }));
      const sent = sign.bitbucket(hook.secret, 'repo:push', payloads.bitbucket.push(changes));
      const answer = await deliver(service.api, hook, sent);
      assert.equal(answer.status, 202, answer.text);
      const kept = await newest(hook);
      assert.equal((kept.changes as unknown[]).length, most.hookChanges);
      assert.equal(/1 more|one more/i.test(String(kept.reason)), told, String(kept.reason));
    }
  });

  test('is the same delivery under the same name, however long the name is [promise: bounds]', async () => {
    const hook = hookOf('github');
    for (const length of [longest.deliveryKey, longest.deliveryKey + 1]) {
      const sent = sign.github(hook.secret, 'push', payloads.github.push(), 'd'.repeat(length));
      const [first, second] = [await deliver(service.api, hook, sent), await deliver(service.api, hook, sent)];
      assert.equal(first.text, second.text);
    }
  });

  test('has a repository whose names count up to their length [promise: bounds]', async () => {
    const hook = hookOf('github');
    for (const [more, outcome] of [
      [0, 'ignored'],
      [1, 'build_requested'],
    ] as const) {
      const repository = { full_name: `a/${'b'.repeat(longest.hookAddress - 2 + more)}` };
      const sent = sign.github(hook.secret, 'push', { ...payloads.github.push(), repository });
      assert.equal((await deliver(service.api, hook, sent)).record.outcome, outcome);
    }
  });

  test('has at most as many bytes as are said [promise: bounds]', async () => {
    const hook = hookOf('generic');
    const payload = (length: number): string => '{"ref":"main"}'.padEnd(length, ' ');
    const headers = { ...sign.generic(hook.secret, '', {}).headers };
    const taken = await service.api.post(`/hooks/${hook.id}`, { headers, body: payload(bytes.hookPayload) });
    assert.equal(taken.status, 202, taken.text);
    const refused = await service.api.post(`/hooks/${hook.id}`, { headers, body: payload(bytes.hookPayload + 1) });
    assert.equal(refused.status, 413, refused.text);
  });
});
