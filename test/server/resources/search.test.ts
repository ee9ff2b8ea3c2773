import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { registerApplication } from '../../support/applications.ts';
import type { Record_ } from '../../support/client.ts';
import { addCommit } from '../../support/rows.ts';
import { describeService } from '../../support/service.ts';
import type { User } from '../../support/user.ts';

const sha = (beginning: string): string => beginning.padEnd(40, '0');

describeService('GET /search', (service) => {
  let alice: User;
  let mallory: User;
  let project: Record_;
  let suite: Record_;
  const build = async (of: Record_, branch: string, fields: { message: string; ref: string }): Promise<bigint> => {
    const { store } = service;
    const commit = await addCommit(store, of, { ...fields, branch, build_state: 'passed' });
    const row = { id: store.ids.next(), project_id: of.id, name: `refs/heads/${branch}`, commit_id: commit.id };
    await store.db.transaction((trx) => trx.insertInto('built_refs').values(row).execute());
    return commit.id;
  };
  before(async () => {
    [alice, mallory] = [await service.user(), await service.user()];
    project = await alice.createProject({ name: 'The Sluice' });
    suite = await alice.createSuite(project, { name: 'sluice tests' });
    await build(project, 'mend-sluice', { message: 'Grease the SLUICE\n\nIt squeaked.', ref: sha('abcd12') });
    await build(project, '100%_sure', { message: 'Other work', ref: sha('abce34') });
  });
  const found = async (user: User, q: string, more = ''): Promise<string[]> => {
    const { status, list, text } = await user.get(`/search?q=${encodeURIComponent(q)}${more}`);
    assert.equal(status, 200, text);
    return list.map(({ kind, name }) => `${String(kind)} ${String(name)}`);
  };

  test('finds projects, branches, suites and commits by parts of their names, whatever the case', async () => {
    assert.deepEqual(await found(alice, ' sLuIcE'), [
      'project The Sluice',
      'branch mend-sluice',
      'suite sluice tests',
      'commit Grease the SLUICE',
    ]);
    const [, branch, own] = (await alice.get('/search?q=sluice')).list;
    assert.deepEqual(own, {
      kind: 'suite',
      id: suite.id,
      id_str: suite.id_str,
      project_id: project.id,
      project_id_str: project.id_str,
      project_name: 'The Sluice',
      name: 'sluice tests',
      ref: '',
      build_state: '',
    });
    assert.deepEqual([branch?.ref, branch?.build_state], [sha('abcd12'), 'passed']);
    assert.deepEqual(await found(alice, 'nothing of the kind'), []);
    // Nothing in the text is special to the database.
    assert.deepEqual(await found(alice, '%_s'), ['branch 100%_sure']);
    assert.deepEqual(await found(alice, `%' or 1=1 --`), []);
  });

  test('finds commits by the beginning of their SHA', async () => {
    assert.deepEqual(await found(alice, 'ABCD'), ['commit Grease the SLUICE']);
    assert.deepEqual(await found(alice, sha('abce34')), ['commit Other work']);
    assert.deepEqual(await found(alice, 'abc'), [], 'three digits mean nothing');
  });

  test('answers ten of a kind, those that begin with the text first', async () => {
    const many = await alice.createProject({ name: 'many' });
    for (let number = 0; number < 12; number += 1) {
      await alice.createSuite(many, { name: `a tidy suite ${number}` });
      await addCommit(service.store, many, { message: `tidy up ${number}` });
    }
    await alice.createSuite(many, { name: 'tidy' });
    const all = await found(alice, 'tidy');
    assert.equal(all.length, 20);
    assert.equal(all[0], 'suite tidy');
    assert.equal(all[10], 'commit tidy up 11', 'the newest first');
  });

  test('shows nothing of projects that the caller does not see [promise: account-walls]', async () => {
    const [bob, carol] = [await service.user(), await service.user('collaborator')];
    await mallory.createProject({ name: 'my own sluice' });
    for (const q of ['sluice', 'abcd', sha('abcd12'), '%', '_']) {
      const seen = (await mallory.get(`/search?q=${encodeURIComponent(q)}`)).list;
      assert.ok(
        seen.every(({ project_name: name }) => name === 'my own sluice'),
        q,
      );
      assert.deepEqual(await found(bob, q), []);
      assert.deepEqual(await found(carol, q), []);
    }
    await alice.invite(project, carol);
    assert.equal((await found(carol, 'sluice')).length, 4, 'a collaborator sees what is shared');
    const lent = await bob.createProject({ name: 'lent sluice' });
    await bob.invite(lent, mallory);
    await service.stopPaying(mallory);
    assert.deepEqual(
      await found(mallory, 'sluice'),
      ['project lent sluice'],
      'who does not pay sees what others share',
    );
  });

  test('shows a token what its scopes open elsewhere [promise: account-scopes]', async () => {
    const application = await registerApplication(service, alice);
    const kindsFor = async (...scopes: Parameters<typeof application.token>[1]): Promise<string> => {
      const token = await application.token(alice, scopes);
      const { status, list } = await service.api.get(`/search?q=sluice&oauth_token=${token}`);
      return `${status} ${list.map(({ kind }) => String(kind)).join(' ')}`.trim();
    };
    assert.equal(await kindsFor('projects'), '200 project');
    assert.equal(await kindsFor('projects', 'suites'), '200 project suite');
    assert.equal(await kindsFor('projects', 'commits'), '200 project branch commit');
    const token = await application.token(alice, ['commits', 'suites']);
    assert.equal((await service.api.get(`/search?q=sluice&oauth_token=${token}`)).status, 401);
  });

  test('refuses what is no text to search for', async () => {
    for (const [query, code] of [
      ['', 'is_blank'],
      ['?q=', 'is_blank'],
      ['?q=%20', 'is_blank'],
      [`?q=${'x'.repeat(201)}`, 'invalid_format'],
      ['?q=a%00b', 'invalid_format'],
    ] as const) {
      const { status, text } = await alice.get(`/search${query}`);
      assert.deepEqual([status, text.includes(code)], [403, true], `${query}: ${text}`);
    }
    assert.equal((await service.api.get('/search?q=sluice')).status, 401);
  });
});
