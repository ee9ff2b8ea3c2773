/* oxlint-disable no-control-regex -- control characters are what this is about */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { lstatSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { frameHead } from '../../../src/shared/domain/file-frames.ts';
import { describeCommands } from '../../support/commands.ts';

type Files = Record<string, string | Buffer>;

describeCommands('headrace artifacts', [], ({ service, runner, at }) => {
  /** Builds something that leaves these files, and answers the identifier of the build. */
  async function built(suite: string, files: Files): Promise<string> {
    const known = (await at.alice.get(`/projects/${at.project.id}/suites`)).list;
    if (!known.some(({ name }) => name === suite))
      await at.alice.createSuite(at.project, { name: suite, 'artifacts[]': '**' });
    await at.developer.run(['run', '--suite', suite]);
    await (await runner.take('fetch_commit')).fetched();
    const task = await runner.take('run_suite');
    async function* framed(): AsyncGenerator<Buffer> {
      for (const [path, content] of Object.entries(files)) {
        yield frameHead('F', Buffer.byteLength(content), path);
        yield Buffer.from(content as string);
      }
    }
    assert.deepEqual(await task.keep(framed()), { kept: true });
    await task.exit(0);
    return task.order.work.environment.HEADRACE_BUILD_ID ?? '';
  }
  const rename = (build: string, path: string): Promise<unknown> =>
    service.store.db.transaction((trx) =>
      trx.updateTable('artifacts').set({ path }).where('build_id', '=', BigInt(build)).execute(),
    );
  const below = (folder: string): string[] =>
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => !entry.isDirectory())
      .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
      .toSorted();
  const noise = randomBytes(700_000);
  const files: Files = { 'dist/app.js': 'let x;', 'dist/b/noise': noise, 'a.log': '', 'ü €.txt': 'hello\n' };

  test('are listed, those that match, and fetched to their paths', async () => {
    const build = await built('unit', files);
    const listed = await at.developer.run(['artifacts', 'unit']);
    assert.deepEqual([listed.status, listed.err], [0, '']);
    const digest = createHash('sha256').update(noise).digest('hex');
    assert.match(listed.out, /^PATH +SIZE +SHA-256\na\.log +0 bytes +e3b0c4/);
    assert.match(listed.out, new RegExp(`^dist/b/noise +700 kB +${digest}$`, 'm'));
    const some = await at.developer.run(['artifacts', build, 'dist', '--json']);
    const paths = (JSON.parse(some.out) as { path: string }[]).map(({ path }) => path);
    assert.deepEqual(paths, ['dist/app.js', 'dist/b/noise']);

    const out = join(at.developer.folder, 'out');
    const fetched = await at.developer.run(['artifacts', build, '-o', 'out']);
    assert.deepEqual([fetched.status, fetched.err, fetched.out], [0, '', 'fetching 4 files: 700 kB of 700 kB\n']);
    assert.deepEqual(below(out), Object.keys(files).toSorted());
    for (const [path, content] of Object.entries(files))
      assert.ok(readFileSync(join(out, path)).equals(Buffer.from(content as string)), path);
    // Once more, over what is there, on a terminal.
    writeFileSync(join(out, 'a.log'), 'old');
    const terminal = at.developer.sit(['artifacts', 'unit', '{*.log,dist/b}', '--output', 'out'], { columns: 60 });
    assert.equal(await terminal.end(), 0, terminal.text);
    assert.match(terminal.text, /^fetching 2 files █+ 100% 700 kB/);
    assert.equal(readFileSync(join(out, 'a.log'), 'utf8'), '');
    assert.deepEqual(below(out), Object.keys(files).toSorted(), 'nothing else is left there');

    for (const [args, message] of [
      [['artifacts', 'unit', '*.xml', '-o', 'out'], /Build \d+ has no artifacts that match\./],
      [['artifacts', 'unit', '../x'], /\.\.\/x is not a file pattern/],
      [['artifacts', 'nothing'], /no build and no suite nothing/],
      [['artifacts', 'unit', '-o', 'out/a.log'], /Cannot write to out\/a\.log/],
    ] as const) {
      const refused = await at.developer.run([...args]);
      assert.deepEqual([refused.status, message.test(refused.err)], [2, true], refused.err);
    }
    assert.match((await at.developer.run(['artifacts', 'unit', '*.xml'])).out, /has no artifacts that match/);
  });

  test('stay below their folder, whatever they are called and whatever is there [promise: artifact-fetching]', async () => {
    const build = await built('hostile', { only: 'hostile' });
    const outside = join(at.developer.home, 'outside');
    mkdirSync(outside);
    const out = join(at.developer.folder, 'safe');
    const fetch = () => at.developer.run(['artifacts', build, '-o', out]);
    const acting = 'a\u001b[2J\u001b]0;owned\u0007\u202eb';
    for (const path of [
      '../outside/x',
      'a/../../../outside/x',
      '..',
      '.',
      '',
      'a//b',
      './x',
      join(outside, 'x'),
      '.git/config',
      'sub/.GIT/hooks/post-checkout',
      acting,
      'a\nb',
    ]) {
      await rename(build, path);
      const { status, err } = await fetch();
      assert.equal(status, 3, path);
      assert.match(err, /is not a valid path in .*\. Nothing was downloaded\./);
      assert.doesNotMatch(err, /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/);
      assert.throws(() => readdirSync(out), /ENOENT/);
    }
    await rename(build, acting);
    for (const args of [
      ['artifacts', build],
      ['artifacts', build, '--json'],
    ]) {
      const terminal = at.developer.sit(args, { env: { NO_COLOR: '1' } });
      assert.equal(await terminal.end(), 0);
      assert.doesNotMatch(terminal.raw, /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202e]/);
    }

    mkdirSync(join(out, 'real'), { recursive: true });
    symlinkSync(outside, join(out, 'link'));
    symlinkSync('../../../outside', join(out, 'real', 'link'));
    for (const path of ['link/x', 'real/link/x', 'real/link/deeper/x']) {
      await rename(build, path);
      const { status, err } = await fetch();
      assert.deepEqual([status, /link is a link or a file, not a folder\./.test(err)], [2, true], err);
    }
    // A link in the place of the file itself is replaced.
    writeFileSync(join(outside, 'target'), 'untouched');
    for (const [name, leads] of [
      ['file', join(outside, 'target')],
      ['dangling', join(outside, 'new')],
    ] as const) {
      symlinkSync(leads, join(out, name));
      await rename(build, name);
      assert.equal((await fetch()).status, 0);
      assert.ok(lstatSync(join(out, name)).isFile());
      assert.equal(readFileSync(join(out, name), 'utf8'), 'hostile');
    }
    assert.deepEqual(readdirSync(outside), ['target']);
    assert.equal(readFileSync(join(outside, 'target'), 'utf8'), 'untouched');
    rmSync(out, { recursive: true });
  });

  test('are taken only whole, with the digest that the server names [promise: artifact-fetching]', async () => {
    const build = await built('changed', { file: 'as it was' });
    const out = join(at.developer.folder, 'checked');
    const fetch = () => at.developer.run(['artifacts', build, '-o', out]);
    const change = (values: { sha256?: string; size?: bigint }): Promise<unknown> =>
      service.store.db.transaction((trx) =>
        trx.updateTable('artifacts').set(values).where('build_id', '=', BigInt(build)).execute(),
      );
    const [row] = (await at.alice.get(`/projects/${at.project.id}/builds/${build}/artifacts`)).list;
    assert.equal((await fetch()).status, 0);
    writeFileSync(join(out, 'file'), 'from before');
    await change({ size: 4n });
    const cut = await fetch();
    assert.deepEqual([cut.status, /file arrived incomplete\. Try again\./.test(cut.err)], [3, true], cut.err);
    assert.equal(readFileSync(join(out, 'file'), 'utf8'), 'from before');
    assert.deepEqual(readdirSync(out), ['file'], 'no part of it is left');
    await change({ size: BigInt(String(row?.size)), sha256: String(row?.sha256) });
    assert.equal((await fetch()).status, 0);
  });
});
