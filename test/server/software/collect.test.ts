import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { before, mock, test } from 'node:test';
import { collectBlobs, removeDoomedBlobs } from '../../../src/server/software/collect.ts';
import { claim } from '../../../src/server/queue/claims.ts';
import { enqueue, remove } from '../../../src/server/queue/queue.ts';
import { forgetTurns } from '../../../src/server/queue/account-turns.ts';
import { findLog } from '../../../src/server/streams/logs.ts';
import { packLog } from '../../../src/server/streams/pack-log.ts';
import { compiled, compiling, compilingAgain } from '../../support/compiling.ts';
import { assertDestroyed } from '../../support/expect.ts';
import { describeWithRunner } from '../../support/runner.ts';
import { runningBuild } from '../../support/running-build.ts';
import type { User } from '../../support/user.ts';

describeWithRunner('a blob without references', (service, runner) => {
  let alice: User;
  before(async () => {
    alice = await service.user();
  });

  // What is still being written, by the server that packs logs beside the test, has another kind of name.
  const blobs = (): string[] =>
    readdirSync(join(service.folder, 'blobs'), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && /^[0-9a-f]{64}$/.test(entry.name))
      .map((entry) => entry.name);
  /** Everything that is there by now is old enough. */
  const collect = (): Promise<number> => collectBlobs(service.store.db, service.store.blobs, -1000);

  test('is collected: replaced and deleted archives and results', async () => {
    const { task, dependency, path } = await compiling(alice, runner);
    const first = await compiled(runner, task, 'first result');
    assert.equal(await collect(), 0);
    const again = await compilingAgain(alice, runner, dependency);
    assert.equal(await collect(), 0, 'the archive is the same, and the first result serves');
    const second = await compiled(runner, again.task, 'second result');
    assert.equal(await collect(), 1);
    assert.ok(!blobs().includes(first) && blobs().includes(second));
    assertDestroyed(await alice.delete(path));
    assert.equal(await collect(), 2);
    assert.deepEqual(blobs(), []);
  });

  test('is collected: logs of deleted projects', async () => {
    const { project, task, id } = await runningBuild(alice, runner);
    await task.writeLog('much\n');
    await task.exit(0);
    await packLog(service.store.db, service.store.blobs, id);
    assert.equal(await collect(), 0);
    assert.equal(blobs().length, 1);
    assertDestroyed(await alice.delete(`/projects/${project.id}`));
    await collect(); // or the server, which removes these by itself
    assert.deepEqual(blobs(), []);
  });

  test('goes with a deleted project at once, but for what another log says too', async () => {
    const { db, blobs: store } = service.store;
    const packed = async (said: string) => {
      const { project, task, id } = await runningBuild(alice, runner);
      await task.writeLog(said);
      await task.exit(0);
      await packLog(db, store, id);
      return { path: `/projects/${project.id}`, id };
    };
    const digestOf = async (id: bigint): Promise<string> => (await findLog(db.read, id))?.blob ?? '';
    const [first, second, alone] = [await packed('the same\n'), await packed('the same\n'), await packed('alone\n')];
    const [said, sole] = [await digestOf(second.id), await digestOf(alone.id)];
    for (const { path } of [first, alone]) assertDestroyed(await alice.delete(path));
    await removeDoomedBlobs(db, store);
    assert.deepEqual([blobs().includes(said), blobs().includes(sole)], [true, false]);
    const pack = { kind: 'pack_log', subjectId: 1n, accountId: 1n };
    const claiming = { holder: 'another server', kinds: ['pack_log'], seconds: 60, turn: 1n };
    const job = await db.transaction(async (trx) => {
      await enqueue(db, trx, service.store.ids, pack);
      return claim(db, trx, claiming);
    });
    assert.ok(typeof job === 'object');
    assertDestroyed(await alice.delete(second.path));
    await removeDoomedBlobs(db, store);
    assert.ok(blobs().includes(said), 'somebody may be about to refer to it');
    await db.transaction((trx) => remove(db, trx, job));
    await removeDoomedBlobs(db, store);
    assert.ok(!blobs().includes(said));
    const doomed = db.read.selectFrom('doomed_blobs').selectAll().where('remove_after', '=', 0n);
    assert.deepEqual(await doomed.execute(), []);
  });

  test('stays while it is young: somebody may be about to refer to it', async () => {
    const { blobs: store, db } = service.store;
    async function* content(): AsyncGenerator<Buffer> {
      yield Buffer.from('about to be referred to');
    }
    const { digest } = await store.put(content());
    assert.equal(await collectBlobs(db, store), 0);
    const real = Date.now.bind(Date);
    const clock = mock.method(Date, 'now', () => real() + 5 * 3_600_000);
    assert.equal(await collectBlobs(db, store).finally(() => clock.mock.restore()), 0, 'also when the clock was set');
    assert.deepEqual(blobs(), [digest]);
    assert.equal(await collect(), 1);
  });

  test('is forgotten: turns in the queue of accounts that have nothing in it', async () => {
    const { db } = service.store;
    const turns = async (): Promise<number> => (await db.read.selectFrom('queue_turns').selectAll().execute()).length;
    const { task } = await compiling(alice, runner);
    await forgetTurns(db);
    assert.equal(await turns(), 1);
    await task.finish({ kind: 'uncompilable' });
    await forgetTurns(db);
    assert.equal(await turns(), 0);
    await (await compiling(alice, runner)).task.finish({ kind: 'uncompilable' });
  });
});
