import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { removeTree } from '../../src/shared/lib/remove-tree.ts';
import { onOneDatabase } from '../support/databases.ts';
import { temporaryFolder } from '../support/folders.ts';
import { startInstallation, type Build, type Installation, type Item, type Project } from '../support/installation.ts';
import { startMinio, whyNoMinio, type Minio } from '../support/minio.ts';
import { headrace } from '../support/program.ts';

/** The whole program with its blobs in a MinIO that is killed and comes back. */
onOneDatabase((database) => {
  let minio: Minio;
  let installation: Installation;
  let project: Project;
  const urlOf = (bucket: string): string => `s3://${bucket}/ci?endpoint=${minio.endpoint}&path_style=true`;
  before(async () => {
    if (whyNoMinio !== false) return;
    const folder = temporaryFolder();
    database.afterwards(() => removeTree(folder));
    minio = await startMinio(folder);
    database.afterwards(() => minio.kill());
    const env = { ...minio.credentials, HEADRACE_BLOB_URL: urlOf(minio.bucket) };
    installation = await startInstallation(database, env);
    project = await installation.project();
  });
  const options = { skip: whyNoMinio };

  test('a build loses nothing and is never running for ever when its store is killed meanwhile', options, async () => {
    const sleeps = 'echo begun; sleep 5; mkdir -p out deps; head -c 20000000 /dev/urandom >out/large; date >deps/d';
    const form = { name: 'leaves', command: sleeps, 'artifacts[]': 'out', 'cache[]': 'deps' };
    const { id_str: suite } = await project.api().post(`${project.path}/suites`, form);
    const request = await project.ask('main');
    await project.untilLogged(suite, /begun/);
    await minio.kill();
    await project.end(request);
    const [build] = await project.api().get<Build[]>(`${project.path}/builds`);
    assert.ok(build);
    const lookAt = (): Promise<Build> => project.api().get(`${project.path}/builds/${build.id_str}`);
    assert.deepEqual([build.build_state, (await lookAt()).uploads_pending], ['passed', true]);
    await installation.killServer();
    await installation.killRunner();
    await installation.startServer();
    assert.equal((await lookAt()).uploads_pending, true);
    await minio.start();
    while ((await lookAt()).uploads_pending === true) await pause(100);
    const kept = await project.api().get<Item[]>(`${project.path}/builds/${build.id_str}/artifacts`);
    assert.deepEqual(
      kept.map(({ path, size }) => [path, size]),
      [['out/large', 20_000_000]],
    );
    const path = `${project.path}/builds/${build.id_str}/artifacts/${kept[0]?.id_str}`;
    assert.equal((await project.api().bytes(path)).length, 20_000_000);
    assert.equal((await project.api().get<Item[]>(`${project.path}/caches`)).length, 1);
  });

  const refusals: Record<string, [() => Record<string, string>, RegExp]> = {
    'there is no such bucket': [() => ({ HEADRACE_BLOB_URL: urlOf('nowhere') }), /has no bucket nowhere/],
    'its name is none': [() => ({ HEADRACE_BLOB_URL: urlOf('ab') }), /rejects the bucket name ab/],
    'the key is unknown': [() => ({ AWS_ACCESS_KEY_ID: 'nobody' }), /rejects the credentials/],
    'the secret is wrong': [() => ({ AWS_SECRET_ACCESS_KEY: 'WRONG-SECRET' }), /rejects the credentials/],
  };
  for (const [why, [settings, words]] of Object.entries(refusals)) {
    test(`a start is refused in words where ${why}`, options, async () => {
      const env = { ...minio.credentials, HEADRACE_BLOB_URL: urlOf(minio.bucket), ...settings() };
      const folder = temporaryFolder();
      const { status, stderr } = await headrace(['serve', '--data-dir', folder, '--port', '0', '--no-runner'], env);
      await removeTree(folder);
      assert.equal(status, 1);
      assert.match(stderr.toString(), words);
      assert.doesNotMatch(stderr.toString(), /WRONG-SECRET|admin-admin/);
    });
  }
});
