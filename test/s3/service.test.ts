import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, afterEach, before, test } from 'node:test';
import { DeleteObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3';
import { isUnavailable } from '../../src/server/db/unavailable.ts';
import { frameHead } from '../../src/shared/domain/file-frames.ts';
import { collectBlobs, removeDoomedBlobs } from '../../src/server/software/collect.ts';
import { randomName } from '../../src/shared/lib/random-name.ts';
import { followsHeader } from '../../src/shared/protocol/index.ts';
import { openLink } from '../../src/runner/link.ts';
import { fetchBlob } from '../../src/runner/transfers.ts';
import { findLog } from '../../src/server/streams/logs.ts';
import { packLog } from '../../src/server/streams/pack-log.ts';
import type { Answer, Record_ } from '../support/client.ts';
import { compiled, compiling } from '../support/compiling.ts';
import { temporaryFolder } from '../support/databases.ts';
import { assertDestroyed, assertRefused } from '../support/expect.ts';
import { keepClaim, registered, type Registered } from '../support/registered.ts';
import { runningBuild } from '../support/running-build.ts';
import { describeInS3 } from '../support/s3-service.ts';
import { archiveOf } from '../support/software.ts';
import { Tab } from '../support/tab.ts';
import type { User } from '../support/user.ts';

const patient = new AbortController().signal;
const isGet = ({ method = '' }: { method?: string | undefined }): boolean => method === 'GET';

describeInS3('a service', (service, runner, behind, { kind }) => {
  let alice: User;
  let folder: string;
  let archive: Buffer;
  before(async () => {
    alice = await service.user();
    folder = temporaryFolder();
    archive = await archiveOf({ noise: randomBytes(9_000_000).toString('latin1') }, 'tar');
  });
  after(() => rmSync(folder, { recursive: true }));
  afterEach(() => behind.proxy.when(() => undefined));
  const keys = (): Promise<string[]> => behind.swift.keys(behind.bucket);
  const digests = async (): Promise<string[]> => (await keys()).map((key) => key.slice(-64)).toSorted();
  const sizeOfBucket = async (): Promise<number> => (await keys()).length;

  /** A runner elsewhere that has been told to compile the archive. */
  const ordered = async (): Promise<Registered & { digest: string; dependency: Record_ }> => {
    const dependency = await alice.createDependency();
    const answer = await alice.upload(dependency, archive);
    assert.equal(answer.status, 200, answer.text);
    const far = await registered(service);
    const claim = randomName();
    const order = await far.link.next({ claim }, patient);
    assert.ok(order?.work.kind === 'compile_dependency');
    await keepClaim(service, claim);
    return { ...far, digest: order.work.archive.digest, dependency };
  };
  const given = async ({ link, dependency }: Awaited<ReturnType<typeof ordered>>): Promise<void> => {
    link.close();
    assertDestroyed(await alice.delete(`/dependencies/${dependency.id}`));
  };

  test('hands a large archive to a runner by an address in S3, which sees nothing of ours and is not logged [promise: signed-addresses]', async () => {
    const far = await ordered();
    const heard: { url: string; headers: string }[] = [];
    behind.proxy.when(({ url = '', headers }) => {
      if (url.includes('X-Amz-Signature')) heard.push({ url, headers: JSON.stringify(headers) });
      return undefined;
    });
    const path = join(folder, randomName());
    await fetchBlob(far.link, far.digest, path, patient);
    assert.ok(readFileSync(path).equals(archive));
    assert.equal(heard.length, 1, 'once, and directly');
    assert.ok(
      !heard[0]?.headers.includes(far.token) && !/authorization|cookie|headrace/i.test(heard[0]?.headers ?? ''),
    );
    assert.ok(
      !service.log.includes('X-Amz-Signature') &&
        !service.log.includes(new URL(heard[0]?.url ?? '', 'http://x').search),
    );
    // From the middle, as after a lost connection.
    const pieces: Uint8Array[] = [];
    for await (const piece of (await far.link.read(far.digest, 3_000_000, patient)) ?? []) pieces.push(piece);
    assert.ok(Buffer.concat(pieces).equals(archive.subarray(3_000_000)));
    assert.equal(heard.length, 2);
    // Who holds no claim on it gets no address either.
    const other = await registered(service);
    const headers = { authorization: `Bearer ${other.token}`, [followsHeader]: 'yes' };
    const refused = await service.api.get(`/runner/blobs/${far.digest}`, { headers });
    assert.deepEqual([refused.status, refused.headers['location']], [404, undefined]);
    other.link.close();
    await given(far);
  });

  test('sends it through itself to a runner that does not follow: one of the version before', async () => {
    const far = await ordered();
    const headers = { authorization: `Bearer ${far.token}` };
    const answer = await service.api.get(`/runner/blobs/${far.digest}`, { headers });
    assert.equal(answer.status, 200);
    assert.equal(answer.headers['content-length'], String(archive.length));
    assert.equal(digestOf(answer.bytes), far.digest);
    await given(far);
  });

  /** What goes wrong between the service and S3 has nothing to do with the database. */
  const testOnce = (name: string, body: () => Promise<void>): void => void (kind === 'sqlite' && test(name, body));

  for (const [what, fault] of [
    ['cannot be reached from there', 'refused'],
    ['refuses the address', { status: 403 }],
    ['breaks off in the middle', { cutAnswerAfter: 2_000_000 }],
    ['answers with a page of something else', { status: 200, body: 'Sign in to the network', wrong: true }],
  ] as const) {
    testOnce(`gets the archive to a runner when S3 ${what}`, async () => {
      const far = await ordered();
      const notes: string[] = [];
      const ca = readFileSync(join(service.folder, 'tls', 'cert.pem'), 'utf8');
      const link = openLink({ url: service.address, token: far.token, ca }, { note: (note) => void notes.push(note) });
      behind.proxy.when(({ url = '' }) => (url.includes('X-Amz-Signature') ? fault : undefined));
      const path = join(folder, randomName());
      const fetching = fetchBlob(link, far.digest, path, patient);
      if (typeof fault === 'object' && 'wrong' in fault) {
        await assert.rejects(fetching, new RegExp(`blob ${far.digest} .* another digest`));
      } else {
        await fetching;
        assert.ok(readFileSync(path).equals(archive));
        assert.equal(notes.length, 1);
        assert.match(notes[0] ?? '', /through the server/);
        assert.ok(!/X-Amz|signature/i.test(notes.join()));
      }
      link.close();
      await given(far);
    });
  }

  testOnce(
    'stores and reads in spite of requests that fail: 503, cut on the way there, cut on the way back',
    async () => {
      const faults = [{ status: 503 }, { cutRequestAfter: 100_000 }, { cutAnswerAfter: 0 }] as const;
      let count = 0;
      const everyThird = (): void => {
        count = 0;
        behind.proxy.when(() => ((count += 1) % 3 === 0 ? faults[(count / 3) % 3] : undefined));
      };
      everyThird();
      const far = await ordered();
      assert.ok(count > 6, 'it took many requests');
      const headers = { authorization: `Bearer ${far.token}` };
      everyThird();
      const answer = await service.api.get(`/runner/blobs/${far.digest}`, { headers });
      assert.equal(digestOf(answer.bytes), far.digest);
      behind.proxy.when(() => undefined);
      // Its removal may have failed as often as it is tried: then the daily sweep has it.
      for (const Key of (await keys()).filter((key) => key.startsWith('ci/incoming/')))
        await behind.swift.client.send(new DeleteObjectCommand({ Bucket: behind.bucket, Key }));
      assert.deepEqual(await digests(), [far.digest]);
      await given(far);
    },
  );

  test('says that it is unavailable while S3 is away, loses nothing that it took, and goes on afterwards', async () => {
    const { task, id, path } = await runningBuild(alice, runner);
    const text = `${randomBytes(400_000).toString('hex')}\n`;
    await task.writeLog(text);
    await task.exit(0);
    const { db, blobs } = service.store;
    await packLog(db, blobs, id);
    const far = await ordered();
    const before = await digests();

    await behind.swift.objects('off');
    const dependency = await alice.createDependency();
    const refused = await alice.upload(dependency, archive);
    assertUnavailable(refused);
    assertUnavailable(await alice.get(`${path}/log`));
    assertUnavailable(await alice.get(`${path}/log.txt`));
    const headers = { authorization: `Bearer ${far.token}` };
    assert.equal((await service.api.get(`/runner/blobs/${far.digest}`, { headers })).status, 503);
    await assert.rejects(blobs.prove(), isUnavailable);
    const health = await service.api.get('/healthz');
    assert.equal(health.status, 503);
    assert.match(health.text, /blob storage/);
    // A runner waits, and has it when S3 is back.
    const file = join(folder, randomName());
    const fetching = fetchBlob(far.link, far.digest, file, patient);
    // What was said meanwhile is kept in the database, and packed later.
    const later = await runningBuild(alice, runner);
    await later.task.writeLog('said while S3 was away\n');
    await later.task.exit(0);
    await assert.rejects(packLog(db, blobs, later.id), isUnavailable);
    assert.match((await alice.get(`${later.path}/log`)).text, /said while S3 was away/);

    await behind.swift.objects('on');
    await fetching;
    assert.ok(readFileSync(file).equals(archive));
    await packLog(db, blobs, later.id);
    assert.match((await alice.get(`${later.path}/log`)).text, /said while S3 was away/);
    const middle = await service.api.get(`${path}/log.txt`, {
      as: alice.credentials,
      headers: { range: 'bytes=300000-300099' },
    });
    assert.deepEqual([middle.status, middle.text], [206, text.slice(300_000, 300_100)]);
    assert.equal((await alice.upload(dependency, archive)).status, 200);
    const said = (await findLog(db.read, later.id))?.blob ?? '';
    assert.deepEqual(await digests(), [...before, said].toSorted(), 'and nothing else is there');
    for (const one of [dependency, far.dependency]) await alice.delete(`/dependencies/${one.id}`);
    far.link.close();
    assert.doesNotMatch(service.log, /X-Amz-Signature|secret-of-the-writer/);
  });

  for (const [what, fault] of [
    ['is cut off in the middle of each part', { cutRequestAfter: 1_000_000 }],
    ['is refused', 'refused'],
  ] as const) {
    testOnce(`takes nothing of an upload whose way to S3 ${what}, and says so`, async () => {
      await collectBlobs(service.store.db, service.store.blobs, -1000);
      const before = await keys();
      behind.proxy.when(({ method, url = '' }) => (method === 'PUT' && url.includes('partNumber') ? fault : undefined));
      const dependency = await alice.createDependency();
      const answer = await alice.upload(dependency, archive);
      assertUnavailable(answer);
      behind.proxy.when(() => undefined);
      assert.deepEqual([await keys(), await behind.swift.uploads(behind.bucket)], [before, []]);
      await alice.delete(`/dependencies/${dependency.id}`);
    });
  }

  for (const [what, answer] of [
    ['a page', { status: 200, body: '<html>hello</html>' }],
    [
      'another length',
      { status: 206, body: 'abc', headers: { 'content-range': 'bytes 0-9/10', 'content-length': '3' } },
    ],
    ['more than was asked for', { status: 200, body: Buffer.alloc(3_000_000) }],
    ['an error that is none', { status: 500, body: '<<<' }],
  ] as const) {
    testOnce(`passes on no garbage when S3 answers with ${what}`, async () => {
      const { task, id, path } = await runningBuild(alice, runner);
      await task.writeLog(`${randomBytes(200_000).toString('hex')}\n`);
      await task.exit(0);
      await packLog(service.store.db, service.store.blobs, id);
      behind.proxy.when((request) => (isGet(request) ? answer : undefined));
      const got = await alice.get(`${path}/log`);
      assertUnavailable(got);
    });
  }

  testOnce('tells a blob whose content was changed from a good one', async () => {
    const far = await ordered();
    const Key = (await keys()).find((key) => key.endsWith(far.digest)) ?? '';
    const changed = Buffer.from(archive);
    changed[4_000_000] = (changed[4_000_000] ?? 0) ^ 1;
    await behind.swift.client.send(new PutObjectCommand({ Bucket: behind.bucket, Key, Body: changed }));
    const fetching = fetchBlob(far.link, far.digest, join(folder, randomName()), patient);
    await assert.rejects(fetching, /another digest/);
    await given(far);
  });

  testOnce('sends a browser that saves a long log to S3, and nobody else', async () => {
    const { task, id, path } = await runningBuild(alice, runner);
    const text = `${randomBytes(1_200_000).toString('hex')}\n`;
    for (let at = 0; at < text.length; at += 1_000_000) await task.writeLog(text.slice(at, at + 1_000_000));
    await task.exit(0);
    await packLog(service.store.db, service.store.blobs, id);
    const tab = new Tab(service);
    await tab.signIn(alice.credentials);
    const chromium = {
      'sec-fetch-site': 'same-origin',
      'sec-fetch-mode': 'navigate',
      'sec-ch-ua': '"Not:A-Brand";v="8", "Chromium";v="156"',
      'accept-encoding': 'gzip, deflate, br, zstd',
    };
    const sent = await tab.get(`/ui/data${path}/log.txt`, chromium);
    assert.equal(sent.status, 307, sent.text.slice(0, 200));
    const { location = '' } = sent.headers;
    assert.equal(new URL(location).origin, behind.proxy.endpoint);
    const saved = await fetch(location);
    assert.deepEqual(
      ['content-type', 'content-encoding', 'content-disposition'].map((name) => saved.headers.get(name)),
      ['text/plain; charset=utf-8', 'zstd', 'attachment; filename="log.txt"'],
    );
    assert.ok((await saved.text()) === text);
    assert.ok(!service.log.includes(new URL(location).search));
    // One that may unpack only a part, a script, somebody who wants a part, and who comes with a key.
    const { 'sec-ch-ua': _, ...unknown } = chromium;
    for (const headers of [
      unknown,
      { ...chromium, 'sec-fetch-mode': 'cors' },
      { ...chromium, 'accept-encoding': 'gzip' },
    ])
      assert.equal((await tab.get(`/ui/data${path}/log.txt`, headers)).status, 200);
    const part = await tab.get(`/ui/data${path}/log.txt`, { ...chromium, range: 'bytes=10-19' });
    assert.deepEqual([part.status, part.text], [206, text.slice(10, 20)]);
    const keyed = await service.api.get(`${path}/log.txt`, { as: alice.credentials, headers: chromium });
    assert.equal(keyed.status, 200);
    const stranger = new Tab(service);
    await stranger.signIn((await service.user()).credentials);
    const refused = await stranger.get(`/ui/data${path}/log.txt`, chromium);
    assert.deepEqual([refused.status, refused.headers['location']], [404, undefined]);
  });

  test('keeps in its bucket what is referred to and nothing else', async () => {
    const { db, blobs } = service.store;
    const { task, dependency } = await compiling(alice, runner);
    const result = await compiled(runner, task, 'a result');
    const build = await runningBuild(alice, runner);
    await build.task.writeLog('a log\n');
    await build.task.exit(0);
    await packLog(db, blobs, build.id);
    await collectBlobs(db, blobs, -1000);
    const logs = await db.read.selectFrom('logs').select('blob').where('blob', 'is not', null).execute();
    const dependencies = await db.read.selectFrom('dependencies').select(['archive', 'result']).execute();
    const referred = [...logs.map(({ blob }) => blob), ...dependencies.flatMap((one) => [one.archive, one.result])];
    assert.ok(referred.includes(result));
    assert.deepEqual(await digests(), [...new Set(referred.filter((digest) => digest !== null))].toSorted());
    assertDestroyed(await alice.delete(`/dependencies/${dependency.id}`));
    for (const project of (await alice.get('/projects')).list)
      assertDestroyed(await alice.delete(`/projects/${project.id}`));
    await removeDoomedBlobs(db, blobs);
    await collectBlobs(db, blobs, -1000);
    assert.deepEqual([await sizeOfBucket(), await behind.swift.uploads(behind.bucket)], [0, []]);
  });

  test('keeps the files of builds in S3: they come whole, in parts and as an archive', async () => {
    const { db, blobs } = service.store;
    const build = await runningBuild(alice, runner, { 'artifacts[]': 'dist' });
    const large = randomBytes(6_000_000);
    const files: [string, Buffer][] = [
      ['dist/large', large],
      ['dist/small', Buffer.from('small')],
    ];
    async function* framed(): AsyncGenerator<Buffer> {
      for (const [path, content] of files) yield* [frameHead('F', content.length, path), content];
    }
    assert.deepEqual(await build.task.keep(framed()), { kept: true });
    await build.task.exit(0);
    await collectBlobs(db, blobs, -1000);
    const list = (await alice.get(`${build.path}/artifacts`)).list.toSorted((a, b) => Number(b.size) - Number(a.size));
    const [first] = list;
    assert.deepEqual(
      list.map(({ path, sha256 }) => [path, sha256]),
      files.map(([path, content]) => [path, createHash('sha256').update(content).digest('hex')]),
    );
    for (const { sha256 } of list) assert.ok((await digests()).includes(String(sha256)));
    const at = { as: alice.credentials };
    const whole = await alice.api.get(`${build.path}/artifacts/${first?.id_str}`, at);
    assert.ok(whole.bytes.equals(large));
    const headers = { range: 'bytes=4000000-4000009' };
    const part = await alice.api.get(`${build.path}/artifacts/${first?.id_str}`, { ...at, headers });
    assert.deepEqual([part.status, part.bytes], [206, large.subarray(4_000_000, 4_000_010)]);
    const zip = await alice.api.get(`${build.path}/artifacts.zip`, at);
    assert.ok(zip.bytes.includes(large.subarray(0, 100_000)));
    behind.proxy.when((request) => (isGet(request) ? { status: 503, body: '' } : undefined));
    assertUnavailable(await alice.api.get(`${build.path}/artifacts/${first?.id_str}`, at));
  });

  testOnce('refuses to go where S3 sends it: an answer with another place is no address', async () => {
    const stranger = createServer((_, response) => response.end('mine now')).listen(0, '127.0.0.1');
    await once(stranger, 'listening');
    let visits = 0;
    stranger.on('request', () => (visits += 1));
    const location = `http://127.0.0.1:${(stranger.address() as AddressInfo).port}/`;
    behind.proxy.when(() => ({ status: 307, headers: { location } }));
    const answer = await alice.upload(await alice.createDependency(), archive);
    assertUnavailable(answer);
    assert.equal(visits, 0);
    stranger.close();
  });
});

function digestOf(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

function assertUnavailable(answer: Answer): void {
  assertRefused(answer, 403, { generic: ['resource_temporary_unavailable'] });
}
