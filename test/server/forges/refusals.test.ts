import assert from 'node:assert/strict';
import { test } from 'node:test';
import { entriesSince } from '../../../src/server/auth/audit.ts';
import type { Answer } from '../../support/client.ts';
import { FakeForge, type Dialect } from '../../support/fake-forge.ts';
import { growingPauses } from '../../support/pauses.ts';
import { describeWithRunner } from '../../support/runner.ts';
import type { Service } from '../../support/service.ts';
import type { User } from '../../support/user.ts';

interface Connected {
  user: User;
  forge: bigint;
  project: bigint;
}

/** Calls of an account whose token was revoked at the forge. */
const uses: Record<string, (one: Connected) => Promise<Answer>> = {
  'list of repositories': ({ user, forge }) => user.get(`/forges/${forge}/repositories`),
  'project in one step': ({ user, forge }) => user.post('/projects', { forge_id: forge, repository: 'team/lib' }),
  connect: ({ user, project }) => user.post(`/projects/${project}/connect`, {}),
};

async function connected(service: Service, forge: FakeForge): Promise<Connected> {
  const user = await service.user();
  const { id } = (await user.post('/forges', forge.fields)).record;
  const made = await user.post('/projects', { forge_id: id, repository: 'team/app' });
  assert.equal(made.status, 201, made.text);
  return { user, forge: id, project: made.record.id };
}

async function shown({ user, forge, project }: Connected) {
  const [state, link] = [(await user.get(`/forges/${forge}`)).record, (await user.get(`/projects/${project}`)).record];
  return [state.state, link.forge_state];
}

describeWithRunner(
  'a forge that no longer takes the token',
  (service, runner) => {
    for (const [name, use] of Object.entries(uses))
      test(`shows that with its projects after a ${name}`, async () => {
        await using forge = await FakeForge.start('gitea', 'team/app', 'team/lib');
        const one = await connected(service, forge);
        forge.token = 'another-token-0123456789';
        const { status, body } = await use(one);
        assert.deepEqual([status, body.error], [403, { token: ['invalid_format'] }]);
        assert.deepEqual(await shown(one), ['refused', 'incomplete']);
        await use(one);
        const entries = await Array.fromAsync(entriesSince(service.store.db.read, 0n));
        const told = entries.filter(({ action, subject_id: id }) => action === 'forge.refused' && id === one.forge);
        assert.equal(told.length, 1);
      });

    for (const name of ['status', 'fetch'] as const)
      test(`shows that after a ${name}`, async () => {
        await using forge = await FakeForge.start('gitea', 'team/app');
        const one = await connected(service, forge);
        const project = `/projects/${one.project}`;
        const suite = await one.user.post(`${project}/suites`, { name: 'make', command: 'true' });
        assert.equal(suite.status, 201, suite.text);
        forge.interfere = ({ path }) => (path.includes('/statuses/') && name === 'fetch' ? { status: 201 } : undefined);
        assert.equal((await one.user.post(`${project}/build_requests`, { commit_ref: 'main' })).status, 201);
        const fetching = await runner.take('fetch_commit');
        forge.token = 'another-token-0123456789';
        if (name === 'status') await fetching.fetched();
        else await fetching.finish({ kind: 'unfetchable', reason: 'repository_not_found', message: 'refused (401)' });
        for (const wait = growingPauses(); (await shown(one))[0] !== 'refused'; await wait());
        assert.deepEqual(await shown(one), ['refused', 'incomplete']);
        if (name === 'status') await (await runner.take('run_suite')).exit(0);
      });

    test('is not taken for one by a refusal of one repository', async () => {
      await using forge = await FakeForge.start('gitea', 'team/app');
      const one = await connected(service, forge);
      forge.interfere = ({ path }) =>
        path.endsWith('/keys') ? { status: 401, body: { message: 'You may not see this' } } : undefined;
      const { status, text } = await one.user.post(`/projects/${one.project}/connect`, {});
      assert.deepEqual([status, /You may not see this/.test(text)], [403, true]);
      assert.deepEqual(await shown(one), ['connected', 'connected']);
    });

    test('is not shown by the answer to a token that was replaced meanwhile', async () => {
      await using forge = await FakeForge.start('gitea', 'team/app');
      const one = await connected(service, forge);
      forge.token = 'another-token-0123456789';
      const { promise, resolve } = Promise.withResolvers<void>();
      const came = Promise.withResolvers<void>();
      forge.interfere = async ({ headers }) => {
        if (headers.authorization === 'token another-token-0123456789') return undefined;
        came.resolve();
        await promise;
        return { status: 401, body: { message: 'Bad credentials' } };
      };
      const listing = one.user.get(`/forges/${one.forge}/repositories`);
      await came.promise;
      assert.equal((await one.user.put(`/forges/${one.forge}`, { token: 'another-token-0123456789' })).status, 200);
      resolve();
      assert.equal((await listing).status, 403);
      assert.deepEqual(await shown(one), ['connected', 'connected']);
    });

    for (const dialect of ['github', 'gitea'] as Dialect[])
      test(`${dialect}: a limit of its rate is none`, async () => {
        await using forge = await FakeForge.start(dialect, 'team/app', 'team/lib');
        const one = await connected(service, forge);
        forge.interfere = () => ({
          status: 403,
          body: { message: 'You have exceeded a secondary rate limit. Please wait a few minutes.' },
        });
        for (const [name, use] of Object.entries(uses)) {
          const { status, body } = await use(one);
          assert.deepEqual([status, body.error], [403, { generic: ['resource_temporary_unavailable'] }], name);
        }
        const made = await one.user.post('/forges', forge.fields);
        assert.deepEqual(made.body.error, { generic: ['resource_temporary_unavailable'] });
        assert.deepEqual(await shown(one), ['connected', 'connected']);
        await one.user.delete(`/projects/${one.project}`);
        const left = service.store.db.read.selectFrom('forge_removals').selectAll().where('forge_id', '=', one.forge);
        for (const wait = growingPauses(); ; await wait()) {
          const [removal] = await left.execute();
          if (removal && removal.run_after > BigInt(Date.now() + 50_000)) break;
        }
      });
  },
  { settings: { webhook_allow: '127.0.0.0/8' }, forgePaceMs: 0 },
);
