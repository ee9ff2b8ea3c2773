import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertDestroyed, assertNotFound, assertWrongFields } from '../../support/expect.ts';
import { addCache } from '../../support/rows.ts';
import { describeService } from '../../support/service.ts';

describeService('caches', (service) => {
  test('are listed, those used last first, and deleted one by one or all at once', async () => {
    const alice = await service.user();
    const project = await alice.createProject();
    const [suite, other] = [await alice.createSuite(project), await alice.createSuite(project)];
    const path = `/projects/${project.id}/caches`;
    assert.deepEqual((await alice.get(path)).list, []);
    const at = (last_used_at: bigint) => ({ created_at: 1000n, last_used_at });
    const oldest = await addCache(service.store, { project, suite }, at(2000n));
    const newest = await addCache(service.store, { project, suite }, { ...at(9000n), branch: 'x' });
    const middle = await addCache(service.store, { project, suite: other }, at(5000n));
    const { list } = await alice.get(path);
    assert.deepEqual(
      list.map(({ id }) => id),
      [newest.id, middle.id, oldest.id],
    );
    assert.deepEqual(list[0], {
      id: newest.id,
      id_str: String(newest.id),
      suite_id: suite.id,
      suite_id_str: String(suite.id),
      branch: 'x',
      size: 4096,
      created_at: '1970-01-01T00:00:01+00:00',
      last_used_at: '1970-01-01T00:00:09+00:00',
    });
    assertDestroyed(await alice.delete(`${path}/${middle.id}`));
    assertNotFound(await alice.delete(`${path}/${middle.id}`));
    assert.equal((await alice.get(path)).list.length, 2);
    assertDestroyed(await alice.delete(path));
    assert.deepEqual((await alice.get(path)).list, []);
    assertDestroyed(await alice.delete(path));
  });

  test('go with their suite, and are not reached through another project', async () => {
    const alice = await service.user();
    const [project, elsewhere] = [await alice.createProject(), await alice.createProject()];
    const suite = await alice.createSuite(project);
    const cache = await addCache(service.store, { project, suite });
    assertNotFound(await alice.delete(`/projects/${elsewhere.id}/caches/${cache.id}`));
    assertDestroyed(await alice.delete(`/projects/${elsewhere.id}/caches`));
    assert.equal((await alice.get(`/projects/${project.id}/caches`)).list.length, 1);
    assertDestroyed(await alice.delete(`/projects/${project.id}/suites/${suite.id}`));
    assert.deepEqual((await alice.get(`/projects/${project.id}/caches`)).list, []);
  });

  test('are of plain paths in the workspace or at home', async () => {
    const alice = await service.user();
    const project = await alice.createProject();
    const path = `/projects/${project.id}/suites`;
    const create = (...cache: string[]) =>
      service.api.ask('POST', path, {
        as: alice.credentials,
        headers: { 'content-type': 'application/json' },
        body: Buffer.from(JSON.stringify({ name: `s${Math.random()}`, command: 'x', cache })),
      });
    for (const good of [
      [],
      ['node_modules'],
      ['a/b', 'a/c', '~/.npm', '~/.cache/pip/'],
      ['.gradle', '.gitignored', 'ab', 'a', 'größe und mehr'],
      Array.from({ length: 16 }, (_, at) => `p${at}`),
    ]) {
      const answer = await create(...good);
      assert.equal(answer.status, 201, answer.text);
      assert.deepEqual(answer.record.cache, good);
    }
    for (const bad of [
      ['.'],
      ['/'],
      ['/etc'],
      ['..'],
      ['../x'],
      ['a/../b'],
      ['a//b'],
      ['./a'],
      ['~'],
      ['~/'],
      ['~/..'],
      ['~root/x'],
      ['.git'],
      ['.git/hooks'],
      ['a', 'a/b'],
      ['a/', 'a'],
      ['~/x', '~/x/y'],
      ['x\0y'],
      ['x\ty'],
      ['x'.repeat(256)],
      Array.from({ length: 17 }, (_, at) => `p${at}`),
    ])
      assertWrongFields(await create(...bad), { cache: 'invalid_format' });
  });
});
