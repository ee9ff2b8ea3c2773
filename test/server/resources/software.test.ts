import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertNotFound } from '../../support/expect.ts';
import { compiled, compiling, compilingAgain } from '../../support/compiling.ts';
import { describeWithRunner } from '../../support/runner.ts';

describeWithRunner('the software of a suite', (service, runner) => {
  test('is told as builds get it, and can be fetched by who may see the suite', async () => {
    const [alice, bob, mallory] = [await service.user(), await service.user(), await service.user()];
    const below = await compiling(alice, runner, {
      name: 'zlib',
      prefix: '/srv/zlib',
      command: 'make install PREFIX=/srv/zlib',
    });
    const zlib = await compiled(runner, below.task, 'files of zlib');
    const fields = {
      name: 'lua',
      prefix: '/srv/lua',
      command: 'make install PREFIX=/srv/lua',
      launch_command: 'lua -v',
    };
    const above = await compiling(alice, runner, { ...fields, 'related_dependencies[]': String(below.dependency.id) });
    const project = await alice.createProject();
    const suite = await alice.createSuite(project);
    const path = `/projects/${project.id}/suites/${suite.id}`;
    await alice.post(`${path}/dependencies`, { dependency_id: String(above.dependency.id) });
    const before = (await alice.get(`${path}/software`)).record;
    assert.deepEqual(before.missing, ['lua']);
    const lua = await compiled(runner, above.task, 'files of lua');
    await alice.invite(project, bob);
    for (const user of [alice, bob]) {
      const { layers, ...rest } = (await user.get(`${path}/software`)).record;
      assert.deepEqual(
        (layers as Record<string, unknown>[]).map(({ name, prefix, digest }) => [name, prefix, digest]),
        [
          ['zlib', '/srv/zlib', zlib],
          ['lua', '/srv/lua', lua],
        ],
      );
      const launches = [{ name: 'lua', command: 'lua -v' }];
      assert.deepEqual(rest, { prefixes: ['/srv/lua', '/srv/zlib'], services: [], launches, missing: [] });
      const query = `?suite_id=${suite.id}`;
      assert.equal((await user.get(`${above.path}/result${query}`)).text, 'files of lua');
      assert.equal((await user.get(`${below.path}/result${query}&digest=${zlib}`)).text, 'files of zlib');
      assertNotFound(await user.get(`${below.path}/result${query}&digest=${'0'.repeat(64)}`));
    }
    const whole = await alice.get(`${above.path}/result`);
    assert.deepEqual([whole.status, whole.text], [200, 'files of lua']);
    assert.equal(whole.headers['content-type'], 'application/zstd');
    assert.equal(whole.headers.etag, `"${lua}"`);
    const options = { as: alice.credentials, headers: { range: 'bytes=9-' } };
    const part = await service.api.get(`${above.path}/result`, options);
    assert.deepEqual([part.status, part.text], [206, 'lua']);
    for (const query of ['', `?suite_id=${suite.id}`, `?digest=${lua}`])
      assertNotFound(await mallory.get(`${above.path}/result${query}`));
    assertNotFound(await bob.get(`${above.path}/result`));
    const own = await mallory.createSuite(await mallory.createProject());
    assertNotFound(await mallory.get(`${above.path}/result?suite_id=${own.id}`));
    assert.equal((await alice.get(`${above.path}/result?digest=x`)).status, 403);

    await alice.post(`${above.path}/share`);
    assert.equal((await mallory.get(`${above.path}/result`)).text, 'files of lua');
    const never = await alice.createDependency({ name: 'never' });
    assertNotFound(await alice.get(`/dependencies/${never.id}/result`));
  });

  test('stays what was pinned, whatever its owner compiles later', async () => {
    const [alice, bob] = [await service.user(), await service.user()];
    const { dependency, task, path } = await compiling(alice, runner, { name: 'tool' });
    const first = await compiled(runner, task, 'first');
    const shared = await alice.post(`/dependencies/${dependency.id}/share`);
    assert.equal(shared.status, 200, shared.text);
    const suite = await bob.createSuite(await bob.createProject());
    const project = (await bob.get('/projects')).list[0];
    const place = `/projects/${project?.id_str}/suites/${suite.id}`;
    await bob.post(`${place}/dependencies`, { dependency_id: String(dependency.id) });
    const again = await compilingAgain(alice, runner, dependency);
    await compiled(runner, again.task, 'second');
    const [layer] = (await bob.get(`${place}/software`)).record.layers as { digest: string }[];
    assert.equal(layer?.digest, first);
    assert.equal((await bob.get(`${path}/result?suite_id=${suite.id}&digest=${first}`)).text, 'first');
    assert.equal((await bob.get(`${path}/result`)).text, 'second');
  });
});
