import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { frameHead } from '../../../src/shared/domain/file-frames.ts';
import { assertRefused } from '../../support/expect.ts';
import { describeWithRunnerOnOne } from '../../support/runner.ts';
import { runningBuild } from '../../support/running-build.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import { archiveOf } from '../../support/software.ts';
import type { User } from '../../support/user.ts';

const unavailable = { generic: ['resource_temporary_unavailable'] };
/** MB, and more than any disk has: all of it is reserve. */
const settings = { disk_reserve: '1000000000' };

describeWithRunnerOnOne(
  'on a disk without room above its reserve',
  (service, runner) => {
    let alice: User;
    before(async () => {
      alice = await service.user();
    });

    test('the service says that it is not well, and why', async () => {
      const answer = await service.api.get('/healthz');
      assert.equal(answer.status, 503);
      assert.equal(answer.body.status, 'unavailable');
      assert.match(String(answer.body.reason), /^the disk is full: \d+ MB are free, of 1000000000 MB/);
      assert.ok(!answer.text.includes(service.folder), 'where the data lies is nobody’s business');
    });

    test('what is small is written', async () => {
      const project = await alice.createProject();
      await alice.createSuite(project);
      assert.equal((await alice.put(`/projects/${project.id}`, { description: 'changed' })).status, 200);
    });

    test('an archive is refused, and nothing of it is left', async () => {
      const dependency = await alice.createDependency();
      assertRefused(await alice.upload(dependency, await archiveOf({ hello: 'hello\n' })), 403, unavailable);
      const path = `/dependencies/${dependency.id}`;
      assert.equal((await alice.get(path)).record.marketplace_state, 'waiting_archive_upload');
      const files = readdirSync(join(service.folder, 'blobs'), { recursive: true, withFileTypes: true });
      assert.deepEqual(
        files.filter((entry) => entry.isFile()),
        [],
      );
    });

    test('artifacts are refused, nothing of them is left, and the build ends as it did', async () => {
      const { task, path } = await runningBuild(alice, runner, { 'artifacts[]': 'dist' });
      async function* content(): AsyncGenerator<Buffer> {
        yield Buffer.concat([frameHead('F', 5, 'small'), Buffer.from('small'), frameHead('F', 10, 'other')]);
        yield Buffer.from('0123456789');
      }
      assert.deepEqual(await task.keep(content()), { refused: 'disk_full' });
      await task.exit(0);
      assert.equal((await alice.get(path)).record.build_state, 'passed');
      assert.deepEqual((await alice.get(`${path}/artifacts`)).list, []);
      const files = readdirSync(join(service.folder, 'blobs'), { recursive: true, withFileTypes: true });
      assert.deepEqual(
        files.filter((entry) => entry.isFile()),
        [],
      );
    });

    test('a build that has more to say ends as an error of ours, and its log says so', async () => {
      const { task, path } = await runningBuild(alice, runner, { 'retry_on[]': '' });
      assert.deepEqual(await task.send(0, Buffer.from('something\n')), { refused: 'disk_full', size: 0 });
      assert.deepEqual(await task.finishAt(0, { kind: 'cut_short', reason: 'disk_full' }), { taken: true });
      const build = (await alice.get(path)).record;
      assert.deepEqual([build.build_state, build.failure_reason], ['errored', 'disk_full']);
      assert.match((await alice.get(`${path}/log.txt`)).text, /^The log was cut here .* is full\. .* free space\.\n$/);
    });

    test('what a runner has compiled is refused, and it is told why', async () => {
      const { task } = await runningBuild(alice, runner);
      async function* content(): AsyncGenerator<Buffer> {
        yield Buffer.from('software');
      }
      const { claim } = task.order;
      // No archive could be sent here that a runner could have compiled.
      const becomes = (kind: string): Promise<unknown> =>
        service.store.db.transaction((trx) =>
          trx.updateTable('jobs').set({ kind }).where('claim', '=', claim).execute(),
        );
      await becomes('compile_dependency');
      const stored = await runner.dispatch.store(runner.self, claim, content());
      assert.deepEqual(stored, { refused: 'disk_full' });
      await becomes('run_suite');
      await task.exit(0);
    });
  },
  { settings },
);

describeServiceOnOne('on a disk with room', (service) => {
  test('the service says that it is well', async () => {
    const answer = await service.api.get('/healthz');
    assert.deepEqual([answer.status, answer.body.status], [200, 'ok']);
  });
});
