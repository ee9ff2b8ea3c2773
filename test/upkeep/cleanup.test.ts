import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { Blobs } from '../../src/server/db/blobs.ts';
import type { Database } from '../../src/server/db/open.ts';
import { createMetrics } from '../../src/server/http/metrics.ts';
import { startUpkeep, upkeepTasks } from '../../src/server/upkeep.ts';
import { onEveryDatabase } from '../support/databases.ts';
import { samplesIn } from '../support/samples.ts';

const everyMs = 20;

onEveryDatabase((database) => {
  const begin = (db: Database, collect: Blobs['collect']) => {
    const told: { task?: unknown }[] = [];
    const metrics = createMetrics({ upkeepTasks });
    const upkeep = startUpkeep({
      store: { db, ids: { next: () => 1n }, blobs: { collect } as Partial<Blobs> as Blobs },
      config: { log_days: 1, artifact_days: 1, files_hours: 1 },
      log: { error: (what: { task?: unknown }) => void told.push(what) },
      onTask: metrics.cleanedUp,
      everyMs,
    });
    const samples = async () => {
      const read = samplesIn(await metrics.text({ connections: 0 }));
      return (task: string, outcome: string) =>
        read.get(`headrace_cleanup_runs_total{task="${task}",outcome="${outcome}"}`);
    };
    return { upkeep, told, samples, close: () => metrics.close() };
  };

  test('a task of the clean-up that fails is told of and counted, and all others are done', async () => {
    const db = await database.open();
    await db.transaction((trx) => trx.schema.dropTable('idempotency_keys').execute());
    const collected = Promise.withResolvers<void>();
    const { upkeep, told, samples, close } = begin(db, async () => (collected.resolve(), 0));
    await collected.promise;
    await upkeep.stop();
    close();
    assert.ok(told.length > 0 && told.every(({ task }) => task === 'idempotency_keys'), JSON.stringify(told));
    const runs = await samples();
    for (const task of upkeepTasks) {
      const isBroken = task === 'idempotency_keys';
      assert.equal((runs(task, 'failed') ?? 0) > 0, isBroken, task);
      assert.equal((runs(task, 'done') ?? 0) > 0, !isBroken, task);
    }
  });

  test('a clean-up that takes long is not begun twice, and the stop waits for its task and begins no other', async () => {
    const db = await database.open();
    const begun = Promise.withResolvers<void>();
    const go = Promise.withResolvers<void>();
    let [under, most] = [0, 0];
    const { upkeep, told, close } = begin(db, async (_, referredTo) => {
      most = Math.max(most, (under += 1));
      begun.resolve();
      await go.promise;
      under -= 1;
      await referredTo(['a'.repeat(64)]); // goes on only if nobody waits for the end
      assert.fail('the stop is heard between two steps');
    });
    await begun.promise;
    await pause(10 * everyMs);
    let isStopped = false;
    const stopping = upkeep.stop().then(() => (isStopped = true));
    await pause(2 * everyMs);
    assert.ok(!isStopped);
    go.resolve();
    await stopping;
    assert.deepEqual([under, most], [0, 1]);
    close();
    assert.deepEqual(told, [], 'a task that the stop ended has not failed');
  });
});
