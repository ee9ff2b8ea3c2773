import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { crc32 } from 'node:zlib';
import { attachment } from '../../src/lib/attachments.ts';
import { run } from '../../src/lib/processes.ts';
import { zip, zipLength, zipNames, type ZipEntry } from '../../src/lib/zip.ts';
import { temporaryFolder } from '../support/databases.ts';
import { processorTime } from '../support/event-loop.ts';

describe('a ZIP archive', () => {
  let folder: string;
  before(() => (folder = temporaryFolder()));
  after(() => rmSync(folder, { recursive: true }));

  const files = { 'a.txt': 'one', 'ü/€ 𝄞.bin': '\0\x01'.repeat(70_000), empty: '', 'deep/er/b': 'two' };
  const modifiedAt = new Date('2026-03-01T12:34:56Z');
  const entries: ZipEntry[] = Object.entries(files).map(([name, text]) => ({
    name,
    size: Buffer.byteLength(text),
    crc32: crc32(text),
    modifiedAt,
  }));
  const written = async (options: { zip64From?: number }): Promise<Buffer> => {
    const pieces: Uint8Array[] = [];
    const content = ({ name }: ZipEntry) =>
      (async function* whole() {
        yield Buffer.from(files[name as keyof typeof files]);
      })();
    for await (const piece of zip(entries, content, options)) pieces.push(piece);
    return Buffer.concat(pieces);
  };

  // With a small bound every number goes where those of more than four gigabytes go.
  for (const [kind, zip64From] of [
    ['', undefined],
    [' in the format of large ones', 1],
  ] as const)
    test(`is read by other programs${kind}, and as long as was said`, async () => {
      const options = zip64From === undefined ? {} : { zip64From };
      const bytes = await written(options);
      assert.equal(bytes.length, zipLength(entries, options));
      const [archive, into] = [join(folder, `${zip64From}.zip`), join(folder, `${zip64From}`)];
      writeFileSync(archive, bytes);
      mkdirSync(into);
      const check = `import sys, zipfile, json
z = zipfile.ZipFile(sys.argv[1])
assert z.testzip() is None
z.extractall(sys.argv[2])
print(json.dumps([[i.filename, i.file_size, list(i.date_time), oct(i.external_attr >> 16), i.extract_version] for i in z.infolist()]))`;
      const seen = await run('python3', ['-c', check, archive, into]);
      assert.equal(seen.status, 0, seen.stderr.toString());
      const facts = JSON.parse(seen.stdout.toString()) as unknown[];
      const version = (size: number): number => (zip64From !== undefined && size >= zip64From ? 45 : 20);
      assert.deepEqual(
        facts,
        entries.map(({ name, size }) => [name, size, [2026, 3, 1, 12, 34, 56], '0o100644', version(size)]),
      );
      for (const [name, text] of Object.entries(files)) assert.equal(readFileSync(join(into, name), 'utf8'), text);
      // As a stream, from its beginning on.
      const listed = await run('bsdtar', ['-tf', '-'], { input: bytes, env: { ...process.env, LC_ALL: 'C.UTF-8' } });
      assert.deepEqual(listed.stdout.toString().trim().split('\n'), Object.keys(files));
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

  test('lets others have their turn while the list of its files is written', async () => {
    const many = Array.from({ length: 20_000 }, (_, at) => ({ name: `${at}`, size: 0, crc32: 0, modifiedAt }));
    async function* nothing(): AsyncGenerator<Buffer> {}
    let turns = 0;
    const ticking = setInterval(() => (turns += 1), 0);
    let length = 0;
    for await (const piece of zip(many, nothing)) length += piece.length;
    clearInterval(ticking);
    assert.equal(length, zipLength(many));
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
    test(`is safe: ${JSON.stringify(name)}`, () => assert.equal(attachment(name), `attachment; ${told}`));
});
