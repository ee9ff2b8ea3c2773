import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { frameHead } from '../../../src/shared/domain/file-frames.ts';
import { run } from '../../../src/shared/lib/processes.ts';
import { forgetOldArtifacts } from '../../../src/server/outputs/artifacts.ts';
import { collectBlobs } from '../../../src/server/software/collect.ts';
import type { Answer, Record_ } from '../../support/client.ts';
import { temporaryFolder, testsOnOne } from '../../support/databases.ts';
import { assertDestroyed, assertNotFound, assertRefused } from '../../support/expect.ts';
import { describeWithRunner, type ScriptedRunner } from '../../support/runner.ts';
import { runningBuild, type RunningBuild } from '../../support/running-build.ts';
import type { User } from '../../support/user.ts';

type Files = [path: string, content: string | Buffer][];

const day = 24 * 60 * 60 * 1000;
const sha256 = (content: string | Buffer): string => createHash('sha256').update(content).digest('hex');

async function* framed(files: Files, until = Infinity): AsyncGenerator<Buffer> {
  const bytes = Buffer.concat(
    files.flatMap(([path, content]) => [frameHead('F', Buffer.byteLength(content), path), Buffer.from(content)]),
  );
  for (let at = 0; at < Math.min(bytes.length, until); at += 100_000)
    yield bytes.subarray(at, Math.min(at + 100_000, until));
}

const limits = { mostFiles: 300, mostBytes: 10_000_000 };

describeWithRunner(
  'the artifacts of a build',
  (service, runner, database) => {
    const testOnOne = testsOnOne(database);
    let alice: User;
    before(async () => {
      alice = await service.user();
    });
    const begin = (from: ScriptedRunner = runner): Promise<RunningBuild> =>
      runningBuild(alice, from, { 'artifacts[]': 'dist\n*.log' });
    const listed = async ({ path }: RunningBuild): Promise<Record_[]> => (await alice.get(`${path}/artifacts`)).list;
    const paths = async (build: RunningBuild): Promise<string[]> =>
      (await listed(build)).map(({ path }) => String(path)).toSorted();
    const kept = async (files: Files): Promise<RunningBuild> => {
      const build = await begin();
      assert.deepEqual(await build.task.keep(framed(files)), { kept: true });
      await build.task.exit(0);
      return build;
    };
    const download = async (build: RunningBuild, headers: Record<string, string> = {}): Promise<Answer> => {
      const [file] = await listed(build);
      return alice.api.get(`${build.path}/artifacts/${file?.id_str}`, { as: alice.credentials, headers });
    };

    test('are what the suite asks for, and are listed with their facts', async () => {
      const build = await begin();
      assert.deepEqual(build.task.order.work.artifacts, { globs: ['dist', '*.log'], ...limits });
      assert.deepEqual(await listed(build), []);
      const page = '<script>alert(1)</script>';
      const files: Files = [['dist/app.js', 'let x;'], ['dist/index.html', page], ['noise', randomBytes(700_000)]]; // oxfmt-ignore
      assert.deepEqual(await build.task.keep(framed(files)), { kept: true });
      await build.task.exit(1);
      const list = await listed(build);
      assert.deepEqual(
        list
          .map(({ path, size, sha256: digest, content_type: type }) => ({
            path,
            size,
            sha256: digest,
            content_type: type,
          }))
          .toSorted((a, b) => (String(a.path) < String(b.path) ? -1 : 1)),
        files.map(([path, content]) => ({
          path,
          size: content.length,
          sha256: sha256(content),
          content_type: path === 'noise' ? 'application/octet-stream' : 'text/plain; charset=utf-8',
        })),
      );
      const some = await alice.get(`${build.path}/artifacts?limit=2`);
      assert.equal(some.list.length, 2);
      assert.match(String(some.headers.link), /rel="next"/);
    });

    test('are no fields of a suite that does not keep any', async () => {
      const { task } = await runningBuild(alice, runner);
      assert.ok(!('artifacts' in task.order.work));
      await task.exit(0);
      const project = await alice.createProject();
      const suites = `/projects/${project.id}/suites`;
      const refused = await alice.post(suites, { name: 'x', command: 'x', 'artifacts[]': '../secret' });
      assertRefused(refused, 403, { artifacts: ['invalid_format'] });
      const suite = (
        await alice.post(suites, { name: 'x', command: 'x', 'artifacts[]': 'a b\r\n\r\n**/*.{log,txt}\na b' })
      ).record;
      assert.deepEqual(suite.artifacts, ['a b', '**/*.{log,txt}']);
      const changed = await alice.put(`${suites}/${suite.id}`, { description: 'y' });
      assert.deepEqual(changed.record.artifacts, ['a b', '**/*.{log,txt}']);
      assert.deepEqual((await alice.put(`${suites}/${suite.id}`, { 'artifacts[]': '' })).record.artifacts, []);
    });

    testOnOne('are downloads that no browser runs [promise: artifact-downloads]', async () => {
      const page = '<script>alert(1)</script>';
      for (const name of ['a/evil.html', 'evil.svg', 'evil.xml', 'evil.js', 'EVIL.XHTML', 'no ending', 'x.__proto__']) {
        const answer = await download(await kept([[name, page]]));
        assert.equal(answer.text, page);
        const { headers } = answer;
        assert.match(String(headers['content-type']), /^(text\/plain; charset=utf-8|application\/octet-stream)$/);
        assert.match(
          String(headers['content-disposition']),
          /^attachment; filename="[A-Za-z_. ]+"; filename\*=UTF-8''[\w.%]+$/,
        );
        assert.equal(headers['x-content-type-options'], 'nosniff');
        assert.match(String(headers['content-security-policy']), /default-src 'none'.*sandbox/);
        assert.equal(headers['content-length'], String(page.length));
      }
    });

    testOnOne('come in parts, and not again to who has them', async () => {
      const content = randomBytes(3_000_000);
      const build = await kept([['large.bin', content]]);
      const whole = await download(build);
      assert.deepEqual(whole.bytes, content);
      const { etag = '' } = whole.headers;
      assert.equal(etag, `"${sha256(content)}"`);
      const part = await download(build, { range: 'bytes=1000000-2999998', 'if-range': etag });
      assert.deepEqual([part.status, part.headers['content-range']], [206, 'bytes 1000000-2999998/3000000']);
      assert.deepEqual(part.bytes, content.subarray(1_000_000, 2_999_999));
      assert.equal((await download(build, { range: 'bytes=0-0', 'if-range': '"another"' })).status, 200);
      assert.equal((await download(build, { range: 'bytes=3000000-' })).status, 416);
      assert.equal((await download(build, { 'if-match': `"x", ${etag}` })).status, 200);
      for (const other of ['"x"', `W/${etag}`])
        assert.equal((await download(build, { 'if-match': other })).status, 412);
      const again = await download(build, { 'if-none-match': `"x", ${etag}` });
      assert.deepEqual([again.status, again.bytes.length, again.headers.etag], [304, 0, etag]);
      assert.equal((await download(await kept([['empty', '']]))).bytes.length, 0);
    });

    testOnOne('come as one archive', async () => {
      const folder = temporaryFolder();
      const files: Files = [['dist/ü.txt', 'one'], ['..evil', 'two'], ['a\\..\\b', 'three'], ['noise', randomBytes(2_000_000)]]; // oxfmt-ignore
      const build = await kept(files);
      const archive = await alice.get(`${build.path}/artifacts.zip`);
      assert.equal(archive.headers['content-type'], 'application/zip');
      assert.equal(Number(archive.headers['content-length']), archive.bytes.length);
      assert.match(String(archive.headers['content-disposition']), /^attachment; filename="artifacts-\d+\.zip"/);
      writeFileSync(join(folder, 'a.zip'), archive.bytes);
      const read = `import sys, zipfile, hashlib, json
z = zipfile.ZipFile(sys.argv[1])
print(json.dumps({n: hashlib.sha256(z.read(n)).hexdigest() for n in z.namelist()}))`;
      const { stdout } = await run('python3', ['-c', read, join(folder, 'a.zip')]);
      const expected = files.map(([path, content]) => [path.replaceAll('\\', '_'), sha256(content)]);
      assert.deepEqual(JSON.parse(stdout.toString()), Object.fromEntries(expected));
      rmSync(folder, { recursive: true });
      const none = await alice.get(`${(await kept([])).path}/artifacts.zip`);
      assert.deepEqual([none.status, none.bytes.length], [200, 22]);
    });

    test('do not exist for another account [promise: account-walls]', async () => {
      const build = await kept([['secret', 'x']]);
      const [file] = await listed(build);
      const bob = await service.user();
      const own = await runningBuild(bob, runner);
      await own.task.exit(0);
      for (const path of ['/artifacts', `/artifacts/${file?.id}`, '.zip'].map((end) =>
        end.replace('.zip', '/artifacts.zip'),
      )) {
        assertNotFound(await bob.get(`${build.path}${path}`));
        if (path.includes(String(file?.id))) assertNotFound(await bob.get(`${own.path}${path}`));
      }
    });

    test('are kept once, however often they are sent', async () => {
      const build = await begin();
      const files: Files = [['a', 'one'], ['b', randomBytes(600_000)], ['c', 'three']]; // oxfmt-ignore
      await assert.rejects(build.task.keep(framed(files, 300_000)), /invalid_format|content/);
      assert.deepEqual(await paths(build), ['a']);
      assert.deepEqual(await build.task.keep(framed(files)), { kept: true });
      assert.deepEqual(await build.task.keep(framed(files)), { kept: true });
      assert.deepEqual(await build.task.keep(framed([['a', 'changed']])), { kept: true });
      assert.deepEqual(await paths(build), ['a', 'b', 'c']);
      assert.equal((await listed(build)).find(({ path }) => path === 'a')?.sha256, sha256('one'));
      await build.task.exit(0);
      assert.deepEqual(await build.task.keep(framed([['late', 'x']])), { gone: true });
      assert.deepEqual(await paths(build), ['a', 'b', 'c']);
    });

    test('stay within the limits, whatever a runner sends [promise: artifact-limits]', async () => {
      const build = await begin();
      const large = randomBytes(4_000_000);
      const files: Files = [['a', large], ['b', 'small'], ['c', large], ['d', large], ['e', 'never']]; // oxfmt-ignore
      assert.deepEqual(await build.task.keep(framed(files)), { refused: 'too_large' });
      assert.deepEqual(await paths(build), ['a', 'b', 'c']);
      const beside = Array.from({ length: 4 }, (_, at) =>
        build.task.keep(framed([[`beside ${at}`, randomBytes(1_500_000)]])),
      );
      const answers = await Promise.allSettled(beside);
      const taken = answers.filter((answer) => answer.status === 'fulfilled' && 'kept' in answer.value);
      assert.equal(taken.length, 1, JSON.stringify(answers));
      await build.task.exit(0);
      const many = await begin();
      const small: Files = Array.from({ length: 310 }, (_, at) => [`f${at}`, `${at}`]);
      assert.deepEqual(await many.task.keep(framed(small)), { refused: 'too_large' });
      assert.equal((await alice.get(`${many.path}/artifacts.zip`)).text.split('PK\x01\x02').length - 1, 300);
      await many.task.exit(0);
    });

    test('are taken from the runner that has the build, under its claim [promise: runner-claims]', async () => {
      const build = await begin();
      const stranger = runner.beside('stranger');
      const { claim } = build.task.order;
      assert.deepEqual(await stranger.dispatch.storeFiles(stranger.self, claim, framed([['a', 'x']])), { gone: true });
      assert.deepEqual(await runner.dispatch.storeFiles(runner.self, 'x'.repeat(20), framed([['a', 'x']])), {
        gone: true,
      });
      for (const path of ['../up', '/abs', 'a//b', 'a/./b', '', 'line\nbreak', 'turn\u202e', 'x'.repeat(1025)])
        await assert.rejects(build.task.keep(framed([[path, 'x']])), { message: /invalid_format|path/ }, path);
      assert.deepEqual(await listed(build), []);
      await build.task.exit(0);
    });

    test('of a build that is lost or cancelled are not kept', async () => {
      const lost = await begin();
      await lost.task.keep(framed([['a', 'x']]));
      assert.deepEqual(await paths(lost), ['a']);
      await lost.task.finish({ kind: 'lost', message: 'on fire' });
      assert.deepEqual(await listed(lost), []);
      const again = await runner.take('run_suite');
      await again.keep(framed([['b', 'x']]));
      await again.exit(0);
      const cancelled = await begin();
      await cancelled.task.keep(framed([['a', 'x']]));
      await alice.post(`${cancelled.path}/cancel`);
      await cancelled.task.finish({ kind: 'cancelled' });
      assert.deepEqual(await listed(cancelled), []);
    });

    test('are removed after their days, and with their project; what something refers to stays', async () => {
      const { db, blobs } = service.store;
      const there = (digest: string): boolean =>
        readdirSync(join(service.folder, 'blobs'), { recursive: true, encoding: 'utf8' }).some((name) =>
          name.endsWith(digest),
        );
      const shared = randomBytes(1000);
      const [one, two] = [await kept([['a', shared], ['b', 'only here']]), await kept([['c', shared]])]; // oxfmt-ignore
      assert.equal(await forgetOldArtifacts(db, 1, Date.now() + day / 2), 0);
      assert.equal(await forgetOldArtifacts(db, 0, Date.now() + 100 * day), 0, '0 keeps all');
      await collectBlobs(db, blobs, -1000);
      assert.ok(there(sha256(shared)) && there(sha256('only here')));
      assertDestroyed(await alice.delete(`/projects/${one.project.id}`));
      await collectBlobs(db, blobs, -1000);
      assert.ok(there(sha256(shared)) && !there(sha256('only here')));
      assert.ok((await forgetOldArtifacts(db, 1, Date.now() + 2 * day)) > 0);
      assert.deepEqual(await listed(two), []);
      await collectBlobs(db, blobs, -1000);
      assert.ok(!there(sha256(shared)));
    });
  },
  { artifacts: limits },
);
