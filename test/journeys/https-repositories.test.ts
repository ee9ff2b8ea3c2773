import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { settableClock, type SettableClock } from '../support/clock.ts';
import { onOneDatabase } from '../support/databases.ts';
import { FakeForge, forgeToken } from '../support/fake-forge.ts';
import { temporaryFolder } from '../support/folders.ts';
import { startHttpsGitHost, type HttpsGitHost } from '../support/https-git.ts';
import { startInstallation, type Installation, type Item } from '../support/installation.ts';
import { commandsWith } from '../support/process-list.ts';
import { createRepository } from '../support/repository.ts';
import { removeTree } from '../../src/shared/lib/remove-tree.ts';
import { longestWait } from '../support/pauses.ts';

/** A git server inside, with a certificate of the company's own authority. */
onOneDatabase((database) => {
  let forge: HttpsGitHost;
  let elsewhere: HttpsGitHost;
  let clock: SettableClock;
  let installation: Installation;
  const folder = temporaryFolder();
  before(async () => {
    [forge, elsewhere] = [await startHttpsGitHost(), await startHttpsGitHost()];
    clock = await settableClock();
    const authority = join(folder, 'company.pem');
    writeFileSync(authority, `${forge.ca}${elsewhere.ca}`);
    installation = await startInstallation(database, {
      ...clock.env,
      HEADRACE_GIT_ALLOW: '127.0.0.0/8,::1/128',
      HEADRACE_WEBHOOK_ALLOW: '127.0.0.0/8',
      HEADRACE_TRUST_FILE: authority,
    });
  });
  after(async () => {
    await forge.close();
    await elsewhere.close();
    await removeTree(folder);
  });

  test('a repository over HTTPS is checked, polled, called by its hook and built, without any key', async () => {
    const api = installation.api();
    const app = await createRepository(join(forge.folder, 'team', 'app.git'));
    const lib = await createRepository(join(forge.folder, 'team', 'lib.git'));
    const link = { submodule: await lib.commit({ files: { greeting: 'hello' } }) };
    const modules = '[submodule "lib"]\n\tpath = lib\n\turl = ../lib.git\n';
    await app.commit({ files: { '.gitmodules': modules, lib: link } });
    const address = forge.url('team/app');
    const project = await api.post('/projects', { name: 'open', clone_url: address, poll_interval: '15' });
    assert.equal(project.repository_url, 'git@localhost:team/app');
    const path = `/projects/${project.id_str}`;
    await api.post(`${path}/suites`, { name: 'unit', command: 'cat lib/greeting; git config remote.origin.url' });
    const check = await api.post(`${path}/check_connection`);
    assert.deepEqual([check.connected, check.default_branch], [true, 'main'], String(check.message));

    // The host is not asked for a password, and the words are for people.
    forge.instead = (_, response) => {
      response.writeHead(401, { 'www-authenticate': 'Basic' }).end();
      return true;
    };
    const closed = await api.post(`${path}/check_connection`);
    assert.equal(closed.connected, false);
    assert.match(
      String(closed.message),
      /refuses anonymous access \(401\)\. Check the address\. If the repository is private/,
    );
    forge.instead = () => false;

    const until = async (what: string, done: (found: Item[]) => boolean): Promise<Item[]> => {
      for (const began = Date.now(); ; await pause(100)) {
        const found = [await api.get<Item | Item[]>(`${path}/${what}`)].flat();
        if (done(found)) return found;
        assert.ok(Date.now() - began < longestWait, JSON.stringify(found));
      }
    };
    const isOver = ({ build_state: state }: Item): boolean => state === 'passed' || state === 'errored';
    const built = (sha: string) => (found: Item[]) => found.some((one) => one.commit_ref === sha && isOver(one));
    // On a slow machine the second poll may be over as well.
    await until('polling', ([polling]) => ['first_poll', 'unchanged'].includes(String(polling?.outcome)));
    const pushed = await app.commit({ message: 'Greet' });
    clock.set(17);
    const [request] = await until('build_requests', built(pushed));
    assert.deepEqual([request?.build_state, request?.event], ['passed', 'poll']);
    const [commit] = await api.get<Item[]>(`${path}/commits`);
    const [build] = await api.get<Item[]>(`${path}/commits/${commit?.id_str}/builds`);
    assert.equal(await api.text(`${path}/builds/${build?.id_str}/log.txt`), `hello${address}\n`);
    assert.equal(installation.host.logins(), 0);
    assert.ok(forge.calls.every(({ headers }) => headers.authorization === undefined));

    // What the forge tells over SSH is about the same repository, and another one is not.
    const hook = await api.post(`${path}/hooks`, { provider: 'gitea' });
    const called = await app.commit({ message: 'Greet again' });
    const tell = async (name: string) => {
      const repository = { full_name: name, ssh_url: `ssh://git@localhost:2222/${name}.git` };
      const body = JSON.stringify({ ref: 'refs/heads/main', after: called, before: pushed, repository, commits: [] });
      const signature = createHmac('sha256', String(hook.secret)).update(body).digest('hex');
      const headers = { 'content-type': 'application/json', 'x-gitea-event': 'push', 'x-gitea-signature': signature };
      return installation.serving().api.ask('POST', new URL(String(hook.url)).pathname, { body, headers });
    };
    assert.match((await tell('team/other')).text, /is not the project’s repository/);
    assert.equal((await tell('Team/App')).status, 202);
    await until('build_requests', built(called));

    // A document says it once, and says it back.
    const { document } = await api.get<{ document: string }>(`${path}/config`);
    const said = JSON.parse(document) as Record<string, unknown>;
    assert.deepEqual([said.repository_url, said.clone_url], ['git@localhost:team/app', address]);
    const again = { ...said, repository_url: undefined };
    const plan = await api.put(`${path}/config`, { document: JSON.stringify(again), dry_run: 'true', prune: 'true' });
    assert.deepEqual(plan.changes, []);
  });

  test('a private repository is read with the token of its forge, which nothing else gets to see [promise: forge-tokens]', async () => {
    const api = installation.api();
    const app = await createRepository(join(forge.folder, 'team', 'private.git'));
    const lib = await createRepository(join(elsewhere.folder, 'lib.git'));
    const link = { submodule: await lib.commit({ files: { greeting: 'hello' } }) };
    const modules = `[submodule "lib"]\n\tpath = lib\n\turl = ${elsewhere.url('lib.git')}\n`;
    await app.commit({ files: { '.gitmodules': modules, lib: link } });
    await using fake = await FakeForge.start('gitea');
    fake.add('team/private', { ssh: '', https: forge.url('team/private.git') });
    const basic = Buffer.from(`ada:${forgeToken}`).toString('base64');
    const [called, seen]: [number, number[]] = [forge.calls.length, []];
    forge.instead = ({ headers }, response) => {
      seen.push(...commandsWith(forgeToken), ...commandsWith(basic));
      if (headers.authorization === `Basic ${basic}`) return false;
      response.writeHead(401, { 'www-authenticate': 'Basic' }).end();
      return true;
    };
    const url = fake.url.replace('127.0.0.1', 'localhost');
    const { id_str: forgeId } = await api.post('/forges', { provider: 'gitea', url, token: forgeToken });
    const project = await api.post('/projects', { forge_id: forgeId, repository: 'team/private', poll_interval: '15' });
    assert.equal(project.clone_url, forge.url('team/private.git'));
    const path = `/projects/${project.id_str}`;
    const look =
      'cat lib/greeting; env; git config --list; cat .git/config /proc/*/environ /proc/*/cmdline 2>/dev/null';
    await api.post(`${path}/suites`, { name: 'unit', command: `${look} | tr '\\0' '\\n'` });
    const { id_str: request } = await api.post(`${path}/build_requests`, { commit_ref: 'main' });
    const until = async (what: string, fits: (found: Item) => boolean): Promise<void> => {
      for (const began = Date.now(); ; await pause(100)) {
        const found = await api.get(`${path}${what}`);
        if (fits(found)) return;
        assert.ok(Date.now() - began < longestWait, JSON.stringify(found));
      }
    };
    const isUnderWay = async (): Promise<boolean> =>
      ['enqueued', 'fetching', 'building'].includes(
        String((await api.get(`${path}/build_requests/${request}`)).build_state),
      );
    while (await isUnderWay()) await pause(100);
    const [build] = await api.get<Item[]>(`${path}/builds`);
    const fetched = await api.text(`${path}/build_requests/${request}/log.txt`);
    assert.equal(build?.build_state, 'passed', fetched);
    const log = await api.text(`${path}/builds/${build?.id_str}/log.txt`);
    assert.match(log, /hello[^]*remote\.origin\.url/);

    // A push that polling saw, also with the token, and no hook told of: the forge is asked what became of the hook.
    await until('/polling', ({ outcome }) => outcome !== 'waiting');
    fake.of('team/private').hooks = [];
    await app.commit({ message: 'Untold' });
    clock.set(40);
    await until('', ({ forge_state_reason: reason }) => String(reason).startsWith('The hook is missing'));
    assert.equal((await api.post(`${path}/connect`, { forge_id: forgeId })).forge_state, 'connected');
    assert.equal(fake.of('team/private').hooks.length, 1);

    // Sent for the repository itself, and to nobody else: neither to the host of the submodule nor into the build.
    const asked = forge.calls.slice(called);
    assert.ok(asked.length > 0);
    for (const { path: of, headers } of asked)
      assert.equal(headers.authorization, of.startsWith('/team/private.git/') ? `Basic ${basic}` : undefined, of);
    assert.ok(elsewhere.calls.length > 0);
    assert.ok(elsewhere.calls.every(({ headers }) => headers.authorization === undefined));
    const texts = [log, fetched, await api.text('/audit'), installation.serving().log()];
    assert.deepEqual(seen, [], 'no command line has it');
    for (const form of [forgeToken, basic]) assert.ok(!texts.some((text) => text.includes(form)));
    // What is bound into sandboxes is the machine's.
    const search = ['-name', '*sandboxes', '-prune', '-o', '-type', 'f', '-exec'];
    const grep = ['grep', '-slF', '-e', forgeToken, '-e', basic, '{}', '+'];
    const found = spawnSync('find', [installation.folder, ...search, ...grep], { encoding: 'utf8' });
    assert.equal(found.stdout, '');
  });
});
