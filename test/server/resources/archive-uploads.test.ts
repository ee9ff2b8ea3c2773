import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { most } from '../../../src/shared/domain/bounds.ts';
import { forgetOldArchiveUploads } from '../../../src/server/software/archive-uploads.ts';
import { removeDoomedBlobs } from '../../../src/server/software/collect.ts';
import { testsOnOne } from '../../support/databases.ts';
import type { Answer, Record_ } from '../../support/client.ts';
import { assertDestroyed, assertRefused } from '../../support/expect.ts';
import { describeWithRunner } from '../../support/runner.ts';
import { archiveOf } from '../../support/software.ts';
import type { User } from '../../support/user.ts';

const unavailable = { generic: ['resource_temporary_unavailable'] };
const notFound = { generic: ['not_found'] };
/** More than one part. */
const enough = 5_500_000;
const type = 'application/partial-upload';
const offsetOf = ({ headers }: Answer): number => Number(headers['upload-offset']);

describeWithRunner('an upload in several requests', (service, runner, database) => {
  const testOnOne = testsOnOne(database);
  let alice: User;
  let archive: Buffer;
  let digest: string;
  before(async () => {
    alice = await service.user();
    archive = await archiveOf({ noise: randomBytes(12_000_000).toString('latin1') }, 'tar');
    digest = createHash('sha256').update(archive).digest('hex');
  });

  const begin = async (size = archive.length, dependency?: Record_) => {
    const of = dependency ?? (await alice.createDependency());
    const answer = await alice.post(`/dependencies/${of.id}/uploads`, { size: BigInt(size) });
    assert.equal(answer.status, 201, answer.text);
    return { dependency: of, answer, path: `/dependencies/${of.id}/uploads/${answer.record.id}` };
  };
  const head = (path: string): Promise<Answer> => service.api.ask('HEAD', path, { as: alice.credentials });
  const send = (path: string, offset: number | string, body: Uint8Array, by = alice): Promise<Answer> =>
    service.api.ask('PATCH', path, {
      as: by.credentials,
      body,
      headers: { 'upload-offset': String(offset), 'content-type': type },
    });

  /** Sends all up to there of more that it promises, and breaks the connection when that is gone. */
  const breakOff = async (path: string, offset: number, end: number): Promise<void> => {
    const headers = {
      'upload-offset': String(offset),
      'content-type': type,
      'content-length': String(archive.length - offset),
    };
    const [request, answer] = service.api.begin(path, { as: alice.credentials, headers, method: 'PATCH' });
    // From its first part on the server reads what comes at once: what it was not told yet, it could not keep.
    request.write(archive.subarray(offset, offset + enough));
    while (offsetOf(await head(path)) === offset) await pause(10);
    const { promise: isSent, resolve } = Promise.withResolvers<void>();
    request.write(archive.subarray(offset + enough, end), () => resolve());
    await isSent;
    request.socket?.end();
    await answer.catch(() => {});
  };
  const parts = async (): Promise<string[]> =>
    (await service.store.db.read.selectFrom('archive_parts').select('digest').execute()).map((row) => row.digest);
  const assertTaken = async (dependency: Record_): Promise<void> => {
    const fetched = (await alice.get(`/dependencies/${dependency.id}`)).record;
    assert.deepEqual([fetched.archive_content_type, fetched.archive_file_size], ['application/x-tar', archive.length]);
    const task = await runner.take('compile_dependency');
    // A later test would get what nobody ends.
    await task.finish({ kind: 'uncompilable' });
    assert.equal(task.order.work.archive.digest, digest);
    await using blob = await service.store.blobs.open(digest);
    assert.ok((await blob.read(0, blob.size)).equals(archive));
  };

  testOnOne('goes on wherever the connection broke, and gives the same bytes', async () => {
    const { dependency, path, answer } = await begin();
    assert.equal(answer.headers.location, `${service.address}${path}`);
    assert.deepEqual([answer.record.offset, answer.record.size], [0, archive.length]);
    assert.match(String(answer.record.expires_at), /^\d{4}-.*\+00:00$/);
    let offset = 0;
    for (const more of [1, 70_000, 1_000_003]) {
      await breakOff(path, offset, offset + enough + more);
      offset += enough + more;
      // The server notices the break a moment later.
      while (offsetOf(await head(path)) < offset) await pause(10);
      const state = await head(path);
      assert.deepEqual([state.status, offsetOf(state), state.text], [200, offset, '']);
      assert.equal(state.headers['upload-complete'], '?0');
      assert.match(String(state.headers['upload-limit']), new RegExp(`^max-size=${archive.length}, max-age=\\d+$`));
    }
    const some = await send(path, offset, archive.subarray(offset, offset + 10_000));
    assert.deepEqual([some.status, offsetOf(some), some.headers['upload-complete']], [204, offset + 10_000, '?0']);
    const last = await send(path, offset + 10_000, archive.subarray(offset + 10_000));
    assert.deepEqual([last.status, last.record.marketplace_state], [200, 'enqueued_for_compile']);
    assert.deepEqual([last.record.id, last.record.archive_file_size], [dependency.id, archive.length]);
    await assertTaken(dependency);

    // Whoever did not hear that asks again, and hears it.
    assert.equal((await head(path)).headers['upload-complete'], '?1');
    assert.equal((await alice.get(path)).record.complete, true);
    const again = await send(path, archive.length, Buffer.alloc(0));
    assert.deepEqual([again.status, again.record.archive_file_size], [200, archive.length]);
    await runner.assertIdle();
    assert.deepEqual(await parts(), []);
    await removeDoomedBlobs(service.store.db, service.store.blobs, 0);
    const left = await Array.fromAsync(service.store.blobs.list());
    assert.deepEqual(
      left.map((blob) => blob.digest),
      [digest],
    );
  });

  test('that has all bytes and was not heard of is put together once, however many ask', async () => {
    const { dependency, path } = await begin();
    assert.equal((await send(path, 0, archive.subarray(0, -1))).status, 204);
    const answers = await Promise.all([1, 2, 3, 4].map(() => send(path, archive.length - 1, archive.subarray(-1))));
    assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200, 409]));
    await assertTaken(dependency);
    await runner.assertIdle();
  });

  test('at another offset is told the right one, and of two at once one counts', async () => {
    const { path, dependency } = await begin();
    const wrong = { upload_offset: ['invalid_format'] };
    assert.equal((await send(path, 0, archive.subarray(0, 80_000))).status, 204);
    for (const offset of [0, 79_999, 80_001, archive.length]) {
      const refused = await send(path, offset, archive.subarray(offset));
      assertRefused(refused, 409, wrong);
      assert.equal(offsetOf(refused), 80_000);
    }
    for (const offset of ['', 'x', '-1', '1e3', '9'.repeat(40)])
      assertRefused(await send(path, offset, archive), 403, wrong);
    const headers = { 'content-type': type };
    const unsaid = await service.api.ask('PATCH', path, { as: alice.credentials, body: archive, headers });
    assertRefused(unsaid, 403, { upload_offset: ['is_blank'] });
    const both = [1, 2].map(() => {
      const at = { ...headers, 'upload-offset': '80000' };
      return service.api.begin(path, { as: alice.credentials, headers: at, method: 'PATCH' });
    });
    for (const [request] of both) request.write(archive.subarray(80_000, 80_001));
    for (const [request] of both) request.end(archive.subarray(80_001, 90_000));
    const answers = await Promise.all(both.map(([, answer]) => answer));
    assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([204, 409]));
    assert.deepEqual(answers.map(offsetOf), [90_000, 90_000]);
    assert.equal((await send(path, 90_000, archive.subarray(90_000))).status, 200);
    await assertTaken(dependency);
  });

  testOnOne('has the type of a part, and what comes as anything else is none of it', async () => {
    const { path } = await begin();
    const form = 'multipart/form-data; boundary=x';
    for (const other of [undefined, form, 'application/octet-stream', 'application/x-tar', `${type}s`]) {
      const headers = { 'upload-offset': '0', ...(other !== undefined && { 'content-type': other }) };
      const refused = await service.api.ask('PATCH', path, { as: alice.credentials, body: archive, headers });
      assertRefused(refused, 415, { content_type: ['invalid_format'] });
      assert.equal(refused.headers['accept-patch'], type);
    }
    assert.equal(offsetOf(await head(path)), 0);
    const headers = { 'upload-offset': '0', 'content-type': 'Application/Partial-Upload ; x=y' };
    const some = { as: alice.credentials, body: archive.subarray(0, 80_000), headers };
    assert.equal((await service.api.ask('PATCH', path, some)).status, 204);
    assertDestroyed(await alice.delete(path));
  });

  testOnOne(
    'takes neither more bytes nor more parts than it may, nor what is no archive [promise: bounds]',
    async () => {
      const dependency = await alice.createDependency();
      const place = `/dependencies/${dependency.id}/uploads`;
      const { archiveBytes } = service.store;
      for (const size of ['0', '-1', '1.5', 'x', `${archiveBytes + 1}`, '9'.repeat(30)])
        assertRefused(await alice.post(place, { size }), 403, { size: ['invalid_format'] });
      assertRefused(await alice.post(place), 403, { size: ['is_blank'] });

      const { path } = await begin(100_000, dependency);
      const tooMuch = { archive: ['invalid_format'] };
      assertRefused(await send(path, 0, archive.subarray(0, 100_001)), 403, tooMuch);
      const headers = { 'upload-offset': '0', 'content-type': type };
      const [request, answer] = service.api.begin(path, { as: alice.credentials, headers, method: 'PATCH' });
      request.write(archive.subarray(0, 90_000));
      request.end(archive.subarray(90_000, 200_000));
      assertRefused(await answer, 403, tooMuch);
      assertRefused(await send(path, 0, randomBytes(70_000)), 403, tooMuch);
      assertRefused(await send(path, 0, Buffer.alloc(0)), 403, { archive: ['is_blank'] });
      assert.deepEqual([offsetOf(await head(path)), await parts()], [0, []]);

      assert.equal((await send(path, 0, archive.subarray(0, 70_000))).status, 204);
      const upload_id = BigInt(path.split('/').at(-1) ?? 0);
      const rows = Array.from({ length: most.archiveParts - 1 }, (_, at) => ({ upload_id, position: BigInt(-1 - at) }));
      await service.store.db.transaction(async (trx) => {
        for (let at = 0; at < rows.length; at += 500) {
          const some = rows.slice(at, at + 500).map((row) => ({ ...row, digest: 'f'.repeat(64) }));
          await trx.insertInto('archive_parts').values(some).execute();
        }
      });
      assertRefused(await send(path, 70_000, archive.subarray(70_000, 70_001)), 403, { generic: ['is_reserved'] });
      assert.equal(offsetOf(await head(path)), 70_000);
      assertDestroyed(await alice.delete(path));
      assert.deepEqual(await parts(), []);
    },
  );

  test('is not there for another account, nor under another dependency [promise: account-walls]', async () => {
    const mallory = await service.user();
    const { path } = await begin();
    const theirs = await mallory.createDependency();
    const under = path.replace(/\d+/, String(theirs.id));
    for (const place of [path, under]) {
      assertRefused(await mallory.get(place), 404, notFound);
      assertRefused(await send(place, 0, archive, mallory), 404, notFound);
      assertRefused(await mallory.delete(place), 404, notFound);
    }
    assertRefused(await mallory.post(path.replace(/\/\d+$/, ''), { size: 5n }), 404, notFound);
    assert.equal(offsetOf(await head(path)), 0);
  });

  test('ends after a day, with the next one, or when it is given up, and leaves nothing', async () => {
    const { db, blobs } = service.store;
    const { path, dependency } = await begin();
    const [request, answer] = service.api.begin(path, {
      as: alice.credentials,
      headers: { 'upload-offset': '0', 'content-type': type },
      method: 'PATCH',
    });
    request.write(archive.subarray(0, 5_000_000));
    while (offsetOf(await head(path)) === 0) await pause(10);
    const stored = await parts();
    const { path: next } = await begin(archive.length, dependency);
    request.end(archive.subarray(5_000_000));
    assertRefused(await answer, 404, notFound);
    assertRefused(await alice.get(path), 404, notFound);

    assert.equal((await send(next, 0, archive.subarray(0, 80_000))).status, 204);
    stored.push(...(await parts()));
    assert.equal(stored.length, 2);
    const day = 24 * 60 * 60 * 1000;
    await forgetOldArchiveUploads(db, Date.now() + day - 60_000);
    assert.equal(offsetOf(await head(next)), 80_000);
    await db.transaction(async (trx) => {
      const old = { created_at: BigInt(Date.now() - day) };
      await trx.updateTable('archive_uploads').set(old).where('dependency_id', '=', dependency.id).execute();
    });
    assertRefused(await alice.get(next), 404, notFound);
    assertRefused(await send(next, 80_000, archive.subarray(80_000)), 404, notFound);
    await forgetOldArchiveUploads(db);
    assert.deepEqual(await parts(), []);
    while ((await removeDoomedBlobs(db, blobs, 0)) > 0);
    const left = new Set((await Array.fromAsync(blobs.list())).map((blob) => blob.digest));
    assert.deepEqual(
      stored.filter((one) => left.has(one)),
      [],
    );
  });

  test('is not taken while another archive is compiled', async () => {
    const { path, dependency } = await begin();
    assert.equal((await send(path, 0, archive.subarray(0, 80_000))).status, 204);
    assert.equal((await alice.upload(dependency, archive)).status, 200);
    assertRefused(await send(path, 80_000, archive.subarray(80_000)), 403, unavailable);
    assertRefused(await alice.post(`/dependencies/${dependency.id}/uploads`, { size: 5n }), 403, unavailable);
    await (await runner.take('compile_dependency')).finish({ kind: 'uncompilable' });
    assert.equal((await send(path, 80_000, archive.subarray(80_000))).status, 200);
    await assertTaken(dependency);
  });
});
