import assert from 'node:assert/strict';
import test from 'node:test';
import { isRefName } from '../../../src/domain/ref-names.ts';
import { parseCommitRef } from '../../../src/runner/git/refs.ts';
import { parseRepositoryUrl, resolveSubmoduleUrl } from '../../../src/runner/git/repository-url.ts';

test('a repository address is taken apart', () => {
  assert.deepEqual(parseRepositoryUrl('git@example.test:team/app.git'), {
    transport: 'ssh',
    url: 'git@example.test:team/app.git',
    destination: 'git@example.test',
    host: 'example.test',
    path: 'team/app.git',
  });
  assert.equal(parseRepositoryUrl('git@[2001:db8::1]:/srv/app.git')?.destination, 'git@2001:db8::1');
  assert.equal(parseRepositoryUrl('alias:~me/app.git')?.destination, 'alias');
});

test('a text that git or ssh would take for an option or a command is no address', () => {
  for (const url of [
    '',
    'app.git',
    '/srv/app.git',
    './app.git',
    'ssh://git@example.test/app.git',
    'https://example.test/app.git',
    'file:///srv/app.git',
    'ext::sh -c id',
    'ext::id',
    'fd::3',
    '-oProxyCommand=id@example.test:app.git',
    '-oProxyCommand=id:app.git',
    'git@-oProxyCommand=id:app.git',
    'git@example.test:-upload-pack=id',
    'git@example.test:',
    'git@example.test:a b',
    'git@example.test:app.git\nHost *',
    'git@exa mple.test:app.git',
    'git@example.test:app\0.git',
    `git@example.test:${'a'.repeat(2000)}`,
  ]) {
    assert.equal(parseRepositoryUrl(url), undefined, url);
  }
});

test('the address of a submodule is read against that of its repository', () => {
  const base = parseRepositoryUrl('git@example.test:team/app.git');
  const rooted = parseRepositoryUrl('git@example.test:/srv/team/app.git');
  assert.ok(base && rooted);
  assert.equal(resolveSubmoduleUrl(base, '../lib.git')?.url, 'git@example.test:team/lib.git');
  assert.equal(resolveSubmoduleUrl(base, '../../other/lib.git')?.url, 'git@example.test:other/lib.git');
  assert.equal(resolveSubmoduleUrl(rooted, '../lib.git')?.url, 'git@example.test:/srv/team/lib.git');
  assert.equal(resolveSubmoduleUrl(base, './sub.git')?.url, 'git@example.test:team/app.git/sub.git');
  assert.equal(resolveSubmoduleUrl(base, 'git@other.test:lib.git')?.url, 'git@other.test:lib.git');
  assert.equal(resolveSubmoduleUrl(base, '../../../lib.git'), undefined);
  assert.equal(resolveSubmoduleUrl(base, '../../-oProxyCommand=id'), undefined);
  const open = resolveSubmoduleUrl(base, 'https://me:secret@Example.test/team/app.git/#x');
  assert.deepEqual(
    [open?.transport, open?.url, open?.host],
    ['https', 'https://example.test/team/app.git', 'example.test'],
  );
  assert.ok(open);
  assert.equal(resolveSubmoduleUrl(open, '../lib.git')?.url, 'https://example.test/team/lib.git');
  assert.equal(resolveSubmoduleUrl(open, '../../../lib.git'), undefined);
  assert.equal(resolveSubmoduleUrl(open, 'git@other.test:lib.git')?.transport, 'ssh');
  for (const none of [
    'https://',
    'https://host',
    'https://-oProxyCommand=id/x',
    'https://a b/x',
    'https://h/x?y',
    'http://h/x',
  ]) {
    assert.equal(resolveSubmoduleUrl(base, none), undefined, none);
  }
});

test('names that git allows are ref names, and no others', () => {
  for (const name of ['main', 'feature/a.b', 'release-1.0', 'ä/ß', 'a@b', 'v1', 'HEAD'])
    assert.ok(isRefName(name), name);
  for (const name of [
    '',
    '@',
    '-x',
    'a..b',
    'a b',
    'a~1',
    'a^',
    'a:b',
    'a?',
    'a*',
    '[a',
    'a\\b',
    'a@{1}',
    '/a',
    'a/',
    'a//b',
    '.a',
    'a/.b',
    'a.lock',
    'a.lock/b',
    'a.',
    'a\nb',
    'a\0',
    'x'.repeat(600),
  ]) {
    assert.ok(!isRefName(name), name);
  }
});

function kinds(asked: string): string[] | undefined {
  return parseCommitRef(asked)?.candidates.map((place) => place.kind);
}

test('a full SHA is a commit, a short one perhaps, and seven digits are the least', () => {
  const sha = 'ABCDEF0123'.repeat(4);
  assert.equal(parseCommitRef(sha)?.fullSha, sha.toLowerCase());
  assert.deepEqual(kinds('abcdef0'), ['branch', 'tag', 'sha']);
  assert.deepEqual(kinds('abcdef'), ['branch', 'tag']);
  assert.deepEqual(kinds('refs/tags/x'), ['tag']);
  assert.equal(parseCommitRef('main~1'), undefined);
});
