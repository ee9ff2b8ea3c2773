import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { settableClock, type SettableClock } from '../support/clock.ts';
import { onOneDatabase } from '../support/databases.ts';
import { temporaryFolder } from '../support/folders.ts';
import { startHttpsGitHost, type HttpsGitHost } from '../support/https-git.ts';
import { startInstallation, type Installation, type Item } from '../support/installation.ts';
import { createRepository } from '../support/repository.ts';
import { removeTree } from '../../src/lib/remove-tree.ts';

/** A git server inside, with a certificate of the company's own authority. */
onOneDatabase((database) => {
  let forge: HttpsGitHost;
  let clock: SettableClock;
  let installation: Installation;
  const folder = temporaryFolder();
  before(async () => {
    forge = await startHttpsGitHost();
    clock = await settableClock();
    const authority = join(folder, 'company.pem');
    writeFileSync(authority, forge.ca);
    installation = await startInstallation(database, {
      ...clock.env,
      HEADRACE_GIT_ALLOW: '127.0.0.0/8,::1/128',
      HEADRACE_TRUST_FILE: authority,
    });
  });
  after(async () => {
    await forge.close();
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
        assert.ok(Date.now() - began < 90_000, JSON.stringify(found));
      }
    };
    const isOver = ({ build_state: state }: Item): boolean => state === 'passed' || state === 'errored';
    const built = (sha: string) => (found: Item[]) => found.some((one) => one.commit_ref === sha && isOver(one));
    await until('polling', ([polling]) => polling?.outcome === 'first_poll');
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
    assert.match((await tell('team/other')).text, /is not that of the project/);
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
});
