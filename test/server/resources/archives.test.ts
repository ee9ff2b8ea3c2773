import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { run } from '../../../src/shared/lib/processes.ts';
import { testsOnOne } from '../../support/databases.ts';
import { assertFields, assertRefused } from '../../support/expect.ts';
import { describeWithRunner } from '../../support/runner.ts';
import { archiveOf, kinds } from '../../support/software.ts';
import type { User } from '../../support/user.ts';

const unavailable = { generic: ['resource_temporary_unavailable'] };
const uploaded =
  'id id_str name description command prefix source image archive_file_size launch_command marketplace_state';
const types = {
  tar: 'application/x-tar',
  'tar.gz': 'application/gzip',
  'tar.bz2': 'application/x-bzip2',
  'tar.xz': 'application/x-xz',
  'tar.zst': 'application/zstd',
  zip: 'application/zip',
};

interface Part {
  name: string;
  type: string;
  content: Buffer;
}

function form(boundary: string, ...parts: Part[]): Buffer {
  const encoded = parts.flatMap(({ name, type, content }) => [
    Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name="${name}"; filename="a; name=b"\r\n`),
    Buffer.from(`Content-Type: ${type}\r\n\r\n`),
    content,
    Buffer.from('\r\n'),
  ]);
  return Buffer.concat([...encoded, Buffer.from(`--${boundary}--\r\n`)]);
}

describeWithRunner('an archive', (service, runner, database) => {
  const testOnOne = testsOnOne(database);
  let alice: User;
  before(async () => {
    alice = await service.user();
  });

  /** The order to compile what was taken. It ends at once, because a later test would get what nobody ends. */
  const compile = async () => {
    const task = await runner.take('compile_dependency');
    await task.finish({ kind: 'uncompilable' });
    return task.order;
  };
  const blobs = (): string[] =>
    readdirSync(join(service.folder, 'blobs'), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => entry.name);

  test('is known by its bytes, whatever a client says by default', async () => {
    for (const kind of kinds) {
      const dependency = await alice.createDependency();
      const archive = await archiveOf({ hello: 'hello\n' }, kind);
      const said = kind === 'zip' ? {} : { 'content-type': 'application/x-www-form-urlencoded' };
      const answer = await alice.upload(dependency, archive, said);
      assert.equal(answer.status, 200, answer.text);
      assertFields(answer.record, uploaded);
      assert.equal(answer.record.archive_file_size, archive.length);
      assert.equal(answer.record.marketplace_state, 'enqueued_for_compile');
      const fetched = (await alice.get(`/dependencies/${dependency.id}`)).record;
      assert.deepEqual(
        [fetched.archive_content_type, fetched.archive_file_size, fetched.marketplace_state],
        [types[kind], archive.length, 'enqueued_for_compile'],
      );
      const { work } = await compile();
      assert.equal(work.archive.kind, kind);
      await using blob = await service.store.blobs.open(work.archive.digest);
      assert.deepEqual(await blob.read(0, blob.size), archive);
    }
  });

  testOnOne('is of the type that was said, where somebody said one', async () => {
    const dependency = await alice.createDependency();
    await alice.upload(dependency, await archiveOf({ x: '' }), { 'content-type': 'application/x-compressed-tar' });
    const fetched = (await alice.get(`/dependencies/${dependency.id}`)).record;
    assert.equal(fetched.archive_content_type, 'application/x-compressed-tar');
    await compile();
  });

  testOnOne('may be the file of a form', async () => {
    // With what looks like the end of the part, and the beginnings of it.
    const archive = await archiveOf({ a: `x\r\n--edg\r\n--edge`, b: '\r\n\r\n--' }, 'tar');
    const forms = [
      { type: 'application/octet-stream', known: types.tar },
      { type: 'application/x-special', known: 'application/x-special' },
    ];
    for (const { type, known } of forms) {
      for (const size of [1000, 1_000_000]) {
        const dependency = await alice.createDependency();
        const path = `/dependencies/${dependency.id}/archive`;
        const headers = { 'content-type': 'multipart/form-data; boundary="edge of it"' };
        const [request, answer] = service.api.begin(path, { as: alice.credentials, headers });
        const body = form('edge of it', { name: 'archive', type, content: archive });
        for (let at = 0; at < body.length; at += size) request.write(body.subarray(at, at + size));
        request.end();
        assert.equal((await answer).record.archive_file_size, archive.length);
        const fetched = (await alice.get(`/dependencies/${dependency.id}`)).record;
        assert.deepEqual([fetched.archive_content_type, fetched.archive_file_size], [known, archive.length]);
        const { work } = await compile();
        await using blob = await service.store.blobs.open(work.archive.digest);
        assert.deepEqual(await blob.read(0, blob.size), archive);
      }
    }
  });

  testOnOne('is what curl sends with -F', async () => {
    const dependency = await alice.createDependency();
    const archive = await archiveOf({ large: randomBytes(3_000_000).toString('hex') });
    const file = join(service.folder, 'sent; name="x".tar.gz');
    writeFileSync(file, archive);
    const { email, api_key: key } = alice.credentials;
    const curl = await run('curl', [
      '-sS',
      '--cacert',
      join(service.folder, 'tls', 'cert.pem'),
      '--user',
      `${email}:${key}`,
      '--form',
      `archive=@"${file.replaceAll('"', '\\"')}"`,
      `${service.address}/dependencies/${dependency.id}/archive`,
    ]);
    assert.equal(curl.status, 0, curl.stderr.toString());
    const { response } = JSON.parse(curl.stdout.toString()) as { response: Record<string, unknown> };
    assert.deepEqual(
      [response.archive_file_size, response.marketplace_state],
      [archive.length, 'enqueued_for_compile'],
    );
    assert.equal((await alice.get(`/dependencies/${dependency.id}`)).record.archive_content_type, types['tar.gz']);
    const { work } = await compile();
    assert.equal(work.archive.digest, createHash('sha256').update(archive).digest('hex'));
  });

  testOnOne('in a form that holds none, or more, is refused by name, and leaves nothing', async () => {
    const dependency = await alice.createDependency();
    const before = blobs();
    const archive = { name: 'archive', type: 'application/gzip', content: await archiveOf({ x: 'x'.repeat(100_000) }) };
    const whole = form('edge', archive);
    const headers = { 'content-type': 'multipart/form-data; boundary=edge' };
    const refused: [Buffer, Record<string, string[]>][] = [
      [form('edge'), { archive: ['is_blank'] }],
      [form('edge', { ...archive, content: Buffer.alloc(0) }), { archive: ['is_blank'] }],
      [form('edge', { ...archive, content: Buffer.from('no archive') }), { archive: ['invalid_format'] }],
      [form('edge', { ...archive, name: 'file' }), { file: ['invalid_format'] }],
      [form('edge', { ...archive, name: '__proto__' }), JSON.parse('{"__proto__":["invalid_format"]}')],
      [form('edge', archive, { ...archive, name: 'prefix' }), { prefix: ['invalid_format'] }],
      [form('edge', archive, archive), { archive: ['invalid_format'] }],
      [form('other', archive), { generic: ['invalid_format'] }],
      [whole.subarray(0, -8), { generic: ['invalid_format'] }],
      [archive.content, { generic: ['invalid_format'] }],
      [Buffer.from(`--edge\r\n${'x'.repeat(100_000)}`), { generic: ['invalid_format'] }],
      [Buffer.alloc(0), { generic: ['invalid_format'] }],
    ];
    for (const [body, fields] of refused) {
      assertRefused(await alice.upload(dependency, body, headers), 403, fields);
    }
    const unnamed = { 'content-type': 'multipart/form-data' };
    assertRefused(await alice.upload(dependency, whole, unnamed), 403, { generic: ['invalid_format'] });
    assert.deepEqual(blobs(), before);
    assert.equal((await alice.upload(dependency, whole, headers)).status, 200);
    await compile();
  });

  testOnOne('that is none is refused, and the dependency stays as it was', async () => {
    const dependency = await alice.createDependency();
    const before = blobs();
    const invalid = { archive: ['invalid_format'] };
    const none = [Buffer.from('no archive\n'), Buffer.alloc(100_000, 7), Buffer.alloc(1024), gzipSync('no tar\n')];
    for (const body of none) assertRefused(await alice.upload(dependency, body), 403, invalid);
    assertRefused(await alice.upload(dependency, Buffer.alloc(0)), 403, { archive: ['is_blank'] });
    const fetched = (await alice.get(`/dependencies/${dependency.id}`)).record;
    assert.deepEqual([fetched.marketplace_state, fetched.archive_file_size], ['waiting_archive_upload', null]);
    assert.deepEqual(blobs(), before);
    await runner.assertIdle();
  });

  testOnOne('may come in chunks, and be larger than any other body', async () => {
    const dependency = await alice.createDependency();
    const archive = await archiveOf({ large: 'x'.repeat(3_000_000) }, 'tar');
    const [request, answer] = service.api.begin(`/dependencies/${dependency.id}/archive`, { as: alice.credentials });
    for (let at = 0; at < archive.length; at += 100_001) request.write(archive.subarray(at, at + 100_001));
    request.end();
    assert.equal((await answer).record.archive_file_size, archive.length);
    await compile();
  });

  testOnOne('that is cut off leaves nothing', async () => {
    const dependency = await alice.createDependency();
    const before = blobs();
    const archive = await archiveOf({ large: 'x'.repeat(3_000_000) }, 'tar');
    const lengths = [{}, { 'content-length': String(archive.length) }];
    for (const headers of lengths) {
      const path = `/dependencies/${dependency.id}/archive`;
      const [request] = service.api.begin(path, { as: alice.credentials, headers });
      request.write(archive.subarray(0, 2_000_000));
      while (blobs().length === before.length) await pause(5);
      request.destroy();
      while (blobs().length !== before.length) await pause(5);
    }
    const fetched = (await alice.get(`/dependencies/${dependency.id}`)).record;
    assert.deepEqual([fetched.marketplace_state, fetched.archive_file_size], ['waiting_archive_upload', null]);
    assert.deepEqual(blobs(), before);
    assert.equal((await alice.upload(dependency, archive)).status, 200);
    await compile();
  });

  test('is not taken while another one waits or is compiled', async () => {
    const dependency = await alice.createDependency();
    const archive = await archiveOf({ x: '' });
    assert.equal((await alice.upload(dependency, archive)).status, 200);
    assertRefused(await alice.upload(dependency, archive), 403, unavailable);
    const task = await runner.take('compile_dependency');
    assertRefused(await alice.upload(dependency, archive), 403, unavailable);
    await task.finish({ kind: 'uncompilable' });
    assert.equal((await alice.upload(dependency, archive)).status, 200);
    await compile();
  });

  test('of two that arrive at once, one is taken', async () => {
    const dependency = await alice.createDependency();
    const archive = await archiveOf({ large: 'y'.repeat(1_000_000) }, 'tar');
    const path = `/dependencies/${dependency.id}/archive`;
    const both = [1, 2].map(() => service.api.begin(path, { as: alice.credentials }));
    const present = blobs().length;
    for (const [request] of both) request.write(archive.subarray(0, -1));
    while (blobs().length < present + 2) await pause(5);
    for (const [request] of both) request.end(archive.subarray(-1));
    const answers = await Promise.all(both.map(([, answer]) => answer));
    assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200, 403]));
    await compile();
    await runner.assertIdle();
  });
});
