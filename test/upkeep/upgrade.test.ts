import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { openDatabase } from '../../src/server/db/open.ts';
import { unpackFixture, type Noted } from '../support/data-fixture.ts';
import { shapeOf } from '../support/database-shape.ts';
import { onEveryDatabase, onOneDatabase, placeFor, temporaryFolder } from '../support/databases.ts';
import { folderFor } from '../support/folders.ts';
import { startInstallation, type Build, type Installation } from '../support/installation.ts';
import { longestWait, growingPauses } from '../support/pauses.ts';
import { headrace, serve } from '../support/program.ts';
import { createRepository } from '../support/repository.ts';
import { removeTree } from '../../src/shared/lib/remove-tree.ts';

const released = '0.1.0';

describe(`a data folder of ${released}`, () => {
  onOneDatabase(({ afterwards }) => {
    let noted: Noted;
    let installation: Installation;
    let path: string;
    before(async () => {
      const home = temporaryFolder();
      afterwards(() => removeTree(home));
      const unpacked = await unpackFixture(released, home);
      ({ noted } = unpacked);
      path = `/projects/${noted.project.id}`;
      const emptyUrl = (): Promise<string> => assert.fail('SQLite is in the folder');
      installation = await startInstallation({ kind: 'sqlite', emptyUrl, afterwards }, {}, { folder: unpacked.data });
      installation.admin.api_key = noted.api_key;
    });

    test('has its projects, suites, builds, logs and artifacts after the upgrade', async () => {
      const api = installation.api();
      const namesAt = async (at: string): Promise<unknown[]> =>
        (await api.get<{ name: string }[]>(at)).map(({ name }) => name);
      assert.deepEqual(await namesAt('/projects'), noted.projects);
      assert.deepEqual(await namesAt(`${path}/suites`), noted.suites);
      assert.ok(noted.builds.length > 4);
      for (const { id, state, log, artifacts } of noted.builds) {
        const build = await api.get<Build>(`${path}/builds/${id}`);
        assert.deepEqual([build.build_state, await api.text(`${path}/builds/${id}/log.txt`)], [state, log]);
        for (const [artifact] of artifacts)
          assert.equal(await api.text(`${path}/builds/${id}/artifacts/${artifact}`), 'made\n');
      }
    });

    test('opens its secrets for a new build, beside the old builds', async () => {
      const { host } = installation;
      const repository = await createRepository(join(host.folder, 'app.git'));
      await repository.commit({ files: { greeting: 'good night\n' } });
      await host.authorize(noted.project.public_key); // the project's key was made by the release before
      const api = installation.api();
      await api.put(path, { repository_url: host.url('app.git') });
      const { id_str: id } = await api.post(`${path}/build_requests`, { commit_ref: 'main' });
      const wait = growingPauses();
      for (const began = Date.now(); ; await wait()) {
        const { build_state: state } = await api.get<Build>(`${path}/build_requests/${id}`);
        if (state === 'passed') break;
        assert.ok(['enqueued', 'fetching', 'building'].includes(state), state);
        assert.ok(Date.now() - began < longestWait, installation.serving().log());
      }
      const [commit] = await api.get<{ id_str: string }[]>(`${path}/commits`);
      const builds = await api.get<Build[]>(`${path}/commits/${commit?.id_str}/builds`);
      const unit = builds.find(({ suite_id_str: suite }) => suite === noted.project.suite);
      const log = await api.text(`${path}/builds/${unit?.id_str}/log.txt`);
      const sum = createHash('sha256').update(noted.project.secret).digest('hex');
      assert.match(log, /^Restored the cache of main/m);
      assert.ok(log.includes(`\ngood night\n${sum}  -\n`), log.slice(0, 200));
      const [first] = noted.builds;
      assert.equal(await api.text(`${path}/builds/${first?.id}/log.txt`), first?.log);
    });
  });
});

describe(`a backup of ${released}`, () => {
  onEveryDatabase((database) => {
    test('is restored with the tables that a new installation has, and serves', async () => {
      const home = folderFor(database.afterwards);
      const { backup, noted } = await unpackFixture(released, home);
      const { folder, env } = await placeFor(database);
      const data = join(folder, 'data');
      const restored = await headrace(['restore', backup, '--data-dir', data], env);
      assert.equal(restored.status, 0, restored.stderr.toString());
      const db = await openDatabase({ url: env.HEADRACE_DATABASE_URL ?? join(data, 'headrace.db') });
      const shape = await shapeOf(db);
      await db.close();
      assert.deepEqual(shape, await shapeOf(await database.open()));
      const served = await serve(database, data, env);
      const [first] = noted.builds;
      const log = await served.api.get(`/projects/${noted.project.id}/builds/${first?.id}/log.txt`, { as: noted });
      assert.equal(log.text, first?.log);
      served.api.close();
    });
  });
});
