import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  assertCreated,
  assertDestroyed,
  assertFields,
  assertNotFound,
  assertWrongFields,
} from '../../support/expect.ts';
import { describeService } from '../../support/service.ts';
import { freshName } from '../../support/user.ts';

const policies =
  'poll_interval fork_builds cancel_superseded public_badge public config_file branch_secrets report_left_out build_twice pull_request_notes comment_commands pull_request_builds parameters most_priority includable';
const ofForge = 'forge_id forge_id_str forge_repository forge_state forge_state_reason';
const fields = `id id_str name description repository_url clone_url build_state owned organisation_id organisation_id_str ssh_public_key ${policies} ${ofForge}`;

describeService('projects', (service) => {
  test('are created with an SSH key and in their first state', async () => {
    const alice = await service.user();
    const repository = 'git@example.org:team/code.git';
    const answer = await alice.post('/projects', { name: 'Mill', repository_url: repository });
    assertCreated(answer, fields);
    const { ssh_public_key: key, id, id_str, ...rest } = answer.record;
    assert.equal(String(id), id_str);
    assert.match(String(key), /^ssh-ed25519 [A-Za-z0-9+/=]{68} \S+$/);
    const addresses = { repository_url: repository, clone_url: repository };
    const noOrganisation = { organisation_id: null, organisation_id_str: '' };
    const expected = {
      name: 'Mill',
      description: '',
      ...addresses,
      build_state: 'new',
      owned: true,
      ...noOrganisation,
    };
    const usual = {
      poll_interval: 0,
      fork_builds: 'without_secrets',
      cancel_superseded: 'none',
      public_badge: false,
      public: false,
    };
    const ofFile = {
      config_file: '',
      branch_secrets: false,
      report_left_out: true,
      build_twice: false,
      pull_request_notes: 'off',
      comment_commands: false,
      pull_request_builds: 'head',
      parameters: [],
      most_priority: 0,
      includable: true,
    };
    const noForge = {
      forge_id: null,
      forge_id_str: '',
      forge_repository: '',
      forge_state: 'none',
      forge_state_reason: '',
    };
    assert.deepEqual(rest, { ...expected, ...usual, ...ofFile, ...noForge });
    assert.deepEqual((await alice.get(`/projects/${id}`)).record, answer.record);
  });

  test('are listed whole, oldest first: those owned and those collaborated on', async () => {
    const [alice, bob] = [await service.user(), await service.user()];
    const first = await alice.createProject();
    const shared = await bob.createProject();
    const last = await alice.createProject();
    await bob.createProject();
    await bob.invite(shared, alice);
    const list = (await alice.get('/projects')).list;
    assert.deepEqual(list, [first, { ...shared, owned: false }, last]);
    for (const project of list) assertFields(project, fields);
    assert.equal((await alice.get(`/projects/${shared.id}`)).record.owned, false);
  });

  test('keep what a change does not send', async () => {
    const alice = await service.user();
    const project = await alice.createProject({ description: 'old' });
    const described = await alice.put(`/projects/${project.id}`, { description: 'new\nlines' });
    assert.equal(described.status, 200);
    assert.deepEqual(described.record, { ...project, description: 'new\nlines' });
    const moved = await alice.put(`/projects/${project.id}`, { repository_url: 'git@[::1]:x.git' });
    const elsewhere = { repository_url: 'git@[::1]:x.git', clone_url: 'git@[::1]:x.git' };
    assert.deepEqual(moved.record, { ...described.record, ...elsewhere });
    const unchanged = await alice.put(`/projects/${project.id}`);
    assert.deepEqual(unchanged.record, moved.record);
    const emptied = await alice.put(`/projects/${project.id}`, { description: '' });
    assert.equal(emptied.record.description, '');
    assert.deepEqual((await alice.get(`/projects/${project.id}`)).record, emptied.record);
  });

  test('report everything that is wrong at once', async () => {
    const alice = await service.user();
    assertWrongFields(await alice.post('/projects'), { name: 'is_blank', repository_url: 'is_blank' });
    assertWrongFields(
      await alice.post('/projects', {
        name: ' \t ',
        repository_url: 'https://example.org/x.git',
        description: 'x'.repeat(10_001),
      }),
      { name: 'is_blank', repository_url: 'invalid_format', description: 'invalid_format' },
    );
    const project = await alice.createProject();
    assertWrongFields(await alice.put(`/projects/${project.id}`, { name: '', repository_url: ' ' }), {
      name: 'is_blank',
      repository_url: 'is_blank',
    });
    const taken = await alice.post('/projects', { name: String(project.name), repository_url: '-oProxyCommand=x' });
    assertWrongFields(taken, { name: 'already_exists', repository_url: 'invalid_format' });
  });

  test('have a name that is unique for their owner', async () => {
    const [alice, bob] = [await service.user(), await service.user()];
    const name = freshName('project');
    await alice.createProject({ name });
    await bob.createProject({ name });
    const other = await alice.createProject();
    const again = await alice.post('/projects', { name, repository_url: 'git@example.org:x.git' });
    assertWrongFields(again, { name: 'already_exists' });
    assertWrongFields(await alice.put(`/projects/${other.id}`, { name }), { name: 'already_exists' });
    const own = await alice.put(`/projects/${other.id}`, { name: String(other.name) });
    assert.equal(own.status, 200);
  });

  test('take one of several creations that race for a name', async () => {
    const alice = await service.user();
    const form = { name: freshName('project'), repository_url: 'git@example.org:x.git' };
    const answers = await Promise.all(Array.from({ length: 8 }, () => alice.post('/projects', form)));
    const losers = answers.filter((answer) => answer.status !== 201);
    assert.equal(losers.length, 7);
    for (const loser of losers) assertWrongFields(loser, { name: 'already_exists' });
  });

  const dangerous = [
    '-oProxyCommand=touch /tmp/x@host:path',
    'git@-oProxyCommand=x:path',
    'git@host:-u./payload',
    'ext::sh -c touch% /tmp/x',
    'ssh://git@example.org/x.git',
    'file:///etc/passwd',
    '/etc/passwd',
    'host:path',
    'git@host',
    'git@host:',
    'git@host:.git',
    'git@host:/.git',
    'git@host:/',
    'git@host://.git/',
    'git@host:a b',
    'git@host::x',
    'git@host:a\nb',
    `git@host:${'x'.repeat(1024)}`,
  ];
  test('refuse repository addresses that git or ssh would take for something else', async () => {
    const alice = await service.user();
    for (const url of dangerous) {
      const answer = await alice.post('/projects', { name: freshName('project'), repository_url: url });
      assertWrongFields(answer, { repository_url: 'invalid_format' });
    }
  });

  test('are fetched from the address that says more, and have its form without a protocol beside it', async () => {
    const alice = await service.user();
    for (const [clone, repository] of [
      ['ssh://deploy@git.example.org:2222/team/code.git', 'deploy@git.example.org:team/code.git'],
      ['https://git.example.org:8443/team/code', 'git@git.example.org:team/code'],
      ['https://git.example.org/team/code.git', 'git@git.example.org:team/code.git'],
      ['me@git.example.org:team/code.git', 'me@git.example.org:team/code.git'],
    ] as const) {
      const made = await alice.post('/projects', { name: freshName('project'), clone_url: clone });
      assertCreated(made, fields);
      const addresses = { repository_url: repository, clone_url: clone };
      assert.deepEqual(made.record, { ...made.record, ...addresses });
      const path = `/projects/${made.record.id}`;
      // Sent back whole, it stays what it is.
      assert.deepEqual((await alice.put(path, addresses)).record, made.record);
      const moved = await alice.put(path, { repository_url: 'git@example.org:x.git' });
      assert.equal(moved.record.clone_url, 'git@example.org:x.git');
      assert.deepEqual((await alice.put(path, { clone_url: clone })).record, made.record);
      const other = { repository_url: 'git@git.example.org:team/other.git', clone_url: clone };
      assertWrongFields(await alice.put(path, other), { clone_url: 'invalid_format' });
      assertWrongFields(await alice.put(path, { clone_url: '' }), { clone_url: 'is_blank' });
      assert.deepEqual((await alice.get(path)).record, made.record);
    }
    const blank = await alice.post('/projects', { name: freshName('project'), repository_url: '', clone_url: '' });
    assertWrongFields(blank, { repository_url: 'is_blank' });
    for (const url of [
      ...dangerous.filter((one) => one !== 'ssh://git@example.org/x.git'),
      'https://me:secret@example.org/x.git',
      'https://me@example.org/x.git',
      'http://example.org/x.git',
      'https://example.org/a/../x.git',
      'https://example.org/a%2fx.git',
      'https://example.org:65536/x.git',
      'ssh://git@example.org:0/x.git',
      'ssh://example.org/x.git',
      'ssh://-oProxyCommand=x@example.org/x.git',
    ]) {
      const answer = await alice.post('/projects', { name: freshName('project'), clone_url: url });
      assertWrongFields(answer, { clone_url: 'invalid_format' });
    }
  });

  test('are deleted with everything in them', async () => {
    const [alice, bob] = [await service.user(), await service.user()];
    const project = await alice.createProject();
    await alice.invite(project, bob);
    const suite = await alice.createSuite(project);
    await alice.createVariable(project, suite);
    await alice.createStrategy(project);
    await alice.createNotification(project);
    await alice.requestBuild(project);
    assertDestroyed(await alice.delete(`/projects/${project.id}`));
    assertNotFound(await alice.get(`/projects/${project.id}`));
    assertNotFound(await alice.delete(`/projects/${project.id}`));
    assertNotFound(await bob.get(`/projects/${project.id}/suites/${suite.id}`));
    assert.deepEqual((await bob.get('/projects')).list, []);
    await alice.createProject({ name: String(project.name) });
  });
});
