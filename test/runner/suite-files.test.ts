import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { zstdCompressSync } from 'node:zlib';
import { run } from '../../src/shared/lib/processes.ts';
import { removeTree } from '../../src/shared/lib/remove-tree.ts';
import type { FilesOrder } from '../../src/shared/protocol/index.ts';
import { openSandboxes } from '../../src/runner/sandbox/index.ts';
import type { Sandboxes } from '../../src/runner/sandbox/types.ts';
import { Blobs } from '../support/caching.ts';
import { FilesRunner, source } from '../support/files-runner.ts';
import { temporaryFolder } from '../support/databases.ts';
import { tarOf, type TarEntry } from '../support/tar.ts';
import { longestWait } from '../support/pauses.ts';
import { lacks } from '../support/machine.ts';

const user = 60_916;

/** Everything of the workspace and the home, as a build sees it; times to the nanosecond. */
const look = `for root in /build /home/build; do cd $root; echo $root
  find . -type d -printf '%p|d|%m|%U:%G|%T@\\n' -o -printf '%p|%y|%m|%U:%G|%n|%l|%T@\\n' 2>&1 | LC_ALL=C sort
  find . -type f ! -perm /400 -o -type f -print0 | LC_ALL=C sort -z | xargs -0 -r sha256sum
done; cd /build`;

describe('files of another suite', () => {
  let folder: string;
  let sandboxes: Sandboxes;
  let runners = 0;
  before(async () => {
    folder = temporaryFolder();
    const stateDir = join(folder, 'sandboxes');
    sandboxes = await openSandboxes({ stateDir, network: 'none', isolation: 'required', log: () => {} });
  });
  after(async () => {
    await sandboxes.close();
    await removeTree(folder);
  });
  const open = (blobs = new Blobs(), at = `runner-${(runners += 1)}`): Promise<FilesRunner> =>
    new FilesRunner(join(folder, at), sandboxes, blobs).open();

  /** What a build can leave, also one that means no good. */
  const deeds = [
    'rm top; rm -r tracked; mkdir -p tracked out/deep; echo new >tracked/new; echo x >out/deep/file; ln out/deep/file out/hard',
    'ln -s /etc/passwd away; ln -s ../../../.. up; ln -s nowhere out/dangling; ln -s / ~/root',
    String.raw`touch -- "$(printf 'line\nbreak')" "$(printf 'no\377text')" -rf '$(touch x)' ' ' ~/"$(printf 'a\nb')"`,
    'mkfifo out/pipe ~/pipe',
    'cp /bin/true out/suid; chmod 4755 out/suid; chmod 2755 out/deep; echo s >secret; chmod 600 secret; echo r >ro; chmod 444 ro',
    'mkdir closed; echo in >closed/f; chmod 0 closed/f closed; echo none >none; chmod 0 none; chmod 1777 out',
    'echo old >old; touch -d 2001-02-03T04:05:06.789 old out/deep; touch -h -d 2002-03-04 away; mkdir -p ~/.config; echo c >~/.config/c',
    'head -c 3000000 /dev/urandom >large; setfattr -n user.overlay.opaque -v y out 2>/dev/null || true',
    'chmod 750 /build; touch -d 2003-04-05 /build; chmod 711 ~; touch -d 2004-05-06 ~',
  ].join('\n');

  test('are as the build left them, here and on another runner, also after a chain of suites and a restart', async () => {
    const here = await open();
    const first = await here.left(`${deeds}\n(${look}) >/tmp/seen; cat /tmp/seen`);
    const began = await here.build(look, { files: first });
    assert.match(began.said, /^This starts with the files of first\.\n/);
    assert.match(began.text, /^\.\|d\|750\|1000:1000\|1049500800\.0+$/m);
    assert.match(began.text, /^\.\|d\|711\|1000:1000\|1083801600\.0+$/m);
    assert.match(began.text, /\.\/old\|f\|644\|1000:1000\|1\|\|981173106\.7890/);
    assert.match(began.text, /\.\/out\/suid\|f\|4755\|/);
    assert.match(began.text, /\.\/out\/hard\|f\|644\|1000:1000\|2\|/);
    assert.doesNotMatch(began.text, /\.\/top\||tracked\/file/, 'what was deleted stays so');
    // What the first build saw itself is what the second begins with.
    const again = await here.build(`${look}; echo more >>large; rm -r out; echo mine >mine; chmod 700 closed`, {
      files: first,
    });
    assert.equal(again.text, began.text);
    assert.equal((await here.build(look, { files: first })).text, began.text, 'what another one does is its own');
    const packed = await here.packed(first);
    const there = await open(here.blobs);
    assert.equal((await there.build(look, { files: packed })).text, began.text, 'elsewhere');
    assert.deepEqual(there.blobs.read_, [packed.packed?.digest], 'it was fetched once');
    await there.build('true', { files: packed });
    assert.equal(there.blobs.read_.length, 1);

    // Over each other: the third begins with what the second made of them, here and there.
    const change = 'echo second >out/second; rm large; chmod 600 old; chmod 700 closed; rm -r closed';
    const second = await here.left(change, { files: first });
    const elsewhere = await there.left(change, { files: packed });
    // Unless the second one says otherwise, nothing has another time than it had.
    const stable = (text: string): string => text.replaceAll(/^(\.|\.\/out)\|.*$/gm, '');
    const third = stable((await here.build(look, { files: second })).text);
    assert.match(third, /\.\/out\/second\|f/);
    assert.doesNotMatch(third, /large|closed/);
    const withoutTimes = (text: string): string => text.replaceAll(/(\.\/out\/second.*)\|[\d.]+$/gm, '$1');
    assert.equal(withoutTimes(stable((await there.build(look, { files: elsewhere })).text)), withoutTimes(third));
    const repacked = await here.packed(second, '78');
    assert.equal(stable((await there.build(look, { files: repacked })).text), third);

    // A runner that was killed and started again has them, and what they stand on.
    const restarted = await open(here.blobs, 'runner-1');
    assert.equal(stable((await restarted.build(look, { files: second })).text), third);
    // The first ones stay for the second, although nothing else needs them.
    const names = [first, second].map(({ kept }) => kept?.name ?? '');
    await restarted.kept.update(names, { gone: names.slice(0, 1), needed: names.slice(1) });
    assert.equal(stable((await restarted.build(look, { files: second })).text), third);
    await restarted.kept.update(names, { gone: names, needed: [] });
    assert.deepEqual((await restarted.build('true', { files: second })).outcome, { kind: 'files_gone' });
    assert.deepEqual(await restarted.pack(second), { kind: 'files_gone' });
    const left = (): string[] => readdirSync(join(folder, 'runner-1/kept')).filter((name) => name !== 'location');
    await restarted.kept.update(names, { gone: names, needed: [] });
    assert.deepEqual(left(), [], 'nothing is left on the disk');
  });

  test('are the same bytes for 64 builds at once, which do not see each other', { timeout: longestWait }, async () => {
    const runner = await open();
    const make =
      'for d in $(seq 20); do mkdir d$d; for f in $(seq 50); do echo $d $f >d$d/f$f; done; done; echo h >~/h';
    const files = await runner.left(make);
    const digest = 'cat $(find d* ~/h -type f | LC_ALL=C sort) | sha256sum';
    const [expected] = [(await runner.build(digest, { files })).text];
    const number = (at: number): string =>
      `${digest}; echo ${at} >d1/f1; rm d2/f2; echo ${at} >~/h; ls /build ~; cat d1/f1 ~/h`;
    const builds = await Promise.all(Array.from({ length: 64 }, (_, at) => runner.build(number(at), { files })));
    for (const [at, { text }] of builds.entries()) {
      assert.ok(text.startsWith(expected ?? '-'), text);
      assert.ok(text.endsWith(`${at}\n${at}\n`), text);
    }
    assert.equal((await runner.build(digest, { files })).text, expected);
  });

  test('win over the suite’s own cache, which fills what they lack; artifacts and its save go on', async () => {
    const runner = await open();
    const cache = { paths: ['deps', '~/.tool'], savesAs: '5', mostBytes: 1024 ** 3 };
    const saved = await runner.build('mkdir deps ~/.tool; echo cached | tee deps/a deps/b ~/.tool/t', { cache });
    assert.ok(saved.outcome.kind === 'exited' && saved.outcome.cache, saved.said);
    const found = {
      id: '1',
      branch: 'main',
      sha: 'c'.repeat(40),
      name: '5',
      digest: saved.outcome.cache.digest,
      bytes: 1,
    };
    const files = await runner.left('mkdir deps; echo left >deps/a');
    const read = 'cat deps/a deps/b ~/.tool/t; echo new >deps/c';
    const second = await runner.build(read, {
      files,
      cache: { ...cache, found, savesAs: '6' },
      keep: { hours: 0, accountId: '1', forSuites: 'passed' },
    });
    assert.equal(second.text, 'left\ncached\ncached\n');
    assert.match(second.said, /Saved the cache/);
    // The next one stands on this one, and so on what its cache was.
    const third = await runner.build('cat deps/a deps/b deps/c', {
      files: { suite: 'second', build: '77', kept: second.files ?? assert.fail() },
    });
    assert.equal(third.text, 'left\ncached\nnew\n');
  });

  test('of a build that failed are kept only where that is asked for', async () => {
    const runner = await open();
    const failing = 'echo made >made; exit 3';
    const keep = { hours: 0, accountId: '1', forSuites: 'always' } as const;
    assert.equal((await runner.build(failing, { keep: { ...keep, forSuites: 'passed' } })).files, undefined);
    const { files: kept } = await runner.build(failing, { keep });
    assert.equal(
      (await runner.build('cat made', { files: { suite: 'first', build: '77', kept: kept ?? assert.fail() } })).text,
      'made\n',
    );
    assert.equal(
      (await runner.build('kill -9 $$; sleep 9', { keep: { ...keep, forSuites: 'passed' } })).files,
      undefined,
    );
  });

  test('of a fork, or of another project, are shown to none but its own [promise: suite-files]', async () => {
    const runner = await open();
    const ofFork = await runner.left('echo forked >planted', { isFork: true });
    for (const changes of [{ isFork: false }, { isFork: true, source: { ...source, projectId: '8' } }]) {
      const { outcome, said } = await runner.build('cat planted', { files: ofFork, ...changes });
      assert.deepEqual(outcome, { kind: 'files_gone' });
      assert.doesNotMatch(said, /forked/);
    }
    assert.equal((await runner.build('cat planted', { files: ofFork, isFork: true })).text, 'forked\n');
    // Without the server's key nobody opens them.
    const guessed = { suite: 'first', build: '77', kept: { name: ofFork.kept?.name ?? '', key: 'ab'.repeat(32) } };
    assert.deepEqual((await runner.build('true', { files: guessed, isFork: true })).outcome, { kind: 'files_gone' });
  });

  test('of several suites lie beside the checkout, read-only, and are no part of what the build leaves', async () => {
    const runner = await open();
    const checkout = join(runner.folder, 'checkout');
    const first = await runner.left(
      'echo one >made; rm top; ln -s /etc/passwd link; mkfifo pipe; mkdir .headrace; ln -s / .headrace/files; echo h >~/x',
    );
    const second = await runner.left(
      'mkdir -p .headrace/files/first; echo two >.headrace/files/first/made; chmod 700 .',
    );
    const [odd, ofVariant] = ['a/b %2F "c" $(id)', 'N=x/y M=..'];
    const lent = [
      { ...first, variant: '', build: '1' },
      { ...second, suite: odd, variant: ofVariant, build: '2' },
      { ...first, suite: odd, variant: 'N=1 M=2', build: '3' },
    ];
    const at = `.headrace/files/a%2Fb %2F "c" $(id)`;
    const look = `cd .headrace/files; find . | LC_ALL=C sort | head -50; cat first/made '${at.slice(16)}/N=x%2Fy M=../.headrace/files/first/made'`;
    const whole = `./a%2Fb %2F "c" $(id)/N=x%2Fy M=..`;
    const inOthers = (place: string): string =>
      ['', '/.headrace', '/.headrace/files', '/link', '/made', '/pipe', '/tracked', '/tracked/file']
        .map((name) => `${place}${name}\n`)
        .join('');
    const keep = { hours: 0, accountId: '1', forSuites: 'passed' } as const;
    const seen = async (what: string): Promise<FilesOrder> => {
      const { outcome, text, said, files } = await runner.build(
        `(${look}); test -e top && cat top; test ! -e ~/x; echo own >mine; mkdir -p .headrace/own`,
        { lent, keep },
      );
      assert.deepEqual(outcome, { kind: 'exited', status: 0 }, `${what}: ${said}`);
      const second = [
        '',
        '/.headrace',
        '/.headrace/files',
        '/.headrace/files/first',
        '/.headrace/files/first/made',
        '/top',
        '/tracked',
        '/tracked/file',
      ];
      assert.equal(
        text,
        `.\n./a%2Fb %2F "c" $(id)\n${inOthers('./a%2Fb %2F "c" $(id)/N=1 M=2')}${second.map((name) => `${whole}${name}\n`).join('')}${inOthers('./first')}one\ntwo\nof the commit\n`,
        what,
      );
      assert.match(said, /^The files of first, a\/b %2F "c" \$\(id\) are in \.headrace\/files\.\n/);
      return { suite: 'second', build: '77', kept: files ?? assert.fail('nothing was kept') };
    };
    const left = await seen('a plain checkout');
    const after = await runner.build('find . -mindepth 1 | LC_ALL=C sort', { files: left });
    assert.equal(after.text, './.headrace\n./.headrace/own\n./mine\n./top\n./tracked\n./tracked/file\n');

    const attack = `set +e; for path in first/made first/new new first; do
        (echo bad >.headrace/files/$path) 2>/dev/null && echo "wrote $path"; done
      rm -rf .headrace 2>/dev/null; mv .headrace/files away 2>/dev/null && echo moved
      ln -s / .headrace/files 2>/dev/null; umount .headrace/files/first 2>/dev/null && echo unmounted
      chmod 777 .headrace/files/first/made 2>/dev/null && echo chmod; cat .headrace/files/first/made`;
    assert.equal((await runner.build(attack, { lent })).text, 'one\n');

    // Whatever the commit has there is hidden.
    for (const make of [
      'echo file >.headrace',
      'ln -s /etc .headrace',
      'mkdir .headrace; echo file >.headrace/files',
      'mkdir .headrace; ln -s / .headrace/files',
    ]) {
      await run('sh', ['-ec', `cd "$0"; rm -rf .headrace; ${make}`, checkout]);
      await seen(make);
    }
    await run('sh', ['-ec', 'cd "$0"; rm -rf .headrace; mkdir -p .headrace/files/planted', checkout]);
    assert.equal(
      (await runner.build('ls .headrace/files', { lent: [{ ...first, variant: '', build: '1' }] })).text,
      'first\n',
    );
    await run('rm', ['-rf', join(checkout, '.headrace')]);

    // Those of another project or a fork, and those that are gone, are none.
    const gone = { suite: 'third', kept: { name: 'never', key: 'ab'.repeat(32) }, variant: '', build: '77' };
    assert.deepEqual((await runner.build('true', { lent: [...lent, gone] })).outcome, {
      kind: 'files_gone',
      build: '77',
    });
    assert.deepEqual((await runner.build('true', { lent, isFork: true })).outcome, { kind: 'files_gone', build: '1' });

    // Packed for another runner, they look the same.
    const elsewhere = await open(runner.blobs);
    const { packed = assert.fail() } = await runner.packed(first);
    const there = await elsewhere.build('cat .headrace/files/first/made; ls .headrace/files/first; cat top', {
      lent: [{ suite: 'first', packed, variant: '', build: '1' }],
    });
    assert.equal(there.text, 'one\nlink\nmade\npipe\ntracked\nof the commit\n', there.said);
  });

  test('that no packer would make show nothing of the machine [promise: suite-files]', async () => {
    const outside = join(folder, 'outside');
    mkdirSync(outside);
    writeFileSync(join(outside, 'secret'), 'of another account');
    const link = (name: string, target = outside): TarEntry => ({ name, type: 'symbolic link', target });
    const attacks: Record<string, TarEntry[]> = {
      'a link for the home': [link('home')],
      'a link for the workspace, and files through it': [link('workspace'), { name: 'workspace/new', content: 'bad' }],
      'names that lead out': [
        { name: 'workspace/../../../../outside/secret', content: 'bad' },
        { name: join(outside, 'secret'), content: 'bad' },
      ],
      'a link that is written through': [link('workspace/x'), { name: 'workspace/x/secret', content: 'bad' }],
      'modes for files outside': [
        { name: 'facts/modes', content: `777 ${outside}/secret\x00777 ../../outside/secret\x00` },
        link('facts/x'),
      ],
      'a device for the workspace': [{ name: 'workspace', type: 'character device' }],
      'a hard link to a file of the machine': [{ name: 'home/x', type: 'hard link', target: join(outside, 'secret') }],
      'no archive at all': [],
    };
    for (const [what, entries] of Object.entries(attacks)) {
      const bytes = entries.length > 0 ? zstdCompressSync(tarOf(entries)) : Buffer.from('nothing of the kind');
      const blobs = new Blobs();
      const digest = createHash('sha256').update(bytes).digest('hex');
      blobs.all.set(digest, bytes);
      const runner = await open(blobs);
      const files = { suite: 'first', build: '77', packed: { name: '9', digest, bytes: 1 } };
      const { outcome, text } = await runner.build('cat secret x/secret ~/secret ~/x; ls -A / >/dev/null; true', {
        files,
      });
      assert.ok(['exited', 'files_gone'].includes(outcome.kind), `${what}: ${JSON.stringify(outcome)}`);
      assert.doesNotMatch(text, /of another account/, what);
      assert.equal(readFileSync(join(outside, 'secret'), 'utf8'), 'of another account', what);
      assert.deepEqual(
        readdirSync(join(runner.folder, 'files')).filter((name) => !name.startsWith('7-')),
        [],
        what,
      );
    }
  });

  test('have the owners that they had for root, and whoever runs gets what was root’s or theirs, also elsewhere', async (t) => {
    if (!sandboxes.hasManyUsers || !sandboxes.translatesOwners) return t.skip('runs have one user ID');
    const asRoot = { imageBuilds: { registries: [] } };
    const runner = await open();
    const give =
      'mkdir of; echo 1 >of/file; ln of/file of/hard; mkfifo of/pipe; echo 2 >~/at-home; ln -s of to; touch own other';
    const chown =
      'chown -hR 1000:1000 of ~/at-home to; chown 1234:1000 other; chmod 4700 of/file; chmod 0 of ~/at-home';
    const files = await runner.left(`${give}; ${chown}; touch -d @99 own of`, asRoot);
    const see =
      'stat -c "%n %u:%g %a %Y" own of; chmod 700 of; stat -c "%u:%g %a" of/file of/hard of/pipe to ~/at-home other; cat of/*d';
    const seen = (own: string): string =>
      [`own ${own} 644 99`, 'of 1000:1000 0 99', ...[4700, 4700, 644, 777, 0].map((mode) => `1000:1000 ${mode}`)].join(
        '\n',
      );
    const there = await open(runner.blobs);
    for (const [which, has] of [[runner, files] as const, [there, await runner.packed(files)] as const]) {
      assert.equal((await which.build(see, { files: has })).text, `${seen('1000:1000')}\n1234:1000 644\n1\n`);
      assert.equal((await which.build(see, { files: has, ...asRoot })).text, `${seen('0:0')}\n1234:1000 644\n1\n`);
    }
    const next = await runner.left('echo more >of/more', { files: await runner.left('chmod 700 of', { files }) });
    const third = await runner.build('cat of/more; stat -c %u:%g of/file own other', { files: next, ...asRoot });
    assert.equal(third.text, 'more\n0:0\n0:0\n1234:0\n');
    assert.deepEqual(readdirSync(join(runner.folder, 'files')), [], 'nothing is left of the work on them');
  });

  test('that are too large are not packed, and nothing is left of the attempt', async () => {
    const runner = await open();
    const files = await runner.left('head -c 300000 /dev/urandom >large');
    assert.deepEqual(await runner.pack(files, 200_000), { kind: 'not_packed' });
    assert.deepEqual(readdirSync(join(runner.folder, 'files')), []);
  });
});

test(
  'an ordinary user’s runner hands files on as well [promise: suite-files]',
  { skip: lacks('other users') },
  async () => {
    const node = [process.execPath, '--disable-warning=ExperimentalWarning', '--test', import.meta.filename];
    const ran = await run('setpriv', ['--reuid', `${user}`, '--regid', `${user}`, '--clear-groups', '--', ...node], {
      env: { PATH: process.env.PATH ?? '' },
    });
    assert.equal(ran.status, 0, ran.stdout.toString());
  },
);
