import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { globMatcher } from '../../../src/shared/domain/globs.ts';
import type { Content, NewCommit } from '../../support/repository.ts';
import { workplace, type Workplace } from './workplace.ts';

const matchingIn =
  ({ mirrors, project }: Workplace) =>
  (sha: string, ...globs: string[]): Promise<string> =>
    mirrors.matching({ ...project, sha, globs });

test('files match as those of artifacts do, and count by path, mode and content', async (t) => {
  const place = await workplace(t);
  const { repository } = place;
  const digest = matchingIn(place);
  const files: Record<string, Content> = {
    'src/a.ts': 'a',
    'src/deep/er/b.ts': 'b',
    'src/.hidden/c.ts': 'c',
    'src.ts': 'd',
    'docs/src/e.md': 'e',
    '.env': 'f',
    'two\nlines': 'g',
    'tab\there': 'h',
    'Ünïcode/x': 'i',
    'srcs/z': 'j',
    run: { executable: '#!/bin/sh' },
    link: { link: 'src' },
  };
  const sha = await repository.commit({ files });
  const listed = await repository.git(['ls-tree', '-r', '-z', sha]);
  const entries = listed.split('\0').slice(0, -1);
  const sets = [
    ['src'],
    ['src/**/*.ts', 'docs'],
    ['**/*.ts'],
    ['*'],
    ['.env', 'src/.hidden'],
    ['{run,link}', 's[a-r]c.*'],
    ['two*', 'tab*', 'Ü*'],
    ['src/', './src/a.ts'],
    ['nothing'],
  ];
  const seen = new Set<string>();
  for (const globs of sets) {
    const matchers = globs.map((glob) => globMatcher(glob) ?? assert.fail(glob));
    const hash = createHash('sha256');
    for (const entry of entries)
      if (matchers.some((is) => is(entry.slice(entry.indexOf('\t') + 1)))) hash.update(`${entry}\0`);
    assert.equal(await digest(sha, ...globs), hash.digest('hex'), globs.join());
    seen.add(await digest(sha, ...globs));
  }
  assert.equal(seen.size, sets.length - 1); // the last but one is the first

  const before = await digest(sha, 'src', 'run', 'link');
  const after = async (commit: NewCommit) =>
    digest(await repository.commit({ after: sha, ...commit }), 'src', 'run', 'link');
  for (const same of [{ 'src.ts': 'x' }, { new: 'y' }, { '.env': null }, { 'docs/src/e.md': null }, {}])
    assert.equal(await after({ message: JSON.stringify(same), files: same }), before, JSON.stringify(same));
  const others: Record<string, Content>[] = [
    { 'src/a.ts': 'x' },
    { 'src/a.ts': null },
    { 'src/new': '' },
    { 'src/a.ts': null, 'src/b.ts': 'a' },
    { 'src/a.ts': { executable: 'a' } },
    { run: '#!/bin/sh' },
    { link: { link: 'docs' } },
    { link: 'src' },
  ];
  const found: string[] = [];
  for (const changed of others) found.push(await after({ files: changed }));
  assert.equal(new Set([before, ...found]).size, others.length + 1);
});

test('attributes count for the files below them, and submodules for patterns that lead into them', async (t) => {
  const place = await workplace(t);
  const { repository } = place;
  const digest = matchingIn(place);
  const [one, two] = ['1'.repeat(40), '2'.repeat(40)];
  const files = { 'src/in/a': 'a', 'other/b': 'b', 'lib/sub': { submodule: one } };
  const sha = await repository.commit({ files });
  const differs = async (globs: string[], changed: Record<string, Content>): Promise<boolean> =>
    (await digest(sha, ...globs)) !== (await digest(await repository.commit({ after: sha, files: changed }), ...globs));
  for (const at of ['.gitattributes', 'src/.gitattributes', 'src/in/.gitattributes'])
    assert.ok(await differs(['src/in/*'], { [at]: '* text eol=crlf\n' }), at);
  for (const at of ['other/.gitattributes', 'src/in/deeper/.gitattributes'])
    assert.ok(!(await differs(['src/in/a'], { [at]: '* text eol=crlf\n' })), at);
  for (const glob of ['lib', 'lib/sub', 'lib/sub/src/*.c', '**/*.c'])
    assert.ok(await differs([glob], { 'lib/sub': { submodule: two } }), glob);
  for (const glob of ['src', 'lib/*.c', 'lib/su/x'])
    assert.ok(!(await differs([glob], { 'lib/sub': { submodule: two } })), glob);
});

test('a merge has its own files, and leaves nothing in the mirror', async (t) => {
  const place = await workplace(t);
  const { repository, fetch, mirrors, project, dir } = place;
  const base = await repository.commit({ files: { a: '1', b: '1' } });
  const head = await repository.commit({ on: 'topic', after: base, files: { b: '2' } });
  const main = await repository.commit({ files: { a: '2' } });
  const both = await repository.commit({ on: 'both', after: main, files: { b: '2' } });
  await repository.git(['update-ref', 'refs/pull/7/head', head]);
  const { merge } = await fetch(head, { fetchRef: 'refs/pull/7/head', merge: { into: 'main', name: '42' } });
  assert.ok(merge);
  const contents = async (): Promise<string[]> => (await readdir(join(dir, 'mirrors'), { recursive: true })).toSorted();
  const before = await contents();
  const wanted = { ...project, sha: merge.sha, fetchRef: 'refs/pull/7/head', merge: { head, base: main, name: '42' } };
  for (const isFork of [true, false]) {
    const request = { ...wanted, isFork };
    assert.equal(await mirrors.matching({ ...request, globs: ['*'] }), await matchingIn(place)(both, '*'));
    assert.equal(await mirrors.mayLackParts(request), false);
  }
  assert.deepEqual(await contents(), before);
});

test('a commit may lack parts if it has submodules or names git-lfs, and is fetched to find out', async (t) => {
  const place = await workplace(t);
  const { repository, mirrors, project } = place;
  const none: Record<string, Content>[] = [
    { a: '1' },
    { '.gitattributes': '*.txt text\n', 'd/.gitattributes': '* -diff\n' },
    { 'lfs.txt': 'filter=lfs', 'd/.gitmodules': '[submodule "x"]' },
  ];
  const some: Record<string, Content>[] = [
    { '.gitmodules': '[submodule "x"]\n\tpath = x\n\turl = ../x\n' },
    { '.gitattributes': '*.bin filter=lfs diff=lfs\n' },
    { 'd/e/.gitattributes': '\0*.bin "filter=lfs"\n' },
    { '.gitattributes': '[attr]big filter=lfs\n', 'd/.gitattributes': '*.bin big\n' },
  ];
  for (const [expected, all] of [
    [false, none],
    [true, some],
  ] as const)
    for (const files of all) {
      const sha = await repository.commit({ after: null, files });
      assert.equal(await mirrors.mayLackParts({ ...project, sha }), expected, JSON.stringify(files));
    }
  const gone = { ...project, sha: 'f'.repeat(40) };
  await assert.rejects(mirrors.mayLackParts(gone), { kind: 'ref_not_found' });
  await assert.rejects(mirrors.matching({ ...gone, globs: ['*'] }), { kind: 'ref_not_found' });
});

test('what was found once is known without git', async (t) => {
  const place = await workplace(t);
  const { repository, mirrors, project } = place;
  const sha = await repository.commit({ files: { a: '1' } });
  const first = await mirrors.matching({ ...project, sha, globs: ['a'] });
  assert.equal(await mirrors.mayLackParts({ ...project, sha }), false);
  const elsewhere = { ...project, repositoryUrl: 'git@nowhere.invalid:app.git', sha };
  assert.equal(await mirrors.matching({ ...elsewhere, globs: ['a'] }), first);
  assert.equal(await mirrors.mayLackParts(elsewhere), false);
});
