import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { removeTree } from '../../src/shared/lib/remove-tree.ts';
import type { FoundCache } from '../../src/shared/protocol/index.ts';
import { openSandboxes } from '../../src/runner/sandbox/index.ts';
import type { Sandboxes } from '../../src/runner/sandbox/types.ts';
import { Blobs, CachingRunner } from '../support/caching.ts';
import { temporaryFolder } from '../support/databases.ts';

/** Everything that a build can see of its cache: names, kinds, modes, times and contents. */
const look = `for root in deps a/b/cache ~/.tool; do
  [ -e "$root" ] || [ -L "$root" ] || { echo "no $root"; continue; }
  find "$root" ! -type d -printf '%p %y %m %l %TY-%Tm-%TdT%TT\\n' -o -printf '%p %y %m\\n' | LC_ALL=C sort
  find "$root" -type f -exec md5sum {} + | LC_ALL=C sort
done | sed 's/[0-9]* blocks//'`;

describe('the cache of a suite', () => {
  let folder: string;
  let sandboxes: Sandboxes;
  before(async () => {
    folder = temporaryFolder();
    const stateDir = join(folder, 'sandboxes');
    sandboxes = await openSandboxes({ stateDir, network: 'none', isolation: 'required', log: () => {} });
  });
  after(async () => {
    await sandboxes.close();
    await removeTree(folder);
  });
  let runners = 0;
  const open = (blobs = new Blobs(), at = `runner-${(runners += 1)}`, disk?: { room: () => Promise<number> }) =>
    CachingRunner.open(join(folder, at), sandboxes, blobs, disk);

  /** What builds do with their caches, one after the other. */
  const deeds = {
    'fills it':
      'mkdir -p deps/one/two deps/three a/b/cache ~/.tool; echo 1 >deps/one/two/f; echo 2 >deps/three/g; echo 3 >a/b/cache/h; echo 4 >~/.tool/i; ln -s /etc deps/link',
    'changes a file': 'echo more >>deps/one/two/f',
    'removes a file': 'rm deps/three/g',
    'removes a directory': 'rm -r deps/one',
    'makes the directory anew': 'mkdir -p deps/one/two; echo new >deps/one/two/other',
    'removes one and makes it anew in one build': 'rm -r deps/one; mkdir deps/one; echo x >deps/one/y',
    'puts a file where a directory was': 'rm -r deps/one; echo file >deps/one',
    'puts a directory where a file was': 'rm deps/one; mkdir deps/one; echo z >deps/one/z',
    'puts a link where a directory was': 'rm -r deps/one; ln -s three deps/one',
    'puts a directory where a link was': 'rm deps/one; mkdir deps/one; touch deps/one/w',
    'wipes the directory above': 'rm -rf a; mkdir -p a/b/cache; echo anew >a/b/cache/k',
    'puts a file above it': 'rm -rf a; echo file >a',
    'fills it again': 'mkdir -p a/b/cache; echo again >a/b/cache/l',
    'wipes it and leaves nothing': 'rm -rf a; mkdir a',
    'removes everything': 'rm -rf deps a ~/.tool',
    'makes names of any bytes, and odd modes': `mkdir -p deps/x; cd deps; printf n >"$(printf 'r\\351sum\\351')"; printf n >"$(printf 'a\\nb c')"; printf n >-rf; printf n >'*'; mkdir closed; echo in >closed/f; chmod 600 closed/f; chmod 750 closed; ln -- -rf hard`,
    'makes a file of them a cache of its own': 'rm -rf ~/.tool; echo whole >~/.tool',
    'makes that a directory': 'rm ~/.tool; mkdir ~/.tool; echo part >~/.tool/p',
    'renames a directory': 'mv deps/x deps/y; mkdir deps/y/in',
  };

  test('is what the last build left, on the same runner and on another one', async () => {
    const blobs = new Blobs();
    const here = await open(blobs);
    let cache: FoundCache | undefined;
    for (const [what, command] of Object.entries(deeds)) {
      const { text, said, cache: saved } = await here.build(`(${command}) && ${look}`, cache);
      assert.ok(saved, `${what}: ${said}${text}${here.logged.join('\n')}`);
      assert.match(said, /Saved the cache/, what);
      assert.deepEqual(saved.bytes, blobs.all.get(saved.digest)?.length);
      cache = saved;
      assert.equal((await here.build(look, cache)).text, text, what);
      const there = await open(blobs);
      const again = await there.build(look, cache);
      assert.match(
        again.said,
        /^Fetching the cache of main .*\nRestored the cache of main .*\nThe cache is unchanged\.\n$/,
      );
      assert.equal(again.text, text, `${what}, elsewhere`);
    }
  });

  test('costs what it holds, however often its files are written anew', async () => {
    const runner = await open();
    const write = 'mkdir -p deps; head -c 3000000 /dev/urandom >deps/large';
    let cache: FoundCache | undefined;
    for (const _ of [1, 2, 3]) cache = (await runner.build(write, cache)).cache;
    assert.ok(cache && cache.bytes < 3_100_000, `${cache?.bytes}`);
    assert.equal((await (await open(runner.blobs)).build('ls deps', cache)).text, 'large\n');
  });

  /** What leaves a cache as it was, and what does not, though it looks alike. */
  const same = {
    nothing: 'true',
    'times alone': 'find deps ~/.tool -exec touch {} +',
    'the same content written anew': 'cp -r deps /tmp/deps; rm -r deps; mv /tmp/deps deps',
    'a file that comes and goes': 'echo 1 >deps/new; rm deps/new',
    'a pipe': 'mkfifo deps/pipe',
    'files beside it': 'mkdir -p a/b; echo 1 >a/b/other; echo 2 >~/other',
    'modes there and back': 'chmod 700 deps deps/f; chmod 755 deps; chmod 644 deps/f',
    'the same link': 'rm deps/link; ln -s f deps/link',
  };
  const others = {
    'content of the same size and time': 'echo two >deps/f.new; touch -r deps/f deps/f.new; mv deps/f.new deps/f',
    'a mode': 'chmod 755 deps/f',
    'the mode of a directory': 'chmod 700 deps/in',
    'where a link leads': 'ln -sfn g deps/link',
    'a directory emptied and made anew': 'rm -r deps/in; mkdir deps/in',
    'a file that became a link': 'rm deps/f; ln -s link deps/f',
    'an empty directory': 'mkdir deps/empty',
    'two directories exchanged': 'mv deps/in deps/x; mv deps/out deps/in; mv deps/x deps/out',
  };

  test('is saved only where names, kinds, modes, contents or links have changed', async () => {
    const runner = await open();
    const fill =
      'umask 022; mkdir -p deps/in deps/out ~/.tool; echo one >deps/f; echo a >deps/in/g; echo b >deps/out/g; ln -s f deps/link';
    const { cache } = await runner.build(fill, undefined);
    for (const [what, command] of Object.entries(same)) {
      const { said, cache: saved } = await runner.build(command, cache);
      assert.equal(saved, undefined, what);
      assert.match(said, /The cache is unchanged\.\n$/, what);
    }
    assert.equal(runner.blobs.all.size, 1);
    for (const [what, command] of Object.entries(others)) assert.ok((await runner.build(command, cache)).cache, what);
  });

  test('keeps what its owner may not read, as it was', async () => {
    const runner = await open();
    const { cache } = await runner.build(
      'mkdir -p deps/closed; echo 1 >deps/f; cp deps/f deps/g; chmod 0 deps/g deps/closed',
      undefined,
    );
    const { text } = await runner.build('stat -c "%n %a" deps/*', cache);
    assert.equal(text, 'deps/closed 0\ndeps/f 644\ndeps/g 0\n');
  });

  test('is one of its own for each of two builds at once', async () => {
    const runner = await open();
    const { cache } = await runner.build('mkdir deps; echo shared >deps/f', undefined);
    const command = (me: string): string => `echo ${me} >deps/f; echo ${me} >deps/${me}; sleep 0.3; cat deps/*`;
    const [one, two] = await Promise.all(['one', 'two'].map((me) => runner.build(command(me), cache)));
    assert.equal(one?.text, 'one\none\n');
    assert.equal(two?.text, 'two\ntwo\n');
    assert.equal((await runner.build('cat deps/*', cache)).text, 'shared\n');
    assert.equal((await runner.build('cat deps/*', two?.cache)).text, 'two\ntwo\n');
  });

  test('cannot be made to lead elsewhere [promise: cache-confinement]', async () => {
    const runner = await open();
    const outside = join(folder, 'outside');
    mkdirSync(outside);
    writeFileSync(join(outside, 'secret'), 'of the machine');
    // A build puts links to the machine at its paths and above them.
    const links = `ln -s ${outside} deps; ln -s ${outside} a; ln -s ${outside} ~/.tool`;
    const { cache } = await runner.build(links, undefined);
    assert.equal(readFileSync(join(outside, 'secret'), 'utf8'), 'of the machine');
    assert.deepEqual(readdirSync(outside), ['secret']);
    const next = await runner.build('readlink deps; cat deps/secret; cat ~/.tool/secret; ls a; true', cache);
    assert.ok(!next.text.includes('of the machine'), next.text);
    assert.ok(next.text.startsWith(`${outside}\n`));
    for (const bytes of runner.blobs.all.values()) assert.ok(bytes.length < 2000);
    // What is written through such a link is written in the sandbox, or nowhere.
    await runner.build('echo bad >deps/secret; echo bad >~/.tool/new; rm -f deps/secret; true', cache);
    assert.equal(readFileSync(join(outside, 'secret'), 'utf8'), 'of the machine');
    assert.deepEqual(readdirSync(outside), ['secret']);
  });

  test('is not used where the repository has something at its path, or a link on the way [promise: cache-confinement]', async () => {
    const runner = await open();
    const { cache } = await runner.build('mkdir -p deps; echo cached >deps/f', undefined);
    for (const [put, path] of [
      [(at: string) => symlinkSync('/etc', at), 'deps'],
      [(at: string) => mkdirSync(at), 'deps'],
      [(at: string) => writeFileSync(at, ''), 'deps'],
      [(at: string) => symlinkSync('.', at), 'a'],
    ] as const) {
      put(join(runner.checkout, path));
      const { said, cache: saved } = await runner.build('cat deps/f; true', cache);
      assert.match(
        said,
        /^No cache is used: (deps|a\/b\/cache) or a directory on its path is part of the repository\.\n$/,
      );
      assert.equal(saved, undefined);
      rmSync(join(runner.checkout, path), { recursive: true });
    }
  });

  test('holds nothing that a sandbox should not meet: devices, pipes, sockets [promise: cache-confinement]', async () => {
    const runner = await open();
    const made = await runner.build(
      'mkdir deps; for k in "c 1 3" "b 8 0" "c 0 0"; do mknod "deps/$k" $k 2>/dev/null; done; mkfifo deps/pipe; cp /bin/true deps/tool; chmod 6755 deps/tool; perl -MSocket -e "socket S, PF_UNIX, SOCK_STREAM, 0; bind S, pack_sockaddr_un(q(deps/socket))"; true',
      undefined,
    );
    const seen = await runner.build('find deps -printf "%y %f\\n" | sort', made.cache);
    assert.equal(seen.text, 'd deps\nf tool\n');
    const elsewhere = await (await open(runner.blobs)).build('find deps -printf "%y %f\\n" | sort', made.cache);
    assert.equal(elsewhere.text, seen.text);
  });

  test('may have a hundred thousand files', async () => {
    const runner = await open();
    // As links of a few files: that is as many names, and quicker to remove.
    const fill = `mkdir deps; perl -e 'for my $d (1..100) { mkdir "deps/$d"; open my $f, ">", "deps/$d/0"; print $f "x"; link "deps/$d/0", "deps/$d/$_" for 1..999 }'`;
    const { cache, said } = await runner.build(fill, undefined);
    assert.equal(cache?.bytes, runner.blobs.all.get(cache?.digest ?? '')?.length, said);
    const elsewhere = await (await open(runner.blobs)).build('find deps -type f | wc -l', cache);
    assert.equal(elsewhere.text, '100000\n');
  });

  test('is not kept when it is too large, too deep, or of a build that did not pass', async () => {
    const runner = await open();
    const { cache } = await runner.build('mkdir deps; echo good >deps/f', undefined);
    const most = { mostBytes: 1024 * 1024 };
    const large = await runner.build('head -c 2000000 /dev/zero >deps/g', cache, most);
    assert.match(large.said, /The cache is not saved: it exceeds the limit of 1\.0 MB\.\n$/);
    assert.equal(large.cache, undefined);
    // A hole takes no room here, but as a blob and on other machines it does.
    assert.equal((await runner.build('truncate -s 1T deps/hole', cache, most)).cache, undefined);
    const deep = await runner.build(
      `perl -e 'chdir "deps"; for (1..3000) { mkdir "d" x 50; chdir "d" x 50 } open F, ">", "f"'`,
      cache,
    );
    assert.match(deep.said, /The cache is not saved: it could not be packed or stored\.\n$/);
    assert.equal((await runner.build('echo bad >deps/f; exit 1', cache)).cache, undefined);
    const unsaved = await runner.build('echo bad >deps/f', cache, { savesAs: undefined as never });
    assert.deepEqual([unsaved.cache, unsaved.said], [undefined, 'Restored the cache of main (1 KB).\n']);
    assert.equal((await runner.build('cat deps/*', cache)).text, 'good\n');
    assert.deepEqual(
      readdirSync(join(folder, `runner-${runners}`, 'caches')).filter((name) => !/^7-\d+$/.test(name)),
      [],
      'nothing half is left',
    );
  });

  test('is not kept of a build that was cancelled or took too long', async () => {
    const runner = await open();
    const { cache } = await runner.build('mkdir deps; echo good >deps/f', undefined);
    const spoil = 'echo bad >deps/f; trap "exit 0" TERM; echo; sleep 100 & wait';
    const late = await runner.build(spoil, cache, { timeoutMs: 300 });
    assert.deepEqual([late.reason, late.cache], ['timed_out', undefined]);
    const stop = new AbortController();
    const called = await runner.build(spoil, cache, { signal: stop.signal, onOutput: () => stop.abort() });
    assert.deepEqual([called.reason, called.cache], ['cancelled', undefined]);
    assert.equal((await runner.build('cat deps/f', cache)).text, 'good\n');
    assert.equal(runner.blobs.all.size, 1);
  });

  test('makes room where the disk has none: first what was unused for longest, and nothing that is in use', async () => {
    const place = join(folder, 'short', 'caches');
    const trees = (): string[] => readdirSync(place).filter((name) => name.startsWith('7-'));
    const there = (): string[] =>
      trees()
        .map((name) => name.slice('7-'.length))
        .toSorted();
    let most = 3; // with more trees than this, the disk lacks room
    const disk = { room: async (): Promise<number> => (there().length > most ? 0 : 2 ** 40) };
    const runner = await open(new Blobs(), 'short', disk);
    const built = [];
    for (const word of ['one', 'two', 'three'])
      built.push((await runner.build(`mkdir deps; echo ${word} >deps/f`, undefined)).cache ?? assert.fail());
    const [one, two, three] = built as [FoundCache, FoundCache, FoundCache];
    const namesOf = (...some: FoundCache[]): string[] => some.map(({ name }) => name).toSorted();
    assert.match((await runner.build('cat deps/f', one)).said, /^Restored/); // the second is the oldest now
    await runner.caches.tidy(true);
    assert.deepEqual(there(), namesOf(one, two, three));
    most = 2;
    await runner.caches.tidy(true);
    assert.deepEqual(there(), namesOf(one, three));
    most = 0;
    {
      using _ = await runner.caches.take('7', three, new AbortController().signal);
      await runner.caches.tidy(true);
      assert.deepEqual(there(), namesOf(three));
    }
    // What went is fetched when it is wanted again.
    const again = await runner.build('cat deps/f', two);
    assert.deepEqual([again.text, again.said.split(' ')[0]], ['two\n', 'Fetching']);
  });

  test('that is missing or spoiled is done without, and the next one begins anew', async () => {
    const blobs = new Blobs();
    const { cache } = await (await open(blobs)).build('mkdir deps; echo one >deps/f', undefined);
    const [digest = ''] = blobs.all.keys();
    const bytes = blobs.all.get(digest) ?? assert.fail();
    for (const spoiled of [undefined, Buffer.concat([bytes, bytes])]) {
      if (spoiled) blobs.all.set(digest, spoiled);
      else blobs.all.delete(digest);
      const other = await open(blobs);
      const { said, text, cache: saved } = await other.build('ls deps; mkdir deps; echo two >deps/f', cache);
      assert.match(
        said,
        /The build starts without the cache of main \(1 KB\): it could not be fetched\.\nSaved the cache/,
      );
      assert.match(text, /No such file/);
      assert.ok(saved);
    }
  });

  test('stays when the runner is started anew; what was half made or may have been lost goes', async () => {
    const blobs = new Blobs();
    const { cache } = await (await open(blobs, 'again')).build('mkdir deps; echo kept >deps/f', undefined);
    const caches = join(folder, 'again', 'caches');
    const tree = join(caches, `7-${cache?.name}`);
    mkdirSync(join(caches, 'making.x', 'tree'), { recursive: true });
    mkdirSync(join(caches, '7-12345'), { recursive: true });
    const second = await open(blobs, 'again');
    assert.equal((await second.build('cat deps/f', cache)).said.split('\n')[0], 'Restored the cache of main (1 KB).');
    assert.deepEqual(blobs.read_, []);
    assert.deepEqual(readdirSync(caches), [`7-${cache?.name}`]);
    // The machine was started anew before the tree was on the disk: it is fetched.
    writeFileSync(join(tree, 'boot'), 'another');
    const third = await open(blobs, 'again');
    assert.match((await third.build('cat deps/f', cache)).said, /^Fetching/);
    // Written to the disk, it is good whatever happens.
    await third.caches.tidy(false);
    assert.ok(!readdirSync(tree).includes('boot'));
    assert.match((await (await open(blobs, 'again')).build('cat deps/f', cache)).said, /^Restored/);
    // The clock was set back since: its times may be ahead, so it is made anew.
    const about = join(tree, 'about');
    const facts = JSON.parse(readFileSync(about, 'utf8')) as object;
    writeFileSync(about, JSON.stringify({ ...facts, madeAt: Date.now() + 3_600_000 }));
    const fourth = await open(blobs, 'again');
    assert.match((await fourth.build('cat deps/f', cache)).said, /^Fetching .*\nRestored/);
    assert.match((await fourth.build('cat deps/f', cache)).said, /^Restored/);
  });
});
