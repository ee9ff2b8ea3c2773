import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { run } from '../../../src/shared/lib/processes.ts';
import { freePort } from '../../support/ports.ts';
import { makeKeyPair } from '../../support/sshd.ts';
import { workplace } from './workplace.ts';
import type { ProxyTrouble } from '../../../src/runner/filtering-proxy.ts';
import { whyUnavailable } from '../../../src/runner/git/public-failures.ts';

test('a key that is not installed: the log says which it is and where to find it', async (t) => {
  const { host, repository, key, fetch, fetchFails } = await workplace(t);
  const sha = await repository.commit();
  await host.revoke(key.publicKey);
  const log = await fetchFails('key_refused', 'main');
  assert.match(
    log,
    /^Looking for main in \S+\nThe key of this project is not accepted by [^\n]+ Install it [^\n]+\nWhat git and the host said:\n[^]*Permission denied[^\n]*\n$/,
  );
  const fingerprint = await run('ssh-keygen', ['-l', '-f', '-'], { input: key.publicKey });
  assert.ok(log.includes(fingerprint.stdout.toString().split(' ')[1] ?? '?'), log);
  assert.match(log, /`ssh_public_key` of GET \/projects\/1/);
  assert.ok(!log.includes(key.publicKey.split(' ')[1] ?? ''), 'the log keeps no key');
  await host.authorize(key.publicKey);
  assert.equal((await fetch('main')).sha, sha);
});

test('a key that was taken away does not go on working', async (t) => {
  const { host, repository, key, fetch, fetchFails } = await workplace(t);
  await repository.commit();
  await fetch('main');
  await host.revoke(key.publicKey);
  await fetchFails('key_refused', 'main');
});

test('a host that does not exist, refuses, or hangs: the log says so, soon', async (t) => {
  const { host, fetchFails, folder, openMirrors, project } = await workplace(t, { connectSeconds: 1 });
  const log = await fetchFails('host_unreachable', 'main', { repositoryUrl: 'git@no-such-host.invalid:app.git' });
  assert.match(log, /no-such-host\.invalid does not respond.* the address is ssh:\/\/user@host:port\/path/s);

  await writeFile(join(folder, 'config'), `Host closed.test\nHostName 127.0.0.1\nPort ${await freePort()}\n`);
  const elsewhere = await openMirrors({ sshConfig: join(folder, 'config'), connectSeconds: 1 });
  const request = { ...project, commitRef: 'main', repositoryUrl: 'git@closed.test:app.git' };
  await assert.rejects(elsewhere.fetch(request), { kind: 'host_unreachable' });

  host.freeze();
  await fetchFails('host_unreachable', 'main');
  host.thaw();
});

test('a host that goes silent in the middle of a transfer is left', async (t) => {
  const { host, repository, fetchFails } = await workplace(t, { longestSilenceMs: 300 });
  await repository.commit();
  await host.fallSilent();
  await fetchFails('connection_lost', 'main');
});

test('a repository that is not there', async (t) => {
  const { host, fetchFails } = await workplace(t);
  const log = await fetchFails('repository_not_found', 'main', { repositoryUrl: host.url('nothing.git') });
  assert.match(
    log,
    /^Looking for main in \S+\nThe host \S+ answers, but has no repository at [^\n]+\nWhat git and the host said:\n[^]*does not appear to be a git repository/,
  );
  assert.doesNotMatch(log, /port 22/);
  const [user] = host.url('').split(':');
  const meant = await fetchFails('repository_not_found', 'main', { repositoryUrl: `${user}:2222/nothing.git` });
  assert.match(
    meant,
    /If 2222 in .* is meant as a port: git reads it as a folder\. Write ssh:\/\/[^ ]*:2222\/nothing\.git instead/,
  );
});

test('a ref that is not there, also in an empty repository: the log names those that are', async (t) => {
  const { repository, fetchFails } = await workplace(t);
  assert.match(await fetchFails('ref_not_found', 'main'), /nothing was pushed there yet/);
  const first = await repository.commit();
  await repository.commit();
  assert.match(
    await fetchFails('ref_not_found', 'mian'),
    /no branch, tag or commit “mian”.* Its branches are main\.\n/,
  );
  await repository.branch('a-first', first);
  assert.match(await fetchFails('ref_not_found', 'master'), /Its branches are main, a-first\.\n/);
  for (let count = 0; count < 10; count += 1) await repository.branch(`topic-${count}`, first);
  assert.match(await fetchFails('ref_not_found', 'master'), /Its branches are main, .*, and 2 more\.\n/);
  await fetchFails('ref_not_found', 'refs/heads/mian');
  await fetchFails('ref_not_found', 'abcdef0123');
  await fetchFails('ref_not_found', 'refs/pull/1/head');
});

test('what cannot be a ref or an address is refused before anything runs [promise: git-addresses]', async (t) => {
  const { host, fetchFails } = await workplace(t);
  for (const ref of ['', '--upload-pack=id', 'main~1', ':/x', 'a b', 'main\nrefs/heads/x']) {
    await fetchFails('invalid_ref', ref);
  }
  for (const repositoryUrl of ['-oProxyCommand=id:x', 'ext::id', '/etc', 'https://me:x@example.test/x.git']) {
    await fetchFails('invalid_url', 'main', { repositoryUrl });
  }
  assert.equal(host.logins(), 0);
});

test('a name for two commits is not guessed', async (t) => {
  const { repository, fetch, fetchFails } = await workplace(t);
  const first = await repository.commit();
  const second = await repository.commit();
  await repository.branch('both', first);
  await repository.tag('both', second);
  assert.match(await fetchFails('ambiguous_ref', 'both'), /refs\/tags\/both/);
  assert.equal((await fetch('refs/heads/both')).sha, first);
  assert.equal((await fetch('refs/tags/both')).sha, second);
  await repository.tag('both', first);
  assert.equal((await fetch('both')).refKind, 'branch');
});

test('a short SHA that fits several commits is not guessed', async (t) => {
  const { repository, fetch, fetchFails } = await workplace(t);
  const author = { name: 'A', email: 'a@example.test' };
  const twin = (second: number) =>
    repository.commit({
      message: 'x',
      files: {},
      author,
      authoredAt: `${second} +0000`,
      after: null,
      on: `at-${second}`,
    });
  const [one, other] = [await twin(3714), await twin(6210)]; // two seconds that were searched for
  assert.equal(one.slice(0, 7), other.slice(0, 7));
  await fetchFails('ambiguous_ref', one.slice(0, 7));
  assert.equal((await fetch(one.slice(0, 12))).sha, one);
});

test('a branch whose name looks like a SHA is a branch', async (t) => {
  const { repository, fetch } = await workplace(t);
  const first = await repository.commit();
  await repository.commit();
  await repository.branch('deadbeef', first);
  assert.deepEqual([(await fetch('deadbeef')).sha, (await fetch('deadbeef')).refKind], [first, 'branch']);
});

test('a host key is kept on first use, and a changed one is an error [promise: git-host-keys]', async (t) => {
  const { host, repository, dir, fetchFails, fetch, openMirrors, mirrors, project } = await workplace(t);
  await repository.commit();
  await fetch('main');
  assert.match(
    await readFile(join(dir, 'known_hosts'), 'utf8'),
    new RegExp(`^\\[127.0.0.1\\]:${host.port} ssh-ed25519 `),
  );
  await mirrors.close();
  await host.changeHostKey();
  const restarted = await openMirrors();
  await assert.rejects(restarted.fetch({ ...project, commitRef: 'main' }), { kind: 'host_key_changed' });
  // An operator may decide about host keys otherwise.
  await writeFile(
    host.sshConfig,
    `${await readFile(host.sshConfig, 'utf8')}\nStrictHostKeyChecking yes\nUserKnownHostsFile ${dir}/none\n`,
  );
  await assert.rejects(restarted.fetch({ ...project, commitRef: 'main' }), { kind: 'host_key_unknown' });
  await assert.rejects(fetchFails('host_key_changed', 'main')); // closed mirrors do no work
});

test('an SSH configuration that is wrong or missing is told apart from a host that fails', async (t) => {
  const { host, openMirrors, project, folder } = await workplace(t);
  await writeFile(host.sshConfig, 'NoSuchOption yes\n');
  const wrong = await openMirrors();
  await assert.rejects(wrong.fetch({ ...project, commitRef: 'main' }), { kind: 'ssh_misconfigured' });
  const missing = await openMirrors({ sshConfig: join(folder, 'nothing') });
  await assert.rejects(missing.fetch({ ...project, commitRef: 'main' }), { kind: 'ssh_misconfigured' });
});

test('a fetch can be cancelled while it connects and while it transfers', async (t) => {
  const { host, repository, fetch, project, log } = await workplace(t);
  const sha = await repository.commit();
  const cancelled = async (until: () => Promise<void>) => {
    const controller = new AbortController();
    const fetching = fetch('main', { signal: controller.signal });
    await until();
    controller.abort(new Error('cancelled'));
    await assert.rejects(fetching, /cancelled/);
  };
  host.freeze();
  await cancelled(async () => {});
  host.thaw();
  await cancelled(await host.fallSilent());
  await host.recover();
  assert.equal((await fetch('main')).sha, sha);
  assert.equal(log().includes(project.privateKey), false);
});

test('the private key of nobody reaches a log [promise: git-keys]', async (t) => {
  const { fetchFails } = await workplace(t);
  const other = await makeKeyPair();
  const log = await fetchFails('key_refused', 'main', { privateKey: other.privateKey });
  assert.equal(
    other.privateKey.split('\n').some((line) => line.length > 20 && log.includes(line)),
    false,
  );
});

test('what git and git-lfs say when they cannot have something public is told in words', () => {
  const told = (said: string, troubles: ProxyTrouble[] = []): string => whyUnavailable(said, troubles).why;
  assert.match(told('git-lfs filter-process: 1: git-lfs: not found\nfatal: the remote end hung up'), /not installed/);
  assert.match(told('fatal: the remote end hung up unexpectedly'), /closed the connection early/);
  assert.match(told("fatal: repository 'https://x/y/' not found"), /refuses anonymous access \(404\)/);
  assert.match(told("fatal: could not read Username for 'https://x'"), /\(401\)/);
  assert.match(told("fatal: unable to access 'https://x/': The requested URL returned error: 503"), /answers 503/);
  assert.match(told('Error downloading object: a.bin (1): Smudge error: [12ab] : [404]'), /\(404\)/);
  assert.match(told('anything', ['forbidden', 'unreachable']), /not public/);
  assert.match(told('fatal: repository not found', ['unreachable']), /does not answer/);
});
