import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { onOneDatabase } from '../support/databases.ts';
import { Developer } from '../support/developer.ts';
import { startGitea, whyNoGitea, type Gitea } from '../support/gitea.ts';
import { startInstallation, type Installation, type Item } from '../support/installation.ts';
import { longestWait } from '../support/pauses.ts';

/** The whole program, connected to a real Gitea: what the fakes of other tests were made to resemble. */
onOneDatabase((database) => {
  let gitea: Gitea;
  let installation: Installation;
  before(async () => {
    if (whyNoGitea !== false) return;
    gitea = await startGitea(database);
    installation = await startInstallation(database, { HEADRACE_WEBHOOK_ALLOW: '127.0.0.0/8' });
  });
  const options = { skip: whyNoGitea };
  const all = ['write:repository', 'read:user'];
  const connect = (token: string) => installation.ask('/forges', { provider: 'gitea', url: gitea.url, token });
  const inWords = async (path: string, form: Record<string, string>, field: string, words: RegExp) => {
    const { status, text } = await installation.ask(path, form);
    assert.equal(status, 403, text);
    assert.match(text, new RegExp(`^{"error":{"${field}":\\["invalid_format"\\]}`));
    assert.match(text, words);
  };
  async function until(what: string, done: (found: Item[]) => boolean): Promise<Item[]> {
    for (const began = Date.now(); ; await pause(100)) {
      const found = [await installation.api().get<Item | Item[]>(what)].flat();
      if (done(found)) return found;
      assert.ok(Date.now() - began < longestWait, JSON.stringify(found));
    }
  }

  test('a push is built and told of, a fork asks first, and nothing is left behind', options, async () => {
    const { user } = gitea;
    const api = installation.api();
    const repository = `${user}/app`;
    for (const name of ['app', 'lib'])
      await gitea.ask('POST', '/user/repos', { name, private: true, auto_init: true, default_branch: 'main' });

    const forge = { provider: 'gitea', url: gitea.url };
    await inWords('/forges', { ...forge, token: 'wrong' }, 'token', /401: invalid username, password or token/);
    const nobody = await gitea.token('write:repository');
    await inWords('/forges', { ...forge, token: nobody }, 'token', /required=\[read:user\]/);
    const { record: lesser } = await connect(await gitea.token('read:repository', 'read:user'));
    assert.deepEqual(
      [lesser.state, lesser.state_reason, lesser.may],
      ['connected', 'The token lacks the scope write:repository that Headrace needs.', null],
    );
    const tooLittle = { forge_id: String(lesser.id), repository };
    await inWords('/projects', tooLittle, 'repository', /required=\[write:repository\]/);
    assert.deepEqual(await gitea.installed(repository), { keys: [], hooks: [] });
    await api.delete(`/forges/${lesser.id}`);

    const { record: connected } = await connect(await gitea.token(...all));
    assert.deepEqual([connected.login, connected.state, connected.state_reason], [user, 'connected', '']);
    const forgeId = { forge_id: String(connected.id) };
    const found = await api.get<Item[]>(`/forges/${connected.id}/repositories?query=ap`);
    assert.deepEqual(
      found.map((one) => [one.full_name, one.default_branch, one.private, one.may_administer, one.project_id]),
      [[repository, 'main', true, true, null]],
    );

    const project = await api.post('/projects', { ...forgeId, repository, fork_builds: 'approval' });
    const path = `/projects/${project.id_str}`;
    const sshPort = new URL(String(found[0]?.ssh_url)).port;
    assert.deepEqual(
      [project.clone_url, project.forge_state],
      [`ssh://git@127.0.0.1:${sshPort}/${repository}.git`, 'connected'],
    );
    const { keys, hooks } = await gitea.installed(repository);
    assert.deepEqual(
      keys.map(({ title, read_only: readOnly }) => [title, readOnly]),
      [[`Headrace app (${project.id_str})`, true]],
    );
    assert.equal(hooks.length, 1);
    await api.post(`${path}/suites`, { name: 'unit', command: 'cat "$FILE" || cat new' });

    const isOver = ({ build_state: state }: Item): boolean => ['passed', 'failed', 'errored'].includes(String(state));
    const built = async (sha: string) => {
      const requests = await until(`${path}/build_requests`, (those) =>
        those.some((one) => one.commit_ref === sha && isOver(one)),
      );
      return requests.find((one) => one.commit_ref === sha);
    };
    const pushed = await gitea.push(repository, 'new');
    const request = await built(pushed);
    assert.deepEqual([request?.build_state, request?.event], ['passed', 'push']);
    const told = await gitea.status(repository, pushed, 'headrace/unit', 'success');
    assert.ok(String(told.target_url).startsWith(installation.address()), String(told.target_url));

    // Somebody who may only read it asks for a pull.
    const stranger = { username: 'stranger', email: 's@example.org', password: 'boss-boss-1' };
    await gitea.ask('POST', '/admin/users', { ...stranger, must_change_password: false });
    await gitea.ask('PUT', `/repos/${repository}/collaborators/stranger`, { permission: 'read' });
    await gitea.ask('POST', `/repos/${repository}/forks`, {}, 'stranger');
    const strange = await gitea.push('stranger/app', 'theirs', { as: 'stranger', newBranch: 'idea' });
    const pull = { head: 'stranger:idea', base: 'main', title: 'An idea' };
    await gitea.ask('POST', `/repos/${repository}/pulls`, pull, 'stranger');
    const waiting = await gitea.status(repository, strange, 'headrace', 'pending');
    const [held] = (await api.get<Item[]>(`${path}/build_requests`)).filter((one) => one.commit_ref === strange);
    assert.deepEqual([held?.build_state, waiting.description], ['waiting_for_approval', 'Waiting for approval']);
    assert.ok(String(waiting.target_url).endsWith(`/requests/${held?.id_str}`), String(waiting.target_url));
    await api.post(`${path}/build_requests/${held?.id_str}/approve`);
    const approved = await built(strange);
    assert.deepEqual([approved?.build_state, approved?.from_fork], ['passed', true]);
    await gitea.status(repository, strange, 'headrace/unit', 'success');

    // What somebody deletes there is put there again, and nothing twice.
    const [hook] = hooks;
    await gitea.ask('DELETE', `/repos/${repository}/hooks/${hook?.id}`);
    for (let times = 0; times < 2; times += 1)
      assert.equal((await api.post(`${path}/connect`, forgeId)).forge_state, 'connected');
    const mended = await gitea.installed(repository);
    assert.deepEqual(
      mended.keys.map(({ id }) => id),
      keys.map(({ id }) => id),
    );
    assert.deepEqual(
      mended.hooks.map(({ config }) => config),
      [hook?.config],
    );

    // Under another name it is followed, and nothing is put there twice.
    await gitea.ask('PATCH', `/repos/${repository}`, { name: 'brook' });
    const followed = await api.post(`${path}/connect`, forgeId);
    assert.deepEqual(
      [followed.forge_repository, followed.clone_url],
      [`${user}/brook`, String(project.clone_url).replace('/app.git', '/brook.git')],
    );
    const there = await gitea.installed(`${user}/brook`);
    const idsOf = ({ keys: own, hooks: calls }: typeof there) => [...own, ...calls].map(({ id }) => id);
    assert.deepEqual(idsOf(there), idsOf(mended));

    // Where the address is changed by hand, what the project had goes, and is made anew.
    await gitea.ask('PATCH', `/repos/${user}/brook`, { name: 'river' });
    const elsewhere = await api.put(path, { clone_url: String(project.clone_url).replace('/app.git', '/river.git') });
    assert.equal(elsewhere.forge_state, 'none');
    assert.equal((await api.post(`${path}/connect`, forgeId)).forge_repository, `${user}/river`);
    const settled = async () => {
      for (const began = Date.now(); ; await pause(100)) {
        const now = await gitea.installed(`${user}/river`);
        if (now.keys.length === 1 && now.hooks.length === 1 && now.hooks[0]?.id !== mended.hooks[0]?.id) return;
        assert.ok(Date.now() - began < longestWait, JSON.stringify(now));
      }
    };
    await settled();
    await gitea.ask('PATCH', `/repos/${user}/lib`, { archived: true });
    await inWords('/projects', { ...forgeId, repository: `${user}/lib` }, 'repository', /archived/);

    await gitea.ask('PATCH', `/repos/${user}/river`, { name: 'stream' });
    await api.delete(path);
    assert.deepEqual(await gitea.installed(`${user}/stream`), { keys: [], hooks: [] });
  });

  test('a pull request shows what a build found, and takes commands of those who may push', options, async () => {
    const { user } = gitea;
    const api = installation.api();
    const repository = `${user}/drips`;
    await gitea.ask('POST', '/user/repos', { name: 'drips', private: true, auto_init: true, default_branch: 'main' });
    const reader = { username: 'reader', email: 'r@example.org', password: 'boss-boss-1' };
    await gitea.ask('POST', '/admin/users', { ...reader, must_change_password: false });
    await gitea.ask('PUT', `/repos/${repository}/collaborators/reader`, { permission: 'read' });
    const { record: forge } = await connect(await gitea.token(...all, 'write:issue'));
    const fields = { forge_id: String(forge.id), repository, pull_request_notes: 'on' };
    const project = await api.post('/projects', fields);
    const path = `/projects/${project.id_str}`;
    await api.post(`${path}/suites`, { name: 'unit', command: 'echo "::error file=new,line=1::It @drips"; exit 3' });
    await api.put(path, { comment_commands: 'true' });
    for (const began = Date.now(); ; await pause(100)) {
      const { hooks } = await gitea.installed(repository);
      const events = hooks.flatMap((hook) => hook.events as string[]);
      if (hooks.length === 1 && events.includes('pull_request_comment')) break;
      assert.ok(Date.now() - began < longestWait, JSON.stringify(hooks));
    }

    await gitea.push(repository, 'new', { newBranch: 'topic' });
    await gitea.ask('POST', `/repos/${repository}/pulls`, { head: 'topic', base: 'main', title: 'An idea' });
    const issue = `/repos/${repository}/issues/1/comments`;
    const comments = () => gitea.ask<Item[]>('GET', issue);
    const comment = async (wanted: RegExp) => {
      for (const began = Date.now(); ; await pause(100)) {
        const there = await comments();
        const found = there.find(({ body }) => wanted.test(String(body)));
        if (found) return found;
        const told = await api.get<Item[]>(`${path}/status_targets`);
        const deliveries = await api.get<Item[]>(`${path}/status_targets/${told[0]?.id_str}/deliveries`);
        assert.ok(Date.now() - began < longestWait, JSON.stringify([there, deliveries], undefined, 1));
      }
    };
    const note = await comment(/^Headrace found 1 problem /);
    assert.match(String(note.body), /\n {2}unit: error: new:1\n {6}It @drips\n```\n/);

    const asked = await gitea.ask('POST', issue, { body: '/retest' });
    await until(`${path}/builds`, (builds) => builds.some((one) => one.attempt === 2 && one.build_state === 'failed'));
    for (const began = Date.now(); ; await pause(100)) {
      const reactions = await gitea.ask<Item[]>('GET', `/repos/${repository}/issues/comments/${asked.id}/reactions`);
      if (reactions?.some(({ content }) => content === '+1')) break;
      assert.ok(Date.now() - began < longestWait, 'no reaction');
    }
    const theirs = await gitea.ask('POST', issue, { body: '/retest unit' }, 'reader');
    await comment(/^Headrace did not obey `\/retest unit`\. Only users who may push/);
    await gitea.ask('PATCH', `/repos/${repository}/issues/comments/${theirs.id}`, { body: '/cancel' });
    const [hook] = await api.get<Item[]>(`${path}/hooks`);
    const calls = await until(`${path}/hooks/${hook?.id_str}/deliveries`, (those) =>
      those.some(({ event, action }) => event === 'issue_comment' && action === 'edited'),
    );
    const outcomes = calls
      .filter(({ event }) => event === 'issue_comment')
      .map(({ action, outcome }) => [action, outcome]);
    assert.deepEqual(
      outcomes.filter(([, outcome]) => outcome === 'command'),
      [
        ['created', 'command'],
        ['created', 'command'],
      ],
    );
    const own = (await comments()).filter(({ body }) => String(body).startsWith('Headrace '));
    assert.equal(own.length, 2, 'the notes and one answer');
    await api.delete(path);
    await api.delete(`/forges/${forge.id}`);
  });

  test('headrace init leads from a fresh clone to the first build', options, async () => {
    const { user } = gitea;
    await gitea.ask('POST', '/user/repos', { name: 'clone', private: true, auto_init: true, default_branch: 'main' });
    const made = await gitea.ask('GET', `/repos/${user}/clone`);
    const [connected] = await installation.api().get<Item[]>('/forges');
    if (!connected) await connect(await gitea.token(...all));

    const developer = await Developer.at(installation, installation.admin.email);
    const key = join(developer.home, 'key');
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', key]);
    await gitea.ask('POST', '/user/keys', { title: 'laptop', key: readFileSync(`${key}.pub`, 'utf8') });
    const ssh = `ssh -i ${key} -o IdentitiesOnly=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null`;
    const env = { ...process.env, GIT_SSH_COMMAND: ssh, GIT_CONFIG_GLOBAL: '/dev/null' };
    execFileSync('git', ['clone', '--quiet', String(made.ssh_url), developer.folder], { env, stdio: 'pipe' });

    const first = await developer.run(['init', '--yes', '--plain']);
    assert.equal(first.status, 0, first.out + first.err);
    assert.match(first.out, /^Created the project clone, with its key, its hook and its statuses at http:/);
    assert.match(first.out, /\nWrote \.headrace\.toml\. Commit it/);
    assert.match(first.out, /passed/);
    const sha = execFileSync('git', ['rev-parse', 'HEAD'], { cwd: developer.folder }).toString().trim();
    await gitea.status(`${user}/clone`, sha, 'headrace/test', 'success');
    const { keys, hooks } = await gitea.installed(`${user}/clone`);
    assert.deepEqual([keys.length, hooks.length], [1, 1]);
  });
});
