import assert from 'node:assert/strict';
import test from 'node:test';
import {
  destinationOf,
  isSameRepository,
  parseGitAddress,
  pastedAddress,
  scpLikeForm,
} from '../../../src/shared/domain/git-address.ts';

test('an address is taken apart', () => {
  const parts = (url: string): unknown[] => {
    const address = parseGitAddress(url);
    assert.ok(address, url);
    const { scheme, host, port, path } = address;
    assert.equal(address.url, url);
    return [scheme, destinationOf(address), host, port, path];
  };
  for (const [url, ...expected] of [
    ['git@example.test:team/app.git', 'ssh', 'git@example.test', 'example.test', undefined, 'team/app.git'],
    ['git@[2001:db8::1]:/srv/app.git', 'ssh', 'git@2001:db8::1', '2001:db8::1', undefined, '/srv/app.git'],
    ['alias:~me/app.git', 'ssh', 'alias', 'alias', undefined, '~me/app.git'],
    ['git@example.test:2222/app.git', 'ssh', 'git@example.test', 'example.test', undefined, '2222/app.git'],
    ['ssh://git@example.test:2222/app.git', 'ssh', 'git@example.test', 'example.test', 2222, '/app.git'],
    ['ssh://git@example.test/~me/app.git', 'ssh', 'git@example.test', 'example.test', undefined, '~me/app.git'],
    ['ssh://git@[::1]:22/app', 'ssh', 'git@::1', '::1', 22, '/app'],
    ['ssh://git@example.test/%C3%BC.git', 'ssh', 'git@example.test', 'example.test', undefined, '/ü.git'],
    ['https://example.test/team/app', 'https', 'example.test', 'example.test', undefined, '/team/app'],
    [
      'https://example.test:8443/My%20Team/app.git',
      'https',
      'example.test',
      'example.test',
      8443,
      '/My%20Team/app.git',
    ],
  ] as const)
    assert.deepEqual(parts(url), expected, url);
});

test('a text that git or ssh would take for an option or a command is no address', () => {
  for (const url of [
    '',
    'app.git',
    '/srv/app.git',
    './app.git',
    'file:///srv/app.git',
    'http://example.test/app.git',
    'git://example.test/app.git',
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
    'git@example.test:../app.git',
    `git@example.test:${'a'.repeat(2000)}`,
    'ssh://-oProxyCommand=id@example.test/app.git',
    'ssh://git@-oProxyCommand=id/app.git',
    'ssh://git:secret@example.test/app.git',
    'ssh://git@example.test:0/app.git',
    'ssh://git@example.test:65536/app.git',
    'ssh://git@example.test:22x/app.git',
    'ssh://git@example.test/',
    'ssh://git@example.test/a%20b',
    'ssh://git@example.test/a%0ab',
    'https://example.test',
    'https://example.test/.git',
    'https://me@example.test/app.git',
    'https://me:secret@example.test/app.git',
    'https://example.test/team%2fapp.git',
    'https://example.test/team/../app.git',
    'https://example.test/team/%2e%2e/app.git',
    'https://example.test/app.git?service=x',
    'https://example.test/app.git#x',
    'https://example.test\\@other.test/app.git',
    'https://example.test/a\nb',
    'https://-oProxyCommand=id/app.git',
  ])
    assert.equal(parseGitAddress(url), undefined, url);
});

test('every address has a form without a protocol', () => {
  for (const [url, form] of [
    ['git@example.test:team/app.git', 'git@example.test:team/app.git'],
    ['me@example.test:/srv/app', 'me@example.test:/srv/app'],
    ['ssh://me@example.test:2222/team/app.git', 'me@example.test:team/app.git'],
    ['ssh://git@[::1]:22/app', 'git@[::1]:app'],
    ['https://example.test:8443/team/app', 'git@example.test:team/app'],
  ] as const) {
    assert.equal(scpLikeForm(url), form);
    assert.ok(isSameRepository(url, form), url);
  }
});

test('what people copy somewhere is read as they mean it', () => {
  for (const [pasted, meant] of [
    ['  git@example.test:team/app.git\n', 'git@example.test:team/app.git'],
    ['git clone git@example.test:team/app.git', 'git@example.test:team/app.git'],
    ['git+ssh://git@example.test/team/app.git', 'ssh://git@example.test/team/app.git'],
    ['ssh://example.test:2222/team/app.git', 'ssh://git@example.test:2222/team/app.git'],
    ['HTTPS://Example.test/team/app/', 'https://Example.test/team/app'],
    ['http://example.test/team/app', 'https://example.test/team/app'],
    ['example.test/team/app', 'https://example.test/team/app'],
    ['https://me@example.test/team/app.git', 'https://example.test/team/app.git'],
    ['https://example.test/team/app?tab=readme#usage', 'https://example.test/team/app'],
    // Whoever pastes a password hears that it does not belong there.
    ['https://me:secret@example.test/team/app', 'https://me:secret@example.test/team/app'],
    ['ext::sh -c id', 'ext::sh -c id'],
  ] as const)
    assert.equal(pastedAddress(pasted), meant);
});

test('a repository is the same one by whichever address', () => {
  const own = 'git@git.example.test:Team/App.git';
  for (const other of [
    'git.example.test:team/app',
    'ssh://git@GIT.example.test:2222/team/app.git/',
    'https://git.example.test:8443/Team/App',
    'git@git.example.test:/team/app.git',
    'git@git.example.test:~/team/app.git',
  ])
    assert.ok(isSameRepository(own, other), other);
  for (const other of [
    'git@example.test:team/app.git',
    'git@git.example.test:team/app2.git',
    'https://git.example.test/app',
    '',
  ])
    assert.ok(!isSameRepository(own, other), other);
});
