import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { serveSshAgent } from '../../../src/shared/lib/ssh-agent.ts';
import { parseSshPrivateKey } from '../../../src/shared/lib/ssh-private-key.ts';
import { run } from '../../../src/shared/lib/processes.ts';
import { FetchError } from '../../../src/runner/git/failures.ts';
import { makeKeyPair, startGitHost } from '../../support/sshd.ts';
import { workplace } from './workplace.ts';
import { longestWait } from '../../support/pauses.ts';

test('fetches of one project share a connection; two projects never do, even with one key [promise: git-keys]', async (t) => {
  const { host, repository, fetch } = await workplace(t);
  await repository.commit();
  await Promise.all([fetch('main'), fetch('main'), fetch('main')]);
  await fetch('main');
  assert.equal(host.logins(), 1);
  await fetch('main', { projectId: '2' });
  assert.equal(host.logins(), 2);
});

test('a connection that broke since is made anew without a word of failure', async (t) => {
  const { host, repository, fetch } = await workplace(t);
  await repository.commit();
  await fetch('main');
  for (let time = 0; time < 3; time += 1) {
    const sha = await repository.commit();
    await host.cutConnections();
    assert.equal((await fetch('main')).sha, sha);
  }
  assert.equal(host.logins(), 4);
});

test('a connection whose door is gone is not taken for a key that is refused', async (t) => {
  const { host, repository, fetch, dir } = await workplace(t);
  const sha = await repository.commit();
  await fetch('main');
  const [mine = ''] = await readdir(join(dir, 'run'));
  await rm(join(dir, 'run', mine, 'connection-1'));
  assert.equal((await fetch('main')).sha, sha);
  assert.equal(host.logins(), 2);
});

test('a connection that nobody uses is ended', async (t) => {
  const { repository, fetch, dir } = await workplace(t, { connectionMs: 1 });
  await repository.commit();
  await fetch('main');
  const [mine = ''] = await readdir(join(dir, 'run'));
  const files = async () => (await readdir(join(dir, 'run', mine))).filter((name) => name.startsWith('connection'));
  for (const start = Date.now(); (await files()).length > 0; await pause(5))
    assert.ok(Date.now() - start < longestWait);
  const processes = (await run('ps', ['axww', '-o', 'args='])).stdout.toString();
  assert.equal(processes.includes(`${dir}/run/${mine}/connection`), false);
});

test('a key that was taken away works for a while at the most, however busy its connection is', async (t) => {
  const connectionMs = 1000;
  const { host, repository, key, project, mirrors, fetch } = await workplace(t, { connectionMs });
  await repository.commit();
  await fetch('main');
  await host.withdraw(key.publicKey); // what is open stays open
  const since = performance.now();
  for (let begun = since; ; begun = performance.now()) {
    const failure = await mirrors.fetch({ ...project, commitRef: 'main' }).then(
      () => undefined,
      (error: unknown) => error,
    );
    if (failure === undefined) {
      assert.ok(begun - since < connectionMs, 'a fetch that began later must not find an open door');
      continue;
    }
    assert.ok(failure instanceof FetchError && failure.kind === 'key_refused', 'it fails for the key');
    break;
  }
  assert.equal(host.logins(), 1);
});

test('only the key of the project is offered, whatever else this user could show', async (t) => {
  const { host, fetchFails, folder } = await workplace(t);
  const installed = await makeKeyPair();
  await host.authorize(installed.publicKey);
  const agent = await serveSshAgent(join(folder, 'agent'), parseSshPrivateKey(installed.privateKey));
  const before = process.env['SSH_AUTH_SOCK'];
  process.env['SSH_AUTH_SOCK'] = join(folder, 'agent');
  t.after(async () => {
    if (before === undefined) delete process.env['SSH_AUTH_SOCK'];
    else process.env['SSH_AUTH_SOCK'] = before;
    await agent.close();
  });
  const { privateKey } = await makeKeyPair();
  await fetchFails('key_refused', 'main', { privateKey });
});

test('the SSH configuration leads over a jump host, with the same care for keys', async (t) => {
  const { host, repository, key, dir, project, openMirrors, folder } = await workplace(t);
  const jump = await startGitHost({ name: 'jump.test' });
  t.after(() => jump.close());
  await jump.authorize(key.publicKey);
  const sha = await repository.commit();
  const config = `Host inner.test
  HostName 127.0.0.1
  Port ${host.port}
  ProxyJump ${userInfo().username}@jump.test
${await readFile(jump.sshConfig, 'utf8')}
Host *
  ControlMaster auto
  ControlPath ${folder}/shared
  ControlPersist 60
`;
  await writeFile(join(folder, 'config'), config);
  const mirrors = await openMirrors({ sshConfig: join(folder, 'config') });
  const repositoryUrl = project.repositoryUrl.replace('git.test', 'inner.test');
  for (let time = 0; time < 2; time += 1) {
    assert.equal((await mirrors.fetch({ ...project, repositoryUrl, commitRef: 'main' })).sha, sha);
  }
  assert.deepEqual([host.logins(), jump.logins()], [1, 1]);
  assert.equal((await readdir(folder)).includes('shared'), false); // projects would share the way to the jump host
  const known = await readFile(join(dir, 'known_hosts'), 'utf8');
  assert.ok(known.includes(`:${host.port} `) && known.includes(`:${jump.port} `));
});

test('the operator’s configuration cannot enable forwarding, commands or foreign sockets', async (t) => {
  const { host, repository, fetch, folder } = await workplace(t);
  const sha = await repository.commit();
  const trap = join(folder, 'trap');
  const extra = `Host *\nForwardAgent yes\nForwardX11 yes\nControlMaster auto\nControlPath ${folder}/shared\nControlPersist 60\nPermitLocalCommand yes\nLocalCommand touch ${trap}\nRemoteCommand id\nRequestTTY force\nRemoteForward 0 127.0.0.1:1\n`;
  await writeFile(host.sshConfig, `${await readFile(host.sshConfig, 'utf8')}${extra}`);
  assert.equal((await fetch('main')).sha, sha);
  assert.deepEqual((await readdir(folder)).sort(), ['runner']);
});

test('a runner whose folder has the longest name for its sockets fetches and polls', async (t) => {
  const { repository, project, openMirrors } = await workplace(t);
  const sha = await repository.commit();
  const above = await mkdtemp(join(tmpdir(), 'long-'));
  t.after(() => rm(above, { recursive: true, force: true }));
  const dir = join(above, 'x'.repeat(59 - above.length));
  const mirrors = await openMirrors({ dir });
  assert.deepEqual((await readdir(join(dir, 'run'))).length, 2, 'a folder and its lock');
  assert.equal((await mirrors.fetch({ ...project, commitRef: 'main' })).sha, sha);
  const poll = { digest: null, timeoutMs: longestWait, keepMs: 0 };
  assert.equal((await mirrors.listRefs({ ...project, ...poll })).listing, `${sha} refs/heads/main\n`);
});

test('a runner whose folder has a long and odd name works all the same', async (t) => {
  const { repository, project, openMirrors } = await workplace(t);
  const sha = await repository.commit({ files: { a: '1' } });
  const odd = await mkdtemp(join(tmpdir(), `it's %h "odd" ${'long '.repeat(20)}-`));
  t.after(() => rm(odd, { recursive: true, force: true }));
  const mirrors = await openMirrors({ dir: join(odd, 'runner') });
  assert.equal((await mirrors.fetch({ ...project, commitRef: 'main' })).sha, sha);
  await mirrors.checkout({ ...project, sha, into: join(odd, 'tree') });
  assert.equal(await readFile(join(odd, 'tree', 'a'), 'utf8'), '1');
  assert.match(await readFile(join(odd, 'runner', 'known_hosts'), 'utf8'), /ssh-ed25519/);
  await mirrors.close();
});
