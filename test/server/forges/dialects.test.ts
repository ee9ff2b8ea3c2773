import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ForgeApi } from '../../../src/server/forges/api.ts';
import { bitbucketCloud, bitbucketHeaders } from '../../../src/server/forges/bitbucket-cloud.ts';
import { ForgeError, type Forge } from '../../../src/server/forges/forge.ts';
import type { ProviderName } from '../../../src/shared/domain/forge-providers.ts';
import { forgeOpener } from '../../../src/server/forges/index.ts';
import { publicAddressFilter } from '../../../src/shared/lib/address-filter.ts';
import { createResolve } from '../../../src/shared/lib/resolve.ts';
import { FakeForge, forgeToken as token, type Dialect } from '../../support/fake-forge.ts';

const rules = {
  mayCall: () => true,
  resolve: createResolve(),
  answerWithin: 10_000,
  signal: new AbortController().signal,
};

function open(fake: FakeForge): Forge {
  const access = { base: fake.api, headers: bitbucketHeaders(token), secrets: [token] };
  if (fake.dialect === 'cloud') return bitbucketCloud(new ForgeApi(access, rules));
  return forgeOpener(rules)(fake.provider as ProviderName, { url: fake.url, token });
}

const told: Record<Dialect, string[] | null> = {
  github: ['read', 'keys', 'hooks', 'statuses'],
  gitlab: ['read', 'keys', 'hooks', 'statuses'],
  gitea: null,
  cloud: ['read', 'keys', 'hooks', 'statuses'],
  center: null,
};
const events: Record<Dialect, string[]> = {
  github: ['push', 'pull_request'],
  gitea: ['push', 'pull_request'],
  gitlab: ['push_events', 'tag_push_events', 'merge_requests_events'],
  cloud: ['repo:push', 'pullrequest:created', 'pullrequest:updated'],
  center: ['repo:refs_changed', 'pr:opened', 'pr:from_ref_updated', 'pr:reopened'],
};
const key = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJqVXoTq headrace-1';

const kindOf = async (work: Promise<unknown>): Promise<string> => {
  const error = await work.then(
    () => undefined,
    (refused: unknown) => refused,
  );
  assert.ok(error instanceof ForgeError, String(error));
  assert.ok(!error.message.includes(token), error.message);
  return error.kind;
};

for (const dialect of ['github', 'gitlab', 'gitea', 'cloud', 'center'] as const) {
  test(`${dialect} is asked who somebody is, for repositories, keys and hooks`, async () => {
    await using fake = await FakeForge.start(dialect, 'team/app', 'team/lib', 'team/tool');
    fake.add('team/read-only', { push: false, admin: false });
    fake.add('team/writable', { admin: false, private: false, archived: true });
    const forge = open(fake);
    assert.deepEqual(await forge.whoami(), { login: 'ada', may: told[dialect], lacks: [] });

    const first = await forge.repositories('', 1);
    assert.deepEqual(first, {
      repositories: ['team/app', 'team/lib'].map((name) => ({
        id: dialect === 'cloud' ? `{${fake.of(name).id}}` : String(fake.of(name).id),
        full_name: name,
        ssh_url: `git@forge.example.org:${name}.git`,
        https_url: `https://forge.example.org/${name}.git`,
        default_branch: dialect === 'center' ? '' : 'main',
        private: true,
        archived: false,
        may_administer: true,
      })),
      hasMore: true,
    });
    const found = await forge.repositories('writ', 1);
    assert.deepEqual(
      found.repositories.map(({ full_name: name, may_administer: may }) => [name, may]),
      [['team/writable', false]],
    );
    assert.equal(found.hasMore, false);
    assert.deepEqual((await forge.repositories('read-only', 1)).repositories, [], 'one that may not be pushed to');

    const writable = await forge.repository('team/writable');
    assert.deepEqual(
      [writable.may_administer, writable.private, writable.archived],
      [false, false, dialect !== 'cloud'],
    );
    assert.equal((await forge.repository('team/app')).default_branch, 'main');

    const hook = { url: 'https://ci.example.org/hooks/1', secret: 'whsec_x', comments: false };
    await forge.addKey('team/app', 'Headrace app', key);
    await forge.addHook('team/app', hook);
    const app = fake.of('team/app');
    assert.deepEqual(
      app.keys.map(({ title, readOnly }) => [title, readOnly]),
      [['Headrace app', true]],
    );
    assert.deepEqual(
      app.hooks.map(({ id: _id, ...one }) => one),
      [{ url: hook.url, secret: hook.secret, active: true, events: events[dialect] }],
    );
    const [keys, hooks] = [await forge.keys('team/app'), await forge.hooks('team/app')];
    assert.equal(keys[0]?.key, key.slice(0, key.lastIndexOf(' ')));
    assert.deepEqual(
      hooks.map(({ url, active }) => [url, active]),
      [[hook.url, true]],
    );
    assert.equal(await kindOf(forge.addKey('team/lib', 'again', key.slice(0, key.lastIndexOf(' ')))), 'invalid');
    await forge.removeKey('team/app', keys[0]?.id ?? '');
    await forge.removeHook('team/app', hooks[0]?.id ?? '');
    assert.deepEqual([app.keys, app.hooks], [[], []]);
    await forge.removeKey('team/gone', '1');

    assert.equal(await kindOf(forge.repository('team/none')), 'not_found');
    assert.equal(await kindOf(forge.addKey('team/writable', 'x', key)), 'forbidden');
    fake.add('team/old', { movedTo: 'team/app' });
    await assert.rejects(forge.repository('team/old'), /renamed or moved to team\/app/);
    fake.token = 'another';
    assert.equal(await kindOf(forge.whoami()), 'refused');
  });
}

for (const dialect of ['cloud', 'center'] as const) {
  test(`${dialect} tells by a second list what can be administered, whichever page that has it on`, async () => {
    await using fake = await FakeForge.start(dialect);
    const admins = [false, true, true, false, false, true, false, true];
    for (const [at, admin] of admins.entries()) fake.add(`team/r${at}`, { admin });
    const forge = open(fake);
    const seen: boolean[] = [];
    for (let page = 1; page <= admins.length / fake.pageSize; page += 1)
      for (const one of (await forge.repositories('', page)).repositories) seen.push(one.may_administer);
    assert.deepEqual(seen, admins);
  });
}

test('a forge that is away, limits its rate or answers nonsense is told apart [promise: connected-forges]', async () => {
  await using fake = await FakeForge.start('github', 'team/app');
  const forge = open(fake);
  const after = async (status: number, headers: Record<string, string> = {}) => {
    fake.interfere = () => ({ status, headers, body: { message: `You exceeded a limit, ${token}` } });
    const error = (await forge.whoami().catch((refused: unknown) => refused)) as ForgeError;
    assert.match(error.message, /exceeded a limit, \[masked\]/);
    return [error.kind, error.retryAfterMs];
  };
  assert.deepEqual(await after(403, { 'retry-after': '7' }), ['unavailable', 7000]);
  assert.deepEqual(await after(429), ['unavailable', undefined]);
  assert.deepEqual(await after(503, { 'retry-after': '999999999' }), ['unavailable', 3_600_000], 'never for ever');
  const reset = String(Math.ceil(Date.now() / 1000) + 30);
  const [kind, wait] = await after(403, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': reset });
  assert.ok(kind === 'unavailable' && Number(wait) > 25_000 && Number(wait) <= 31_000, String(wait));
  assert.deepEqual(await after(403), ['forbidden', undefined]);

  fake.interfere = (_, response) => (response.end('<html>Welcome</html>'), 'answered');
  assert.equal(await kindOf(forge.whoami()), 'not_a_forge');
  fake.interfere = () => ({ status: 200, body: { login: 7 } });
  assert.equal(await kindOf(forge.whoami()), 'not_a_forge');
  fake.interfere = (_, response) => {
    const more = (): void => void response.write('"'.padEnd(65_536), more);
    more();
    return 'answered';
  };
  assert.equal(await kindOf(forge.whoami()), 'not_a_forge', 'a list without end');
  const impatient = forgeOpener({ ...rules, answerWithin: 200 })('github', { url: fake.url, token });
  fake.interfere = (_, response) => (response.write('{'), 'answered');
  assert.equal(await kindOf(impatient.whoami()), 'unavailable', 'a body without end');
  const elsewhere = 'http://169.254.169.254/latest/meta-data/';
  fake.interfere = () => ({ status: 301, headers: { location: elsewhere }, body: {} });
  await assert.rejects(forge.repository('team/app'), /renamed or moved elsewhere/);
  // The name leads elsewhere by the second look: the first one counts for its call, and the next call is judged anew.
  let looks = 0;
  const resolve = async () => [{ address: (looks += 1) === 1 ? '127.0.0.1' : '10.0.0.1', family: 4 }];
  const mayCall = publicAddressFilter(['127.0.0.0/8']);
  const { port } = new URL(fake.url);
  const url = `http://rebinding.example.org:${port}`;
  const rebound = forgeOpener({ ...rules, mayCall, resolve })('github', { url, token });
  fake.interfere = () => undefined;
  const before = fake.calls.length;
  assert.equal((await rebound.whoami()).login, 'ada');
  assert.equal(looks, 1);
  await assert.rejects(rebound.whoami(), /the address is not public/);
  assert.equal(fake.calls.length, before + 1);
  const forbidden = forgeOpener({ ...rules, mayCall: () => false })('github', { url: fake.url, token });
  assert.equal(await kindOf(forbidden.whoami()), 'not_a_forge');
});

test('what a token lacks is told in the words of the forge', async () => {
  const lacking = async (dialect: Dialect, scopes: string | undefined) => {
    await using fake = await FakeForge.start(dialect);
    fake.scopes = scopes;
    const { may, lacks } = await open(fake).whoami();
    return [may, lacks];
  };
  assert.deepEqual(await lacking('github', 'read:user'), [[], ['repo']]);
  assert.deepEqual(await lacking('github', 'repo:status, write:repo_hook'), [['hooks', 'statuses'], ['repo']]);
  assert.deepEqual(await lacking('github', undefined), [null, []], 'a fine-grained token');
  assert.deepEqual(await lacking('gitlab', 'read_api'), [['read'], ['api']]);
  assert.deepEqual(await lacking('gitlab', undefined), [null, []]);
  assert.deepEqual(await lacking('cloud', 'repository:write'), [
    ['read', 'statuses'],
    ['repository:admin', 'webhook'],
  ]);
  // Neither is to administer a repository to read it, nor with a personal token to make a hook to see it.
  assert.deepEqual(await lacking('cloud', 'repository:admin, webhook, account'), [['keys', 'hooks'], ['repository']]);
  assert.deepEqual(await lacking('cloud', 'admin:repository:bitbucket, write:webhook:bitbucket'), [
    ['keys'],
    ['read:repository:bitbucket', 'read:webhook:bitbucket', 'delete:webhook:bitbucket'],
  ]);
  await using gitea = await FakeForge.start('gitea');
  gitea.interfere = ({ method }) =>
    method === 'DELETE' ? { status: 403, body: { message: 'required scope' } } : undefined;
  assert.deepEqual(await open(gitea).whoami(), { login: 'ada', may: null, lacks: ['write:repository'] });
});
