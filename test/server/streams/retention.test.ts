import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { collectBlobs } from '../../../src/server/software/collect.ts';
import { packLog } from '../../../src/server/streams/pack-log.ts';
import { forgetOldLogs } from '../../../src/server/streams/retention.ts';
import { compiled, compiling } from '../../support/compiling.ts';
import { describeWithRunner } from '../../support/runner.ts';
import { runningBuild } from '../../support/running-build.ts';
import type { User } from '../../support/user.ts';

const day = 24 * 60 * 60 * 1000;

describeWithRunner('logs that are kept for some days', (service, runner) => {
  let alice: User;
  before(async () => {
    alice = await service.user();
  });

  const forgetAfter = (days: number, passed: number): Promise<number> =>
    forgetOldLogs(service.store.db, days, Date.now() + passed * day);
  const finished = async (said: string) => {
    const build = await runningBuild(alice, runner);
    await build.task.writeLog(said);
    await build.task.exit(0);
    return build;
  };

  test('go when they are older, packed or not, and say so; their builds stay', async () => {
    const { db, blobs } = service.store;
    const [short, long] = [await finished('said in short\n'), await finished('said at length\n')];
    await packLog(db, blobs, long.id);
    const { task, path } = await runningBuild(alice, runner);
    await task.writeLog('not over\n');
    assert.equal(await forgetAfter(0, 10_000), 0, 'by default all are kept');
    assert.equal(await forgetAfter(7, 6), 0);
    assert.ok((await forgetAfter(7, 8)) >= 2);
    for (const build of [short, long]) {
      const log = await alice.get(`${build.path}/log.txt`);
      assert.deepEqual([log.status, log.text], [200, 'This log was deleted: this server stores logs for 7 days.\n']);
      assert.equal((await alice.get(build.path)).record.build_state, 'passed');
      assert.equal((await alice.get(`${build.path}/log`)).record.complete, true);
    }
    assert.equal(await collectBlobs(db, blobs, -1000), 1);
    assert.equal((await alice.get(`${path}/log.txt`)).text, 'not over\n');
    await task.exit(0);
    assert.equal(await forgetAfter(7, 8), 1, 'that one; what is gone is not looked at again');
  });

  test('count from their end: what was begun again is as old as its last end', async () => {
    const { db } = service.store;
    const { task, dependency } = await compiling(alice, runner);
    await task.writeLog('compiled\n');
    await compiled(runner, task, 'result');
    const aged = { completed_at: BigInt(Date.now() - 100 * day) };
    await db.transaction((trx) => trx.updateTable('logs').set(aged).where('id', '=', dependency.id).execute());
    assert.equal(await forgetAfter(7, 0), 0, 'its record is young, so nothing that it said can be old');
    assert.equal(await forgetAfter(7, 8), 1);
    assert.match((await alice.get(`/dependencies/${dependency.id}/log.txt`)).text, /^This log was deleted/);
  });
});
