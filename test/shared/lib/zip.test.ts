import assert from 'node:assert/strict';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { attachmentHeader } from '../../../src/shared/lib/content-disposition.ts';
import { run } from '../../../src/shared/lib/processes.ts';
import { zip, zipNames, type ZipEntry } from '../../../src/shared/lib/zip.ts';
import { temporaryFolder } from '../../support/databases.ts';
import { processorTime } from '../../support/event-loop.ts';

describe('a ZIP archive', () => {
  let folder: string;
  before(() => (folder = temporaryFolder()));
  after(() => rmSync(folder, { recursive: true }));

  const files = { 'a.txt': 'one', 'ü/€ 𝄞.bin': '\0\x01'.repeat(70_000), empty: '', 'deep/er/b': 'two' };
  const modifiedAt = new Date('2026-03-01T12:34:56Z');
  const entries: ZipEntry[] = Object.entries(files).map(([name, text]) => ({
    name,
    size: Buffer.byteLength(text),
    modifiedAt,
  }));
  async function* whole({ name }: ZipEntry): AsyncGenerator<Buffer> {
    yield Buffer.from(files[name as keyof typeof files]);
  }
  const read = `import sys, zipfile, json
z = zipfile.ZipFile(sys.argv[1])
assert z.testzip() is None
z.extractall(sys.argv[2])
print(json.dumps([[i.filename, i.file_size, list(i.date_time), oct(i.external_attr >> 16)] for i in z.infolist()]))`;

  test('is read by other programs, and as long as was said', async () => {
    const { length, content } = zip(entries, whole);
    const bytes = await buffer(content);
    assert.equal(bytes.length, length);
    const archive = join(folder, 'some.zip');
    writeFileSync(archive, bytes);
    const seen = await run('python3', ['-c', read, archive, folder]);
    assert.equal(seen.status, 0, seen.stderr.toString());
    assert.deepEqual(
      JSON.parse(seen.stdout.toString()),
      entries.map(({ name, size }) => [name, size, [2026, 3, 1, 12, 34, 56], '0o100644']),
    );
    for (const [name, text] of Object.entries(files)) assert.equal(readFileSync(join(folder, name), 'utf8'), text);
    // As a stream, from its beginning on.
    const listed = await run('bsdtar', ['-tf', '-'], { input: bytes, env: { ...process.env, LC_ALL: 'C.UTF-8' } });
    assert.deepEqual(listed.stdout.toString().trim().split('\n'), Object.keys(files));
  });

  test('ends with what goes wrong in a file, and leaves no file open', async () => {
    let open = 0;
    async function* endless(): AsyncGenerator<Buffer> {
      open += 1;
      try {
        for (;;) yield Buffer.alloc(100_000);
      } finally {
        open -= 1;
      }
    }
    let seen = 0;
    for await (const piece of zip(entries, endless).content) if ((seen += (piece as Buffer).length) > 1e6) break;
    await setImmediate();
    assert.equal(open, 0);
    async function* broken(): AsyncGenerator<Buffer> {
      yield Buffer.alloc(100_000);
      throw new Error('the disk is gone');
    }
    await assert.rejects(buffer(zip(entries, broken).content), /the disk is gone/);
    async function* tooShort(): AsyncGenerator<Buffer> {}
    await assert.rejects(buffer(zip(entries, tooShort).content), /unexpected number of bytes/);
  });

  test('has no names that lead out of it', async () => {
    const odd = ['../../etc/passwd', '/etc/passwd', '..\\..\\x', 'C:\\x', 'a/../b', './a', 'a', 'a', '..evil', '...'];
    assert.deepEqual(await zipNames(odd), [
      '__/__/etc/passwd',
      'etc/passwd',
      '.._.._x',
      'C__x',
      'a/__/b',
      'a',
      'a-2',
      'a-3',
      '..evil',
      '...',
    ]);
  });

  test('[promise: untrusted-input] has many names that would be the same without trying them one by one', async () => {
    const alike = Array.from({ length: 6000 }, (_, at) => at.toString(2).padStart(16, '\\').replaceAll('0', '_'));
    const paths = [...alike.map((_, at) => `x-${at}`), ...alike.map(() => 'x'), ...alike];
    const before = processorTime();
    const names = await zipNames(paths);
    const taken = processorTime() - before;
    assert.equal(new Set(names).size, paths.length);
    assert.ok(taken < 1000, `${taken}`);
  });

  test('lets others have their turn, however many files it has, and is as long as was said', async () => {
    const many = Array.from({ length: 10_000 }, (_, at) => ({ name: `${at}`, size: 0, modifiedAt }));
    async function* opened(): AsyncGenerator<Buffer> {
      await setImmediate(); // as a file of a store does
      yield Buffer.alloc(0);
    }
    let turns = 0;
    const ticking = setInterval(() => (turns += 1), 0).unref();
    const { length, content } = zip(many, opened);
    assert.equal((await buffer(content)).length, length);
    clearInterval(ticking);
    assert.ok(turns > 10, `${turns}`);
  });
});

describe('the name of a download', () => {
  const names: [string, string][] = [
    ['app.js', `filename="app.js"; filename*=UTF-8''app.js`],
    ['a"b;c\r\nx: y', `filename="a_b_c__x_ y"; filename*=UTF-8''a%22b%3Bc__x%3A%20y`],
    ['../../etc', `filename="___.._etc"; filename*=UTF-8''___.._etc`],
    ['..\\x', `filename="___x"; filename*=UTF-8''___x`],
    ['ü 100%.txt', `filename="_ 100_.txt"; filename*=UTF-8''%C3%BC%20100%25.txt`],
    ["it's(1)*", `filename="it_s(1)_"; filename*=UTF-8''it%27s%281%29%2A`],
  ];
  for (const [name, told] of names)
    test(`is safe: ${JSON.stringify(name)}`, () => assert.equal(attachmentHeader(name), `attachment; ${told}`));
});
