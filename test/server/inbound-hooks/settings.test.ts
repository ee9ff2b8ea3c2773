import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { Record_ } from '../../support/client.ts';
import { assertRefused } from '../../support/expect.ts';
import { describeService } from '../../support/service.ts';
import type { User } from '../../support/user.ts';
import { deliver, sign, type Hook } from './forge.ts';
import { github } from './payloads.ts';

describeService('a hook', (service) => {
  let owner: User;
  let project: Record_;
  let at: string;
  before(async () => {
    owner = await service.user();
    project = await owner.createProject({ repository_url: 'git@example.org:team/code.git' });
    at = `/projects/${project.id}/hooks`;
  });
  const make = async (form: Record<string, string> | [string, string][] = { provider: 'github' }): Promise<Hook> => {
    const made = await owner.post(at, form);
    assert.equal(made.status, 201, made.text);
    return made.record as Hook;
  };

  test('is made with an address and a secret that is shown this once, and stored sealed', async () => {
    const { secret, ...hook } = await make({ provider: 'gitlab' });
    assert.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
    const { id, id_str, created_at } = hook;
    const shown = {
      id,
      id_str,
      provider: 'gitlab',
      events: ['push', 'tag', 'pull_request'],
      url: `${service.address}/hooks/${id}`,
      created_at,
      last_delivery_at: null,
    };
    assert.deepEqual(hook, shown);
    assert.deepEqual((await owner.get(`${at}/${id}`)).record, shown);
    assert.ok((await owner.get(at)).list.some((one) => one.id === id));
    assert.ok(!(await owner.get(at)).text.includes('secret'));
    const rows = await service.store.db.read.selectFrom('hooks').selectAll().execute();
    assert.ok(rows.length > 0 && rows.every((row) => !row.secret.includes(secret)));
    assert.ok(!service.log.includes(secret));
  });

  test('takes some events or all of them, and says what is wrong with others', async () => {
    const some = await make([
      ['provider', 'gitea'],
      ['events[]', 'tag'],
      ['events[]', 'push'],
    ]);
    assert.deepEqual(some['events'], ['push', 'tag']);
    const path = `${at}/${some.id}`;
    assert.deepEqual((await owner.put(path, { 'events[]': 'pull_request' })).record['events'], ['pull_request']);
    assert.deepEqual((await owner.put(path, {})).record['events'], ['pull_request']);
    assert.equal((await owner.put(path, { provider: 'github' })).record['provider'], 'github');
    assertRefused(await owner.post(at, {}), 403, { provider: ['is_blank'] });
    const wrong = { provider: 'sourceforge', 'events[]': 'release', name: 'x' };
    assertRefused(await owner.post(at, wrong), 403, {
      provider: ['invalid_format'],
      events: ['invalid_format'],
      name: ['invalid_format'],
    });
    assertRefused(await owner.put(path, { provider: '' }), 403, { provider: ['is_blank'] });
  });

  test('gets another secret, and the old one ends', async () => {
    const hook = await make();
    const { secret } = (await owner.post(`${at}/${hook.id}/new_secret`)).record as Hook;
    assert.notEqual(secret, hook.secret);
    const refused = await deliver(service.api, hook, sign.github(hook.secret, 'push', github.push()));
    assertRefused(refused, 401, { generic: ['unauthorized'] });
    assert.equal((await deliver(service.api, hook, sign.github(secret, 'push', github.push()))).status, 202);
  });

  test('is gone with its address when it is deleted, and with its project; the requests it made stay', async () => {
    const hook = await make();
    const sent = sign.github(hook.secret, 'push', github.push());
    const made = await deliver(service.api, hook, sent);
    assert.deepEqual((await owner.delete(`${at}/${hook.id}`)).record, { destroyed: true });
    assertRefused(await deliver(service.api, hook, sent), 404, { generic: ['not_found'] });
    assertRefused(await owner.get(`${at}/${hook.id}`), 404, { generic: ['not_found'] });
    const request = `/projects/${project.id}/build_requests/${String(made.record['build_request_id_str'])}`;
    assert.equal((await owner.get(request)).status, 200);

    const other = await owner.createProject();
    const its = (await owner.post(`/projects/${other.id}/hooks`, { provider: 'github' })).record as Hook;
    await owner.delete(`/projects/${other.id}`);
    assertRefused(await deliver(service.api, its, sign.github(its.secret, 'ping', {})), 404, {
      generic: ['not_found'],
    });
  });

  test('is its owner’s: collaborators see what arrived, and others nothing', async () => {
    const hook = await make();
    const friend = await service.user();
    await owner.invite(project, friend);
    const stranger = await service.user();
    await deliver(service.api, hook, sign.github(hook.secret, 'ping', {}));
    const path = `${at}/${hook.id}`;
    assert.equal((await friend.get(`${path}/deliveries`)).list.length, 1);
    const [delivery] = (await friend.get(`${path}/deliveries`)).list;
    const calls = [`${path}/new_secret`, `${path}/deliveries/${delivery?.id}/replay`];
    for (const call of calls) assertRefused(await friend.post(call), 401, { generic: ['unauthorized'] });
    for (const call of calls) assertRefused(await stranger.post(call), 404, { generic: ['not_found'] });
    assertRefused(await friend.get(path), 401, { generic: ['unauthorized'] });
    assertRefused(await stranger.get(`${path}/deliveries`), 404, { generic: ['not_found'] });
    // A delivery is looked for at its own hook alone.
    const another = await make();
    const elsewhere = `${at}/${another.id}/deliveries/${delivery?.id}/replay`;
    assertRefused(await owner.post(elsewhere), 404, { generic: ['not_found'] });
  });

  test('judges what arrived anew, with the settings of then', async () => {
    const hook = await make({ provider: 'github', 'events[]': 'tag' });
    const answer = await deliver(service.api, hook, sign.github(hook.secret, 'push', github.push(), 'one'));
    assert.equal(answer.record['outcome'], 'ignored');
    assert.match(String(answer.record['reason']), /ignores the event push\. It accepts only tag/);
    await owner.put(`${at}/${hook.id}`, { 'events[]': 'push' });
    const path = `${at}/${hook.id}/deliveries/${String(answer.record['delivery_id_str'])}/replay`;
    const again = await owner.post(path);
    assert.equal(again.status, 200);
    assert.equal(again.record['outcome'], 'build_requested');
    const first = again.record['build_request_id'];
    assert.ok(typeof first === 'bigint');
    const request = (await owner.get(`/projects/${project.id}/build_requests/${first}`)).record;
    assert.deepEqual([request['sender'], request['created_by']], ['octocat', `hook:${hook.id}`]);
    await service.stopPaying(owner);
    const sent = sign.github(hook.secret, 'push', github.push());
    assert.match(String((await deliver(service.api, hook, sent)).record['reason']), /not paid for/);
  });

  test('tells that its owner is suspended', async () => {
    const other = await service.user();
    const its = await other.createProject({ repository_url: 'git@example.org:team/code.git' });
    const hook = (await other.post(`/projects/${its.id}/hooks`, { provider: 'github' })).record as Hook;
    await service.suspend(other);
    const answer = await deliver(service.api, hook, sign.github(hook.secret, 'push', github.push()));
    assert.deepEqual(
      [answer.status, answer.record['outcome'], answer.record['reason']],
      [202, 'ignored', 'The account of the project’s owner is suspended.'],
    );
  });
});

describeService(
  'the address of a hook',
  (service) => {
    test('begins with the base URL', async () => {
      const owner = await service.user();
      const project = await owner.createProject();
      const hook = (await owner.post(`/projects/${project.id}/hooks`, { provider: 'generic' })).record;
      assert.equal(hook['url'], `https://ci.example.org/hooks/${hook.id}`);
    });
  },
  { settings: { base_url: 'https://ci.example.org/' } },
);
