import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { isUnavailable } from '../../../src/server/db/unavailable.ts';
import { frameHead } from '../../../src/shared/domain/file-frames.ts';
import { removeDoomedBlobs } from '../../../src/server/software/collect.ts';
import type { Stored } from '../../../src/shared/protocol/index.ts';
import { compiled, compiling } from '../../support/compiling.ts';
import { assertDestroyed } from '../../support/expect.ts';
import { describeWithRunner, type ScriptedRunner, type Task } from '../../support/runner.ts';
import { runningBuild } from '../../support/running-build.ts';
import { describeInS3 } from '../../support/s3-service.ts';
import type { Service } from '../../support/service.ts';
import type { User } from '../../support/user.ts';

const megabyte = 1024 * 1024;
/** More than one part of an upload to S3. */
const most = 9 * megabyte;
const limits = { unpackedBytes: most, cacheBytes: most };

/**
 * What a hostile runner tries with what it may store. `unfinished` tells what is neither a blob nor removed. The sums of
 * accounts do not depend on the store, and are tried where it is fast.
 */
function attacks(service: Service, runner: ScriptedRunner, unfinished: () => Promise<string[]>, isFast = false): void {
  let alice: User;
  before(async () => {
    alice = await service.user();
  });
  const blobs = async (): Promise<Map<string, number>> => {
    const found = new Map<string, number>();
    for await (const { digest, size } of service.store.blobs.list()) found.set(digest, size);
    return found;
  };
  const store = ({ order }: Task, content: AsyncIterable<Uint8Array>): Promise<Stored> =>
    runner.dispatch.store(runner.self, order.claim, content);
  const stored = async (task: Task, content: Buffer): Promise<string> => {
    const answer = await store(task, once(content));
    assert.ok('digest' in answer, JSON.stringify(answer));
    return answer.digest;
  };
  const removeDoomed = (): Promise<number> => removeDoomedBlobs(service.store.db, service.store.blobs, -1000);
  const cached = { 'cache[]': 'deps' };

  test('is ended at the limit of its order, and nothing of it stays [promise: runner-blobs]', async () => {
    const tasks: Task[] = [(await compiling(alice, runner)).task, (await runningBuild(alice, runner, cached)).task];
    const before_ = await blobs();
    for (const task of tasks) {
      let sent = 0;
      async function* endless(): AsyncGenerator<Buffer> {
        for (const piece = randomBytes(megabyte); ; sent += piece.length) yield piece;
      }
      assert.deepEqual(await store(task, endless()), { refused: 'too_large' });
      assert.ok(sent <= most + megabyte, `${sent} bytes were read`);
      assert.deepEqual(await unfinished(), []);
    }
    assert.deepEqual(await blobs(), before_);
    for (const task of tasks) await task.finish({ kind: 'cancelled' });
  });

  test('has the size that the server counted, whatever is said of it [promise: runner-blobs]', async () => {
    const first = await runningBuild(alice, runner, cached);
    const caches = async (): Promise<unknown[]> =>
      (await alice.get(`/projects/${first.project.id}/caches`)).list.map(({ size }) => size);
    const digest = await stored(first.task, randomBytes(200_000));
    await first.task.finish({ kind: 'exited', status: 0, cache: { digest } });
    assert.deepEqual(await caches(), [200_000]);
    await alice.requestBuild(first.project);
    await (await runner.take('fetch_commit')).fetched();
    const task = await runner.take('run_suite');
    const next = { digest: await stored(task, randomBytes(100_000)), bytes: 1 };
    await task.finish({ kind: 'exited', status: 0, cache: next });
    assert.deepEqual(await caches(), [100_000]);
  });

  test('is one for each claim: the last, and one at a time [promise: runner-blobs]', async () => {
    const { task } = await compiling(alice, runner);
    const [first, second] = [await stored(task, randomBytes(1000)), await stored(task, randomBytes(1000))];
    const [begun, waits] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    async function* slow(): AsyncGenerator<Buffer> {
      begun.resolve();
      await waits.promise;
      yield Buffer.from('slow');
    }
    const third = store(task, slow());
    await begun.promise;
    await assert.rejects(store(task, once(randomBytes(1000))), isUnavailable);
    waits.resolve();
    const last = await third;
    assert.ok('digest' in last);
    await removeDoomed();
    const left = await blobs();
    assert.deepEqual([first, second, last.digest].map((digest) => left.has(digest)), [false, false, true]); // oxfmt-ignore
    await assert.rejects(task.finish({ kind: 'compiled', digest: second }));
    assert.deepEqual(await task.finish({ kind: 'compiled', digest: last.digest }), { taken: true });
    await removeDoomed();
    assert.ok((await blobs()).has(last.digest), 'the dependency has it');
  });

  test('is bounded with all that it replaced, until they are gone [promise: runner-blobs]', async () => {
    const { task } = await compiling(alice, runner);
    const size = most - megabyte;
    const kept: string[] = [];
    for (let count = 0; count < 2; count += 1) kept.push(await stored(task, randomBytes(size)));
    for (let count = 0; count < 5; count += 1)
      assert.deepEqual(await store(task, once(randomBytes(size))), { refused: 'too_large' });
    const held = await blobs();
    assert.ok(kept.every((digest) => held.has(digest)));
    await removeDoomed();
    kept.push(await stored(task, randomBytes(size)));
    await removeDoomed();
    await task.finish({ kind: 'uncompilable' });
    await removeDoomed();
    const left = await blobs();
    assert.deepEqual(kept.filter((digest) => left.has(digest)), []); // oxfmt-ignore
  });

  test(
    'is bounded for an account, whatever its number of claims, and others go on [promise: runner-blobs]',
    { skip: !isFast && 'done where blobs are in a folder' },
    async () => {
      const bob = await service.user();
      const tasks: Task[] = [];
      for (let count = 0; count < 18; count += 1) tasks.push((await compiling(alice, runner)).task);
      const counts = { stored: 0, refused: 0 };
      for (const task of tasks) {
        const content = randomBytes(most);
        const answer = await store(task, once(content)).then(
          () => 'stored' as const,
          (error: unknown) => {
            assert.ok(isUnavailable(error), String(error));
            return 'refused' as const;
          },
        );
        counts[answer] += 1;
      }
      assert.deepEqual(counts, { stored: 16, refused: 2 });
      const { task } = await compiling(bob, runner);
      assert.ok(await stored(task, randomBytes(most)));
      for (const one of [...tasks, task]) await one.finish({ kind: 'uncompilable' });
      const again = await compiling(alice, runner);
      await assert.rejects(stored(again.task, randomBytes(1000)), isUnavailable, 'they are not gone yet');
      await removeDoomed();
      assert.ok(await stored(again.task, randomBytes(1000)));
      await again.task.finish({ kind: 'uncompilable' });
      await removeDoomed();
    },
  );

  test('goes with the claim where no outcome names it [promise: runner-blobs]', async () => {
    const failed = await compiling(alice, runner);
    const deleted = await compiling(alice, runner);
    const lost = await runningBuild(alice, runner, { ...cached, 'artifacts[]': 'dist' });
    const unnamed = [
      await stored(failed.task, randomBytes(1000)),
      await stored(deleted.task, randomBytes(1000)),
      await stored(lost.task, randomBytes(1000)),
    ];
    const before_ = await blobs();
    const file = randomBytes(1000);
    assert.deepEqual(await lost.task.keep(once(Buffer.concat([frameHead('F', file.length, 'dist/a'), file]))), {
      kept: true,
    });
    const artifacts = [...(await blobs()).keys()].filter((digest) => !before_.has(digest));
    assert.equal(artifacts.length, 1);
    await removeDoomed();
    const held = await blobs();
    assert.ok([...unnamed, ...artifacts].every((digest) => held.has(digest)));

    await failed.task.finish({ kind: 'uncompilable' });
    assertDestroyed(await alice.delete(deleted.path));
    await lost.task.finish({ kind: 'lost', message: 'gone' });
    await removeDoomedBlobs(service.store.db, service.store.blobs);
    const young = await blobs();
    assert.ok(
      [...unnamed, ...artifacts].every((digest) => young.has(digest)),
      'somebody may be about to refer to it',
    );
    await removeDoomed();
    const left = await blobs();
    assert.deepEqual([...unnamed, ...artifacts].filter((digest) => left.has(digest)), []); // oxfmt-ignore
    await (await runner.take('run_suite')).exit(0);
  });

  test('stays where somebody else has stored the same [promise: runner-blobs]', async () => {
    const [one, other] = [await compiling(alice, runner), await compiling(alice, runner)];
    const content = randomBytes(1000).toString('hex');
    const digest = await stored(one.task, Buffer.from(content));
    await stored(other.task, Buffer.from(content));
    await one.task.finish({ kind: 'uncompilable' });
    await removeDoomed();
    assert.ok((await blobs()).has(digest), 'it is stored under another claim');
    assert.equal(await compiled(runner, other.task, content), digest);
    await removeDoomed();
    assert.ok((await blobs()).has(digest));
  });

  test('is not taken once the claim has ended, also where it only comes slowly [promise: runner-blobs]', async () => {
    const { task } = await compiling(alice, runner);
    const before_ = await blobs();
    async function* stuck(): AsyncGenerator<Buffer> {
      yield randomBytes(megabyte);
      await new Promise(() => {}); // nothing arrives any more, and the connection stays
    }
    const storing = store(task, stuck());
    await task.finish({ kind: 'uncompilable' });
    assert.deepEqual(await storing, { gone: true });
    assert.deepEqual(await store(task, once(Buffer.from('late'))), { gone: true });
    assert.deepEqual([await blobs(), await unfinished()], [before_, []]);
  });
}

async function* once(content: Buffer): AsyncGenerator<Buffer> {
  yield content;
}

describeWithRunner(
  'a blob of a runner in a folder',
  (service, runner) => {
    const incoming = (): string => join(service.folder, 'blobs', 'incoming');
    attacks(
      service,
      runner,
      async () =>
        readdirSync(incoming(), { recursive: true, withFileTypes: true })
          .filter((entry) => entry.isFile())
          .map(({ name }) => name),
      true,
    );
  },
  limits,
);

describeInS3(
  'a blob of a runner in S3',
  (service, runner, behind) => {
    attacks(service, runner, async () => {
      const keys = await behind.swift.keys(behind.bucket);
      return [...keys.filter((key) => !/\/[0-9a-f]{64}$/.test(key)), ...(await behind.swift.uploads(behind.bucket))];
    });
  },
  limits,
);
