import assert from 'node:assert/strict';
import test from 'node:test';
import { isRefName } from '../../../src/shared/domain/ref-names.ts';
import { parseCommitRef } from '../../../src/runner/git/refs.ts';
import { parseGitAddress } from '../../../src/shared/domain/git-address.ts';
import { resolveSubmoduleUrl } from '../../../src/runner/git/submodules.ts';

test('the address of a submodule is read against that of its repository', () => {
  const base = parseGitAddress('git@example.test:team/app.git');
  const rooted = parseGitAddress('git@example.test:/srv/team/app.git');
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
    [open?.scheme, open?.url, open?.host],
    ['https', 'https://Example.test/team/app.git', 'Example.test'],
  );
  assert.ok(open);
  assert.equal(resolveSubmoduleUrl(open, '../lib.git')?.url, 'https://Example.test/team/lib.git');
  assert.equal(resolveSubmoduleUrl(open, '../../../lib.git'), undefined);
  assert.equal(resolveSubmoduleUrl(open, 'git@other.test:lib.git')?.scheme, 'ssh');
  const elsewhere = parseGitAddress('ssh://git@example.test:2222/team/app.git');
  assert.ok(elsewhere);
  const sibling = resolveSubmoduleUrl(elsewhere, '../lib.git');
  assert.deepEqual([sibling?.url, sibling?.port], ['ssh://git@example.test:2222/team/lib.git', 2222]);
  const byHome = parseGitAddress('ssh://git@example.test:2222/~me/app.git');
  assert.ok(byHome);
  assert.equal(resolveSubmoduleUrl(byHome, '../lib.git')?.path, '~me/lib.git');
  const ported = parseGitAddress('https://example.test:8443/team/app');
  assert.ok(ported);
  assert.equal(resolveSubmoduleUrl(ported, '../lib')?.url, 'https://example.test:8443/team/lib');
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
