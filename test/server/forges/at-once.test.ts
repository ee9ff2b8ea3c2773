import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeForge, type Dialect } from '../../support/fake-forge.ts';
import { growingPauses } from '../../support/pauses.ts';
import { describeService } from '../../support/service.ts';

/** Holds the first calls of a kind back until so many have come, or until no more comes: so they are under way at once. */
function together(forge: FakeForge, isMeant: (path: string) => boolean): void {
  const waiting: (() => void)[] = [];
  forge.interfere = async ({ method, path }) => {
    if (method !== 'GET' || !isMeant(path)) return undefined;
    const { promise, resolve } = Promise.withResolvers<void>();
    waiting.push(resolve);
    setTimeout(resolve, 500);
    if (waiting.length === 2) for (const release of waiting) release();
    await promise;
    return undefined;
  };
}

describeService(
  'two at once',
  (service) => {
    for (const dialect of ['github', 'gitlab', 'gitea'] as Dialect[])
      test(`${dialect}: that connect a project put one key and one hook there`, async () => {
        await using forge = await FakeForge.start(dialect, 'team/app');
        const alice = await service.user();
        const { id } = (await alice.post('/forges', forge.fields)).record;
        const { record: project } = await alice.post('/projects', { forge_id: id, repository: 'team/app' });
        const app = forge.of('team/app');
        for (const lost of ['hooks', 'keys'] as const) {
          app[lost] = [];
          together(forge, (path) => /hooks/.test(path));
          const connect = () => alice.post(`/projects/${project.id}/connect`, {});
          const answers = await Promise.all([connect(), connect(), connect()]);
          assert.deepEqual(
            answers.map(({ status, record }) => [status, record.forge_state]),
            answers.map(() => [200, 'connected']),
            answers.map(({ text }) => text).join('\n'),
          );
          assert.deepEqual([app.keys.length, app.hooks.length], [1, 1], `after the ${lost} were deleted`);
        }
      });

    test('that make a project of one repository get names of their own', async () => {
      await using forge = await FakeForge.start('gitea', 'team/app');
      const alice = await service.user();
      const { id } = (await alice.post('/forges', forge.fields)).record;
      together(forge, (path) => path.endsWith('/repos/team/app'));
      const make = () => alice.post('/projects', { forge_id: id, repository: 'team/app' });
      const answers = await Promise.all([make(), make()]);
      assert.deepEqual(
        answers.map(({ record }) => String(record.name)).toSorted((a, b) => a.localeCompare(b)),
        ['app', 'team/app'],
        answers.map(({ text }) => text).join('\n'),
      );
      const app = forge.of('team/app');
      assert.deepEqual([app.keys.length, app.hooks.length], [2, 2]);
    });

    test('of which one is refused in the end leave nothing of that one at the forge', async () => {
      await using forge = await FakeForge.start('gitea', 'team/app');
      const alice = await service.user();
      const { id } = (await alice.post('/forges', forge.fields)).record;
      together(forge, (path) => path.endsWith('/repos/team/app'));
      const make = () => alice.post('/projects', { forge_id: id, repository: 'team/app', name: 'mine' });
      const answers = await Promise.all([make(), make()]);
      assert.deepEqual(
        answers.map(({ status }) => status).toSorted((a, b) => a - b),
        [201, 403],
      );
      const app = forge.of('team/app');
      for (const wait = growingPauses(); app.hooks.length > 1 || app.keys.length > 1; await wait());
      assert.deepEqual([app.keys.length, app.hooks.length], [1, 1]);
    });
  },
  { settings: { webhook_allow: '127.0.0.0/8' } },
);
