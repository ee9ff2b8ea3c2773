import assert from 'node:assert/strict';
import { join } from 'node:path';
import { existsSync } from 'node:fs';
import { describe, test, type TestContext } from 'node:test';
import type { FoundCache } from '../../src/shared/protocol/index.ts';
import type { Mirrors } from '../../src/runner/git/mirrors.ts';
import { openSandboxes } from '../../src/runner/sandbox/index.ts';
import { Blobs, CachingRunner } from '../support/caching.ts';
import { createRepository, type Content } from '../support/repository.ts';
import { rustToolchain, typescriptToolchain } from '../support/toolchains.ts';
import { workplace, type Workplace } from './git/workplace.ts';

/** Makes a copy of each file of `src`, and says so; then says which copies are not what they should be. */
const makefile = `
SOURCES := $(shell cd src && find . -name .git -prune -o \\( -type f -o -type l \\) -print)
all: $(SOURCES:./%=out/%)
out/%: src/%
	@mkdir -p $(@D) && echo built $* && { cat $< && stat -Lc %a $<; } >$@
`;
const make = `make -s && for file in $(cd src && find . -name .git -prune -o \\( -type f -o -type l \\) -print); do
  { cat src/$file && stat -Lc %a src/$file; } | cmp -s - out/$file || echo "stale $file"; done`;

interface Site extends Workplace {
  commit: (files: Record<string, Content>, on?: string, after?: string) => Promise<string>;
  /** Runs a command, `make` unless told otherwise, on a commit. Answers what was built, and the cache from then on. */
  build: (
    sha: string,
    found?: FoundCache,
    more?: { command?: string; on?: Elsewhere; isSealed?: boolean },
  ) => Promise<{ built: string; cache: FoundCache }>;
  elsewhere: (name: string) => Promise<Elsewhere>;
  blobs: Blobs;
}

interface Elsewhere {
  runner: CachingRunner;
  mirrors: Mirrors;
}

/** `paths` are directories of the machine that builds see. */
async function site(t: TestContext, paths: string[] = []): Promise<Site> {
  const place = await workplace(t);
  const options = { network: 'none', isolation: 'required', log: () => {}, paths } as const;
  const sandboxes = await openSandboxes({ stateDir: join(place.folder, 'sandboxes'), ...options });
  t.after(() => sandboxes.close());
  const blobs = new Blobs();
  const elsewhere = async (name: string): Promise<Elsewhere> => ({
    runner: await CachingRunner.open(join(place.folder, name), sandboxes, blobs),
    mirrors: await place.openMirrors({ dir: join(place.folder, name, 'git') }),
  });
  const here = await elsewhere('here');
  let trees = 0;
  return {
    ...place,
    elsewhere,
    blobs,
    commit: (files, on = 'main', after) =>
      place.repository.commit({ on, ...(after && { after }), files: { Makefile: makefile, ...files } }),
    async build(sha, found, { command = make, on: { runner, mirrors } = here, isSealed = false } = {}) {
      const checkout = join(place.folder, `tree-${(trees += 1)}`);
      await mirrors.checkout({ ...place.project, sha, isSealed, into: checkout });
      runner.mirrors = mirrors;
      const { projectId, repositoryUrl } = place.project;
      const commit = { sha, checkout, source: { projectId, repositoryUrl } };
      const { text, said, cache = found } = await runner.build(command, found, { paths: ['out'], ...commit });
      assert.doesNotMatch(text, /stale/);
      assert.ok(cache, said + text + runner.logged.join('\n'));
      assert.doesNotMatch(said, /starts without|not saved/, runner.logged.join('\n'));
      const built = text.split('\n').flatMap((line) => /^built (.*)$/.exec(line)?.[1] ?? []);
      return { built: built.toSorted().join(' '), cache };
    },
  };
}

const pointer = (letter: string): string =>
  `version https://git-lfs.github.com/spec/v1\noid sha256:${letter.repeat(64)}\nsize 1\n`;
const files = {
  '.gitattributes': '*.bin filter=lfs\n',
  'src/a': 'a\n',
  'src/b': 'b\n',
  'src/in/c': 'c\n',
  'src/link': { link: 'a' },
  'src/x.bin': pointer('a'),
};
const all = 'a b in/c link x.bin';

describe('a build with a cache makes again what has changed, and nothing else', () => {
  /** Each kind of change, in files of its own. */
  const before = {
    '.gitattributes': '*.bin filter=lfs\n',
    'src/changed': '1\n',
    'src/deleted': '1\n',
    'src/renamed': 'the same\n',
    'src/first-of-two': '1\n',
    'src/second-of-two': '2\n',
    'src/mode': '1\n',
    'src/led-to': '1\n',
    'src/led-to-next': '1\n',
    'src/link': { link: 'led-to' },
    'src/becomes-link': '1\n',
    'src/led-to-by-that': '1\n',
    'src/was-link': { link: 'led-to' },
    'src/becomes-directory': '1\n',
    'src/written/otherwise': '1\n',
    'src/pointer.bin': pointer('a'),
  };
  const changed: Record<string, Content> = {
    'src/changed': '2\n',
    'src/new': '1\n',
    'src/deleted': null,
    'src/renamed': null,
    'src/has-another-name': 'the same\n',
    'src/first-of-two': '2\n',
    'src/second-of-two': '1\n',
    'src/mode': { executable: '1\n' },
    'src/link': { link: 'led-to-next' },
    'src/becomes-link': { link: 'led-to-by-that' },
    'src/was-link': '1\n',
    'src/becomes-directory': null,
    'src/becomes-directory/file': '1\n',
    'src/written/.gitattributes': '* eol=crlf\n',
    'src/pointer.bin': pointer('b'),
  };
  // What a link leads to is as new as the link: make looks through it.
  const madeAgain = [
    'becomes-directory/file',
    'becomes-link',
    'changed',
    'first-of-two',
    'has-another-name',
    'led-to-by-that',
    'led-to-next',
    'link',
    'mode',
    'new',
    'pointer.bin',
    'second-of-two',
    'was-link',
    'written/.gitattributes',
    'written/otherwise',
  ];
  test('nothing, and one change of each kind', async (t) => {
    const { commit, build } = await site(t);
    const { built: first, cache } = await build(await commit(before));
    assert.equal(first.split(' ').length, Object.keys(before).length - 1);
    assert.equal((await build(await commit({ other: 'beside\n' }), cache)).built, '');
    const again = await build(await commit(changed), cache, { command: `rm out/becomes-directory; ${make}` });
    assert.deepEqual(again.built.split(' '), madeAgain);
  });

  test('of a commit that is older than the cache, and of one that was reverted', async (t) => {
    const { commit, build } = await site(t);
    const [first, second] = [await commit(files), await commit({ 'src/b': 'B\n' })];
    const { cache } = await build(second);
    assert.equal((await build(first, cache)).built, 'b');
    const reverted = await commit({ 'src/b': 'b\n' });
    assert.equal((await build(reverted, cache)).built, 'b');
    assert.equal((await build(second, (await build(reverted, cache)).cache)).built, 'b');
  });

  test('in a work tree without history, as in one with it', async (t) => {
    const { commit, build, elsewhere } = await site(t);
    const { cache } = await build(await commit(files), undefined, { isSealed: true });
    const second = await commit({ 'src/b': 'B\n' });
    for (const on of [undefined, await elsewhere('there')])
      assert.equal((await build(second, cache, { isSealed: true, ...(on && { on }) })).built, 'b');
    assert.equal((await build(await commit({ 'src/b': 'b\n', other: 'x' }), cache, { isSealed: true })).built, '');
  });

  test('with the cache of another branch, and on another runner, which fetches it', async (t) => {
    const { commit, build, elsewhere, repository } = await site(t);
    const first = await commit(files);
    const { cache } = await build(first);
    await repository.branch('side', first);
    await commit({ 'src/a': 'on main\n' });
    const side = await commit({ 'src/in/c': 'on the side\n' }, 'side');
    for (const on of [undefined, await elsewhere('there')])
      assert.equal((await build(side, cache, on && { on })).built, 'in/c');
  });

  test('all of it where the commit of the cache is gone', async (t) => {
    const { commit, build, elsewhere, repository } = await site(t);
    const { cache } = await build(await commit(files));
    const pushed = await repository.commit({ after: null, files: { Makefile: makefile, ...files, 'src/b': 'B\n' } });
    await repository.git(['reflog', 'expire', '--expire=now', '--all']);
    await repository.git(['gc', '--quiet', '--prune=now']);
    // This runner still has it, and the other one never had it.
    assert.equal((await build(pushed, cache)).built, 'b');
    const on = await elsewhere('there');
    const anew = await build(pushed, cache, { on });
    assert.equal(anew.built, all);
    assert.equal((await build(pushed, anew.cache, { on })).built, '');
  });

  test('with files of submodules', async (t) => {
    const { commit, build, host } = await site(t);
    const library = await createRepository(join(host.folder, 'lib.git'));
    const libraryAt = (content: string): Promise<string> => library.commit({ files: { one: content, two: 'same\n' } });
    const declared = '[submodule "lib"]\n\tpath = src/lib\n\turl = ../lib.git\n';
    const withLibrary = async (content: string): Promise<string> =>
      commit({ ...files, '.gitmodules': declared, 'src/lib': { submodule: await libraryAt(content) } });
    const first = await build(await withLibrary('1\n'));
    assert.equal(first.built, `${all} lib/one lib/two`.split(' ').toSorted().join(' '));
    assert.equal((await build(await commit({ 'src/a': 'A\n' }), first.cache)).built, 'a link');
    assert.equal((await build(await withLibrary('2\n'), first.cache)).built, 'lib/one lib/two');
  });

  test('where the cache comes from a machine whose clock is an hour ahead', async (t) => {
    const { commit, build, elsewhere } = await site(t);
    // Of what it made, the copy of b is older than its source would have it.
    const ahead = `${make}; find out -exec touch -d '+1 hour' {} +; touch -d '+50 minutes' out/b; touch -d '+55 minutes' out/stamp`;
    const first = await build(await commit(files), undefined, { command: ahead });
    const second = await commit({ 'src/in/c': 'C\n' });
    const order = `${make}; [ out/stamp -nt out/b ] && [ out/a -nt out/stamp ] && [ src/in/c -nt out/a ] && [ out/in/c -nt src/in/c ] && echo built in order`;
    for (const on of [undefined, await elsewhere('there')]) {
      const { built, cache } = await build(second, first.cache, { command: order, ...(on && { on }) });
      assert.equal(built, 'in order in/c');
      assert.equal((await build(second, cache, on && { on })).built, '');
    }
  });

  test('where the build that saved it had changed files of its commit itself', async (t) => {
    const { commit, build } = await site(t);
    const change = `echo changed >src/b; rm src/in/c; ln -sf /etc/passwd src/a; echo new >src/new; ${make}`;
    const sha = await commit(files);
    const first = await build(sha, undefined, { command: change });
    assert.equal(first.built, 'a b link new x.bin');
    // For the same commit and for the next one, its files are what they were.
    const again = await build(sha, first.cache);
    assert.equal(again.built, 'a b in/c link');
    assert.equal((await build(sha, again.cache)).built, '');
    assert.equal((await build(await commit({ 'src/x.bin': pointer('b') }), first.cache)).built, 'a b in/c link x.bin');
    const moved = await commit({ 'src/in/c': null, 'src/in': 'a file now\n' });
    assert.equal((await build(moved, first.cache, { command: `rm -rf out/in; ${make}` })).built, 'a b in link x.bin');
  });

  /** Its copies have no comments, so they are often the same. */
  const plain = `
SOURCES := $(wildcard src/*)
all: $(SOURCES:src/%=out/%)
out/%: src/%
	@mkdir -p out && echo built $* && grep -v '^#' $< >$@
`;
  const command = 'make -s';

  test('once, where it makes the same again: the cache gets the commit, and nothing is sent', async (t) => {
    const { commit, build, blobs } = await site(t);
    const { cache } = await build(await commit({ Makefile: plain, 'src/a': 'a\n', 'src/b': 'b\n' }), undefined, {
      command,
    });
    const commented = await build(await commit({ Makefile: plain, 'src/b': '# a letter\nb\n' }), cache, { command });
    assert.equal(commented.built, 'b');
    assert.equal(commented.cache.digest, cache.digest);
    const next = await build(await commit({ Makefile: plain, 'src/a': 'A\n' }), commented.cache, { command });
    assert.equal(next.built, 'a');
    assert.equal(blobs.all.size, 2);
  });

  test('once, where the build that saved it had changed a file, and made the same of it', async (t) => {
    const { commit, build } = await site(t);
    const sha = await commit({ Makefile: plain, 'src/a': 'a\n', 'src/b': 'b\n' });
    const changing = await build(sha, undefined, { command: `echo '# changed' >>src/b; ${command}` });
    assert.equal(changing.built, 'a b');
    const again = await build(sha, changing.cache, { command });
    assert.equal(again.built, 'b');
    assert.equal((await build(sha, again.cache, { command })).built, '');
  });

  test('whatever times the tools have set', async (t) => {
    const { commit, build } = await site(t);
    const odd = `${make}; touch -d @0 out/a; touch -d 2099-01-01 out/b; touch -h -d @0 out/in/c`;
    const first = await build(await commit(files), undefined, { command: odd });
    assert.equal((await build(await commit({ 'src/b': 'B\n' }), first.cache)).built, 'b');
    assert.equal((await build(await commit({ 'src/b': 'b\n' }), first.cache)).built, '');
  });
});

test('all files and directories of a work tree are of one old time, and git knows it', async (t) => {
  const { commit, build, host } = await site(t);
  const library = await createRepository(join(host.folder, 'lib.git'));
  const lib = { submodule: await library.commit({ files: { 'deep/er': '1\n' } }) };
  const declared = '[submodule "lib"]\n\tpath = src/shared/lib\n\turl = ../lib.git\n';
  const sha = await commit({ ...files, '.gitmodules': declared, 'src/shared/lib': lib });
  const look = `mkdir out; find . -mindepth 1 -name .git -prune -o -path ./out -prune -o -printf '%T@\\n' | sort -u | sed 's/^/built /'
    [ -z "$(git diff-files)" ] && echo built clean`;
  const { built } = await build(sha, undefined, { command: `${look}; date >out/f` });
  assert.equal(built, '315619200.0000000000 clean');
});

test('what differs is newer in its own build alone, whatever its name is', async (t) => {
  const { commit, build } = await site(t);
  const names = ['-rf', 'a b', 'new\nline', '$(id)', "'", 'ü', '*'].map((name) => `src/${name}`);
  const contents = (text: string) => Object.fromEntries(names.map((name) => [name, text]));
  const fill = 'mkdir -p out; date +%N >out/f';
  const first = await build(await commit({ ...contents('1'), 'src/same': '1' }), undefined, { command: fill });
  const second = await commit(contents('2'));
  const look = `find src -type f -newer out/f -printf . | wc -c | sed 's/^/built /'; find src -type f ! -newer out/f | sed 's/^/built /'`;
  for (const _ of [1, 2])
    assert.equal((await build(second, first.cache, { command: look })).built, `${names.length} src/same`);
});

/** Small projects of the usual shapes, with the tools of this machine: a file changes, and only what it is part of is made. */
describe('only what changed is made again by', () => {
  interface Project {
    files: Record<string, string>;
    command: string;
    /** Finds in the output what was made. */
    made: RegExp;
    changes: Record<string, string>;
    first: string;
    again: string;
    paths?: string[];
  }
  const check = async (t: TestContext, { files, command, made, changes, first, again, paths = [] }: Project) => {
    const { commit, build } = await site(t, paths);
    const told = `(${command}) >/tmp/said 2>&1 || cat /tmp/said; perl -ne 'print "built $1\\n" if m{${made.source}}' /tmp/said`;
    const one = await build(await commit(files), undefined, { command: told });
    assert.equal(one.built, first);
    const two = await build(await commit({ ...files, 'README.md': 'Words.\n' }), one.cache, { command: told });
    assert.equal(two.built, '', 'where nothing of it changed');
    assert.equal((await build(await commit({ ...files, ...changes }), two.cache, { command: told })).built, again);
  };
  const c = {
    'a.c': '#include "a.h"\nint a(void) { return A; }\n',
    'a.h': '#define A 1\n',
    'b.c': 'int b(void) { return 2; }\n',
    'main.c': '#include "a.h"\nint a(void), b(void);\nint main(void) { return a() - A + b() - 2; }\n',
  };
  const lacks = (path: string, name: string): string | false => !existsSync(path) && `there is no ${name}`;

  test('make, with a compiler that writes down what it includes', { skip: lacks('/usr/bin/cc', 'cc') }, (t) =>
    check(t, {
      files: {
        ...c,
        Makefile: `out/program: out/a.o out/b.o out/main.o
\tcc -o $@ $^
out/%.o: %.c
\t@mkdir -p out
\tcc -MMD -c -o $@ $<
-include $(wildcard out/*.d)
`,
      },
      command: 'make && out/program',
      made: /^cc .*-o out.(\S+)/,
      changes: { 'a.h': '#define A 3\n' },
      first: 'a.o b.o main.o program',
      again: 'a.o main.o program',
    }),
  );

  test('ninja', { skip: lacks('/usr/bin/ninja', 'ninja') }, (t) =>
    check(t, {
      files: {
        ...c,
        'build.ninja': `builddir = out
rule cc
  command = cc -MMD -MF $out.d -c -o $out $in
  depfile = $out.d
  deps = gcc
rule link
  command = cc -o $out $in
build out/a.o: cc a.c
build out/b.o: cc b.c
build out/main.o: cc main.c
build out/program: link out/a.o out/b.o out/main.o
`,
      },
      command: 'ninja -v && out/program',
      made: /cc .*-o out.(\S+)/,
      changes: { 'b.c': 'int b(void) { return 1 + 1; }\n' },
      first: 'a.o b.o main.o program',
      again: 'b.o program',
    }),
  );

  test('cargo, in a workspace', async (t) => {
    const toolchain = await rustToolchain();
    if (toolchain === undefined) return t.skip('there is no cargo');
    const crate = (name: string, more = ''): string =>
      `[package]\nname = "${name}"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\n${more}`;
    await check(t, {
      files: {
        'Cargo.toml': '[workspace]\nmembers = ["app", "one", "two"]\nresolver = "2"\n',
        'one/Cargo.toml': crate('one'),
        'one/src/lib.rs': 'pub fn one() -> i32 { 1 }\n',
        'two/Cargo.toml': crate('two'),
        'two/src/lib.rs': 'pub fn two() -> i32 { 2 }\n',
        'app/Cargo.toml': crate('app', 'one = { path = "../one" }\ntwo = { path = "../two" }\n'),
        'app/src/main.rs': 'fn main() { assert_eq!(one::one() + 1, two::two()); }\n',
      },
      command: `export PATH=${[...toolchain.bin, '$PATH'].join(':')} CARGO_TARGET_DIR=out; cargo run --offline`,
      made: /Compiling (\w+) /,
      changes: { 'two/src/lib.rs': 'pub fn two() -> i32 { 1 + 1 }\n' },
      first: 'app one two',
      again: 'app two',
      paths: toolchain.paths,
    });
  });

  test('tsc -b, in a project with references', async (t) => {
    const toolchain = typescriptToolchain();
    if (toolchain === undefined) return t.skip('builds cannot be shown the folder of the working copy');
    const { bin, paths } = toolchain;
    const options = (name: string, more = ''): string =>
      `{ "compilerOptions": { "composite": true, "rootDir": ".", "outDir": "../out/${name}", "tsBuildInfoFile": "../out/${name}.tsbuildinfo", "types": [] }, "include": ["*.ts"]${more} }`;
    await check(t, {
      files: {
        'tsconfig.json': '{ "files": [], "references": [{ "path": "one" }, { "path": "two" }] }',
        'one/tsconfig.json': options('one'),
        'one/index.ts': 'export const one: number = 1;\n',
        'two/tsconfig.json': options('two'),
        'two/index.ts': 'export const two: number = 2;\n',
      },
      command: `PATH=${bin.join(':')}:$PATH tsc -b --verbose`,
      made: /Building project .*?(one|two).tsconfig/,
      changes: { 'two/index.ts': 'export const two: number = 1 + 1;\n' },
      first: 'one two',
      again: 'two',
      paths,
    });
  });

  test('go', { skip: lacks('/usr/bin/go', 'go') }, (t) =>
    check(t, {
      files: {
        'go.mod': 'module example.test/app\n',
        'one/one.go': 'package one\n\nfunc One() int { return 1 }\n',
        'two/two.go': 'package two\n\nfunc Two() int { return 2 }\n',
        'main.go':
          'package main\n\nimport ("example.test/app/one"; "example.test/app/two")\n\nfunc main() { println(one.One() + two.Two()) }\n',
      },
      command: 'GOCACHE=$PWD/out go build -v -o /tmp/app .',
      made: /^example.test.app.?(\w*)$/,
      changes: { 'two/two.go': 'package two\n\nfunc Two() int { return 3 }\n' },
      first: ' one two',
      again: ' two',
    }),
  );
});
