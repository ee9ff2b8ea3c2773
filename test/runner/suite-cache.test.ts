import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { removeTree } from '../../src/lib/remove-tree.ts';
import type { CacheLayer } from '../../src/protocol/index.ts';
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
    'wipes it and leaves nothing': 'rm -rf a; mkdir a',
    'puts a file above it': 'rm -rf a; echo file >a',
    'fills it again': 'mkdir -p a/b/cache; echo again >a/b/cache/l',
    'removes everything': 'rm -rf deps a ~/.tool',
    'makes names of any bytes, and odd modes': `mkdir -p deps/x; cd deps; printf n >"$(printf 'r\\351sum\\351')"; printf n >"$(printf 'a\\nb c')"; printf n >-rf; printf n >'*'; mkdir closed; echo in >closed/f; chmod 600 closed/f; chmod 750 closed; ln -- -rf hard`,
    'makes a file of them a cache of its own': 'rm -rf ~/.tool; echo whole >~/.tool',
    'makes that a directory': 'rm ~/.tool; mkdir ~/.tool; echo part >~/.tool/p',
    'renames a directory': 'mv deps/x deps/y; mkdir deps/y/in',
  };

  test('is what the last build left, on the same runner and on another one', async () => {
    const blobs = new Blobs();
    const here = await open(blobs);
    let layers: CacheLayer[] | undefined;
    let depths = 0;
    for (const [what, command] of Object.entries(deeds)) {
      const { text, said, layers: saved } = await here.build(`(${command}) && ${look}`, layers);
      assert.ok(saved, `${what}: ${said}${text}${here.logged.join('\n')}`);
      assert.match(said, /Saved the cache/, what);
      depths = Math.max(depths, saved.length);
      layers = saved;
      assert.equal((await here.build(look, layers)).text, text, what);
      const there = await open(blobs);
      const again = await there.build(look, layers);
      assert.match(
        again.said,
        /^Fetching the cache of main .*\nRestored the cache of main .*\nThe cache is unchanged\.\n$/,
      );
      assert.equal(again.text, text, `${what}, elsewhere`);
    }
    assert.equal(depths, 8, 'layers are folded together when they are too many');
  });

  test('is fetched only as far as it is new', async () => {
    const blobs = new Blobs();
    const [here, there] = [await open(blobs), await open(blobs)];
    const { layers: first } = await here.build('mkdir deps; head -c 3000000 /dev/urandom >deps/large', undefined);
    await there.build('true', first);
    const { layers: second } = await here.build('echo small >deps/small', first);
    assert.deepEqual(second?.slice(0, 1), first);
    assert.ok(second);
    assert.equal(second[1]?.bytes, blobs.all.get(second[1]?.digest ?? '')?.length);
    blobs.read_.length = 0;
    assert.equal((await there.build('ls deps', second)).text, 'large\nsmall\n');
    assert.deepEqual(blobs.read_, [second[1]?.digest]);
    // Where most of it is new, all of it is packed anew.
    const { layers: third } = await here.build('head -c 30000000 /dev/urandom >deps/large', second);
    assert.equal(third?.length, 1);
    assert.equal(third[0]?.bytes, blobs.all.get(third[0]?.digest ?? '')?.length);
  });

  test('is one of its own for each of two builds at once', async () => {
    const runner = await open();
    const { layers } = await runner.build('mkdir deps; echo shared >deps/f', undefined);
    const command = (me: string): string => `echo ${me} >deps/f; echo ${me} >deps/${me}; sleep 0.3; cat deps/*`;
    const [one, two] = await Promise.all(['one', 'two'].map((me) => runner.build(command(me), layers)));
    assert.equal(one?.text, 'one\none\n');
    assert.equal(two?.text, 'two\ntwo\n');
    assert.equal((await runner.build('cat deps/*', layers)).text, 'shared\n');
    assert.equal((await runner.build('cat deps/*', two?.layers)).text, 'two\ntwo\n');
  });

  test('cannot be made to lead elsewhere [promise: cache-confinement]', async () => {
    const runner = await open();
    const outside = join(folder, 'outside');
    mkdirSync(outside);
    writeFileSync(join(outside, 'secret'), 'of the machine');
    // A build puts links to the machine at its paths and above them.
    const links = `ln -s ${outside} deps; ln -s ${outside} a; ln -s ${outside} ~/.tool`;
    const { layers } = await runner.build(links, undefined);
    assert.equal(readFileSync(join(outside, 'secret'), 'utf8'), 'of the machine');
    assert.deepEqual(readdirSync(outside), ['secret']);
    const next = await runner.build('readlink deps; cat deps/secret; cat ~/.tool/secret; ls a; true', layers);
    assert.ok(!next.text.includes('of the machine'), next.text);
    assert.ok(next.text.startsWith(`${outside}\n`));
    for (const bytes of runner.blobs.all.values()) assert.ok(bytes.length < 2000);
    // What is written through such a link is written in the sandbox, or nowhere.
    await runner.build('echo bad >deps/secret; echo bad >~/.tool/new; rm -f deps/secret; true', layers);
    assert.equal(readFileSync(join(outside, 'secret'), 'utf8'), 'of the machine');
    assert.deepEqual(readdirSync(outside), ['secret']);
  });

  test('is not used where the repository has something at its path, or a link on the way [promise: cache-confinement]', async () => {
    const runner = await open();
    const { layers } = await runner.build('mkdir -p deps; echo cached >deps/f', undefined);
    for (const [put, path] of [
      [(at: string) => symlinkSync('/etc', at), 'deps'],
      [(at: string) => mkdirSync(at), 'deps'],
      [(at: string) => writeFileSync(at, ''), 'deps'],
      [(at: string) => symlinkSync('.', at), 'a'],
    ] as const) {
      put(join(runner.checkout, path));
      const { said, layers: saved } = await runner.build('cat deps/f; true', layers);
      assert.match(
        said,
        /^No cache is used: (deps|a\/b\/cache) is part of the repository, or something on the way to it is\.\n$/,
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
    const seen = await runner.build('find deps -printf "%y %f\\n" | sort', made.layers);
    assert.equal(seen.text, 'd deps\nf tool\n');
    const elsewhere = await (await open(runner.blobs)).build('find deps -printf "%y %f\\n" | sort', made.layers);
    assert.equal(elsewhere.text, seen.text);
  });

  test('may have a hundred thousand files', async () => {
    const runner = await open();
    // As links of a few files: that is as many names, and quicker to remove.
    const fill = `mkdir deps; perl -e 'for my $d (1..100) { mkdir "deps/$d"; open my $f, ">", "deps/$d/0"; print $f "x"; link "deps/$d/0", "deps/$d/$_" for 1..999 }'`;
    const { layers, said } = await runner.build(fill, undefined);
    assert.equal(layers?.[0]?.bytes, runner.blobs.all.get(layers?.[0]?.digest ?? '')?.length, said);
    const elsewhere = await (await open(runner.blobs)).build('find deps -type f | wc -l', layers);
    assert.equal(elsewhere.text, '100000\n');
  });

  test('is not kept when it is too large, too deep, or of a build that did not pass', async () => {
    const runner = await open();
    const { layers } = await runner.build('mkdir deps; echo good >deps/f', undefined);
    const most = { mostBytes: 1024 * 1024 };
    const large = await runner.build('head -c 2000000 /dev/zero >deps/g', layers, most);
    assert.match(large.said, /The cache is not saved: it is larger than 1\.0 MB, which is the most that is kept\.\n$/);
    assert.equal(large.layers, undefined);
    // A hole takes no room here, but as a blob and on other machines it does.
    assert.equal((await runner.build('truncate -s 1T deps/hole', layers, most)).layers, undefined);
    const deep = await runner.build(
      `perl -e 'chdir "deps"; for (1..3000) { mkdir "d" x 50; chdir "d" x 50 } open F, ">", "f"'`,
      layers,
    );
    assert.match(deep.said, /The cache is not saved: it could not be packed or stored\.\n$/);
    assert.equal((await runner.build('echo bad >deps/f; exit 1', layers)).layers, undefined);
    const unsaved = await runner.build('echo bad >deps/f', layers, { savesAs: undefined as never });
    assert.deepEqual([unsaved.layers, unsaved.said], [undefined, 'Restored the cache of main (1 KB).\n']);
    assert.equal((await runner.build('cat deps/*', layers)).text, 'good\n');
    assert.deepEqual(
      readdirSync(join(folder, `runner-${runners}`, 'caches')).filter((name) => !/^\d+$/.test(name)),
      [],
      'nothing half is left',
    );
  });

  test('is not kept of a build that was cancelled or took too long', async () => {
    const runner = await open();
    const { layers } = await runner.build('mkdir deps; echo good >deps/f', undefined);
    const spoil = 'echo bad >deps/f; trap "exit 0" TERM; echo; sleep 100 & wait';
    const late = await runner.build(spoil, layers, { timeoutMs: 300 });
    assert.deepEqual([late.reason, late.layers], ['timed_out', undefined]);
    const stop = new AbortController();
    const called = await runner.build(spoil, layers, { signal: stop.signal, onOutput: () => stop.abort() });
    assert.deepEqual([called.reason, called.layers], ['cancelled', undefined]);
    assert.equal((await runner.build('cat deps/f', layers)).text, 'good\n');
    assert.equal(runner.blobs.all.size, 1);
  });

  test('makes room where the disk has none: first what was unused for longest, and nothing that is in use', async () => {
    const place = join(folder, 'short', 'caches', '7');
    const there = (): string[] => readdirSync(place).toSorted();
    let most = 3; // with more layers than this, the disk lacks room
    const disk = { room: async (): Promise<number> => (there().length > most ? 0 : 2 ** 40) };
    const runner = await open(new Blobs(), 'short', disk);
    const built = [];
    for (const word of ['one', 'two', 'three'])
      built.push((await runner.build(`mkdir deps; echo ${word} >deps/f`, undefined)).layers ?? assert.fail());
    const [one = [], two = [], three = []] = built;
    const namesOf = (...some: (typeof one)[]): string[] => some.map(([layer]) => layer?.name ?? '').toSorted();
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

  test('of many layers becomes one, with what they show together', async () => {
    const runner = await open();
    let layers = (await runner.build('mkdir -p deps/old; echo 1 >deps/f; echo 2 >deps/old/g', undefined)).layers;
    for (const change of ['echo more >>deps/f', 'rm -r deps/old; mkdir ~/.tool; echo 3 >~/.tool/h', 'ln -s f deps/l'])
      layers = (await runner.build(change, layers)).layers;
    assert.equal(layers?.length, 4);
    const whole = await runner.fold(layers ?? []);
    assert.equal(whole?.length, 1);
    const look = 'ls -R deps ~/.tool; cat deps/l ~/.tool/h';
    const before = await runner.build(look, layers);
    assert.match(before.text, /1\nmore\n3\n$/);
    for (const one of [runner, await open(runner.blobs)]) {
      const after = await one.build(look, whole);
      assert.equal(after.text, before.text);
      assert.match(after.said, one === runner ? /^Restored/ : /^Fetching/);
    }
    // What cannot be folded stays as it is.
    const missing = [{ name: '5', digest: 'e'.repeat(64), bytes: 1 }];
    assert.equal(await runner.fold(missing), undefined);
  });

  test('that is missing or spoiled is done without, and the next one begins anew', async () => {
    const blobs = new Blobs();
    const { layers } = await (await open(blobs)).build('mkdir deps; echo one >deps/f', undefined);
    const [digest = ''] = blobs.all.keys();
    const bytes = blobs.all.get(digest) ?? assert.fail();
    for (const spoiled of [undefined, Buffer.concat([bytes, bytes])]) {
      if (spoiled) blobs.all.set(digest, spoiled);
      else blobs.all.delete(digest);
      const other = await open(blobs);
      const { said, text, layers: saved } = await other.build('ls deps; mkdir deps; echo two >deps/f', layers);
      assert.match(
        said,
        /The build begins without the cache of main \(1 KB\): it could not be fetched\.\nSaved the cache/,
      );
      assert.match(text, /No such file/);
      assert.equal(saved?.length, 1);
    }
  });

  test('stays when the runner is started anew; what was half made or may have been lost goes', async () => {
    const blobs = new Blobs();
    const { layers } = await (await open(blobs, 'again')).build('mkdir deps; echo kept >deps/f', undefined);
    const caches = join(folder, 'again', 'caches');
    mkdirSync(join(caches, 'making-x', 'tree'), { recursive: true });
    mkdirSync(join(caches, '7', '12345'), { recursive: true });
    const second = await open(blobs, 'again');
    assert.equal((await second.build('cat deps/f', layers)).said.split('\n')[0], 'Restored the cache of main (1 KB).');
    assert.deepEqual(blobs.read_, []);
    assert.deepEqual(readdirSync(caches), ['7']);
    assert.deepEqual(readdirSync(join(caches, '7')), [layers?.[0]?.name]);
    // The machine was started anew before the layer was on the disk: it is fetched.
    writeFileSync(join(caches, '7', layers?.[0]?.name ?? '', 'boot'), 'another');
    const third = await open(blobs, 'again');
    assert.match((await third.build('cat deps/f', layers)).said, /^Fetching/);
    // Written to the disk, it is good whatever happens.
    await third.caches.tidy(false);
    assert.ok(!readdirSync(join(caches, '7', layers?.[0]?.name ?? '')).includes('boot'));
    assert.match((await (await open(blobs, 'again')).build('cat deps/f', layers)).said, /^Restored/);
  });
});
