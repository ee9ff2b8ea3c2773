import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { startBreakingProxy } from '../../support/breaking-proxy.ts';
import { describeCommands } from '../../support/commands.ts';
import { compiled } from '../../support/compiling.ts';
import { archiveOf } from '../../support/software.ts';

describeCommands('dependency upload', ['unit'], ({ runner, at, service }) => {
  test('goes on by itself where the connection broke, and says how far it came where that does not help', async () => {
    const archive = await archiveOf({ noise: randomBytes(2_000_000).toString('latin1') }, 'tar');
    const file = join(at.developer.folder, 'lua.tar');
    writeFileSync(file, archive);
    const { record: dependency } = await at.alice.post('/dependencies', {
      name: 'lua',
      command: 'make PREFIX=/srv/dependency',
    });
    const proxy = await startBreakingProxy(service.address);
    try {
      const env = { HEADRACE_URL: proxy.address };
      proxy.breaksAfter(1_000_000);
      const uploading = at.developer.run(['dependency', 'upload', 'lua', file], '', env);
      const task = await runner.take('compile_dependency');
      assert.equal(task.order.work.archive.digest, createHash('sha256').update(archive).digest('hex'));
      await compiled(runner, task);
      const { status, out, err } = await uploading;
      assert.deepEqual([status, err], [0, '']);
      assert.match(out, /^uploading lua: ([\d.]+ MB) of \1\ndependency lua: compiled\n$/);

      // From the first break on nothing more arrives.
      const broken = at.developer.run(['dependency', 'upload', 'lua', file], '', env);
      const path = `/dependencies/${dependency.id}`;
      const { db } = service.store;
      for (let received = 0n; received === 0n;) {
        const row = await db.read
          .selectFrom('archive_uploads')
          .selectAll()
          .where('complete', '=', 0)
          .executeTakeFirst();
        received = row?.received ?? 0n;
      }
      proxy.breaksAfter(5000);
      const given = await broken;
      assert.equal(given.status, 3);
      assert.match(
        given.err,
        /^headrace: The upload was interrupted 5 times, at (9\d\d kB|1\.0 MB) of \d\.\d MB\. Cannot reach .*connection broke/,
      );
      assert.equal((await at.alice.get(path)).record.marketplace_state, 'compiled');
    } finally {
      await proxy.close();
    }
  });
});
