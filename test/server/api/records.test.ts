import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { insertUser } from '../../../src/server/auth/users.ts';
import { longest, mostRecords, mostWaitingJobs, type BoundedTable } from '../../../src/shared/domain/bounds.ts';
import { triggerRequest } from '../../../src/server/triggers/triggers.ts';
import { routes } from '../../../src/server/resources/index.ts';
import { registerApplication } from '../../support/applications.ts';
import type { Answer, Record_ } from '../../support/client.ts';
import { assertRefused } from '../../support/expect.ts';
import { FakeForge } from '../../support/fake-forge.ts';
import { copyRows } from '../../support/rows.ts';
import { describeService } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';
import { freshName, type User } from '../../support/user.ts';

const full = { generic: ['is_reserved'] };

describeService(
  'the number of',
  (service) => {
    let alice: User;
    let project: Record_;
    let suite: Record_;
    let forge: FakeForge;
    after(() => forge[Symbol.asyncDispose]());
    before(async () => {
      forge = await FakeForge.start();
      alice = await service.user();
      project = await alice.createProject();
      suite = await alice.createSuite(project);
    });

    /** How one of each kind is made, and what differs between two of them. */
    const kinds: Partial<
      Record<BoundedTable, { path: () => string; form: () => Record<string, string | bigint>; unique: string }>
    > = {
      suites: {
        path: () => `/projects/${project.id}/suites`,
        form: () => ({ name: freshName('suite'), command: 'make' }),
        unique: 'name',
      },
      suite_rules: {
        path: () => `/projects/${project.id}/suites/${suite.id}/rules`,
        form: () => ({ subject: 'commit.message', operator: 'contains', value: 'x' }),
        unique: '',
      },
      environment_variables: {
        path: () => `/projects/${project.id}/suites/${suite.id}/environment_variables`,
        form: () => ({ name: freshName('V').replace(' ', '_'), content: 'something' }),
        unique: 'name',
      },
      user_tokens: {
        path: () => '/tokens',
        form: () => ({ name: freshName('token'), 'scopes[]': 'projects' }),
        unique: 'token_hash',
      },
      schedules: { path: () => `/projects/${project.id}/schedules`, form: () => ({ cron: '0 0 1 1 *' }), unique: '' },
      hooks: { path: () => `/projects/${project.id}/hooks`, form: () => ({ provider: 'generic' }), unique: '' },
      notifications: {
        path: () => `/projects/${project.id}/notifications`,
        form: () => ({ name: 'webhook', notifiable_type: 'build', 'options[url]': 'https://example.org/' }),
        unique: '',
      },
      deploy_strategies: {
        path: () => `/projects/${project.id}/deploy_strategies`,
        form: () => ({
          name: freshName('strategy'),
          strategy_type: 'git',
          'options[repository_url]': 'deploy@example.org:live.git',
          'options[local_branch]': 'main',
          'options[remote_branch]': 'production',
        }),
        unique: 'name',
      },
      oauth_clients: {
        path: () => '/applications',
        form: () => ({ name: 'Lamp', 'redirect_uris[]': 'https://lamp.example/cb' }),
        unique: '',
      },
      registries: {
        path: () => '/registries',
        form: () => ({ host: `${freshName('r').replace(' ', '')}.example.org`, username: 'me', password: 'secret' }),
        unique: 'host',
      },
      forges: { path: () => '/forges', form: () => forge.fields, unique: '' },
      dependencies: {
        path: () => '/dependencies',
        form: () => ({ name: freshName('dependency'), command: './configure --prefix=/srv/dependency' }),
        unique: 'name',
      },
      projects: {
        path: () => '/projects',
        form: () => ({ name: freshName('project'), repository_url: 'git@example.org:team/code.git' }),
        unique: 'name',
      },
    };

    test('records that a route creates has a bound [promise: bounds]', () => {
      const created = new Set(routes.flatMap(({ creates }) => creates ?? []));
      const elsewhere = new Set(['suite_dependencies', 'collaborators', 'organisation_members']); // with rows of other tables
      const missing = Object.keys(mostRecords).filter((table) => !(table in kinds) && !elsewhere.has(table));
      assert.deepEqual(missing, []);
      for (const table of created)
        if (!['work', 'account', 'organisation', 'upload'].includes(table)) assert.ok(table in mostRecords);
    });

    test('variables of a project is counted apart from those of its suites [promise: bounds]', async () => {
      const path = `/projects/${(await alice.createProject()).id}/environment_variables`;
      const form = (index: number) => ({ name: `V${index}`, content: 'something' });
      const { most } = mostRecords.environment_variables;
      for (let index = 0; index < most; index += 1) assert.equal((await alice.post(path, form(index))).status, 201);
      assertRefused(await alice.post(path, form(most)), 403, full);
    });

    for (const [name, { path, form, unique }] of Object.entries(kinds)) {
      const table = name as BoundedTable;
      const { most } = mostRecords[table];
      test(`${table} is bounded, also when two come at once, and deleting makes room [promise: bounds]`, async () => {
        assert.equal((await alice.post(path(), form())).status, 201);
        const { list } = await alice.get(path());
        const filled = await copyRows(service.store, table, most - 1 - list.length, (index) =>
          unique === '' ? {} : { [unique]: `copy-${index}.example.org` },
        );
        const answers = await Promise.all(Array.from({ length: 4 }, () => alice.post(path(), form())));
        const made = answers.filter(({ status }) => status === 201);
        assert.equal(made.length, 1, answers.map(({ text }) => text).join('\n'));
        for (const answer of answers) if (answer.status !== 201) assertRefused(answer, 403, full);
        assertRefused(await alice.post(path(), form()), 403, full);
        assert.equal((await alice.delete(`${path()}/${filled[0]}`)).status, 200);
        assert.equal((await alice.post(path(), form())).status, 201);
        assertRefused(await alice.post(path(), form()), 403, full);
        await service.store.db.transaction(async (trx) => {
          await trx
            .deleteFrom(table as 'suites')
            .where('id', 'in', filled.slice(1))
            .execute();
        });
      });
    }

    test('collaborators and the software of a suite is bounded [promise: bounds]', async () => {
      const { db, ids } = service.store;
      const place = `/projects/${project.id}/suites/${suite.id}/dependencies`;
      const owned = await Promise.all(
        Array.from({ length: mostRecords.suite_dependencies.most + 1 }, () => alice.createDependency()),
      );
      const attached: number[] = [];
      for (const { id } of owned) attached.push((await alice.post(place, { dependency_id: id })).status);
      assert.deepEqual(
        attached.slice(0, -1),
        owned.slice(1).map(() => 201),
      );
      assert.equal(attached.at(-1), 403);
      assert.equal((await alice.delete(`${place}/${owned[0]?.id}`)).status, 200);
      assert.equal((await alice.post(place, { dependency_id: owned.at(-1)?.id ?? 0n })).status, 201);

      const people = `/projects/${project.id}/collaborators`;
      const secrets = { password_hash: null, api_key_hash: null };
      await db.transaction(async (trx) => {
        for (let index = 0; index < mostRecords.collaborators.most; index += 1) {
          const email = `friend-${index}@example.org`;
          const user = await insertUser(trx, ids, { email, kind: 'collaborator', secrets });
          const row = { id: ids.next(), project_id: project.id, user_id: user, created_at: 0n };
          await trx.insertInto('collaborators').values(row).execute();
        }
      });
      assertRefused(await alice.post(people, { email: 'one-more@example.org' }), 403, full);
      const [somebody] = (await alice.get(people)).list;
      assert.equal((await alice.delete(`${people}/${somebody?.id}`)).status, 200);
      assert.equal((await alice.post(people, { email: 'one-more@example.org' })).status, 201);
    });

    test('bytes in the texts of one list is bounded, whether they are made or changed [promise: bounds]', async () => {
      const own = await alice.createProject();
      const path = `/projects/${own.id}/suites`;
      const command = 'x'.repeat(longest.command);
      const count = Math.floor(mostRecords.suites.texts.bytes / longest.command);
      const made = await alice.post(path, { name: 'large', command });
      assert.equal(made.status, 201);
      await copyRows(service.store, 'suites', count - 2, (index) => ({ name: `copy-${index}` }));
      assertRefused(await alice.post(path, { name: 'last', command: `${command.slice(1)}é` }), 403, full);
      const small = await alice.post(path, { name: 'small', command: 'make' });
      assert.equal(small.status, 201);
      assertRefused(await alice.put(`${path}/${small.record.id}`, { command }), 403, full);
      assert.equal((await alice.get(`${path}/${small.record.id}`)).record.command, 'make');
      assert.equal((await alice.delete(`${path}/${made.record.id}`)).status, 200);
      assert.equal((await alice.put(`${path}/${small.record.id}`, { command })).status, 200);
    });

    test('schedules of an account is bounded over all its projects [promise: bounds]', async () => {
      const bob = await service.user();
      const { most, ofAccount } = mostRecords.schedules;
      for (let filled = 0; filled < ofAccount; filled += most) {
        const { id } = await bob.createProject();
        assert.equal((await bob.post(`/projects/${id}/schedules`, { cron: '0 0 1 1 *' })).status, 201);
        await copyRows(service.store, 'schedules', most - 1, () => ({}));
      }
      const { id } = await bob.createProject();
      assertRefused(await bob.post(`/projects/${id}/schedules`, { cron: '0 0 1 1 *' }), 403, full);
      const other = await alice.createProject();
      assert.equal((await alice.post(`/projects/${other.id}/schedules`, { cron: '0 0 1 1 *' })).status, 201);
    });

    test('jobs that wait is bounded by account [promise: bounds]', async () => {
      const bob = await service.user();
      const crowded = await bob.createProject();
      const path = `/projects/${crowded.id}/build_requests`;
      assert.equal((await bob.post(path, { commit_ref: 'main' })).status, 201);
      const { db } = service.store;
      const [job] = await db.read.selectFrom('jobs').selectAll().orderBy('id', 'desc').limit(1).execute();
      assert.ok(job);
      for (let from = 1; from < mostWaitingJobs; from += 1000) {
        const length = Math.min(1000, mostWaitingJobs - from);
        const some = Array.from({ length }, () => ({ ...job, id: service.store.ids.next() }));
        await db.transaction((trx) => trx.insertInto('jobs').values(some).execute());
      }
      assertRefused(await bob.post(path, { commit_ref: 'main' }), 403, { generic: ['resource_temporary_unavailable'] });
      const { ids, observers } = service.store;
      const asked = {
        id: crowded.id,
        owner_id: job.account_id,
        fork_builds: 'without_secrets',
        cancel_superseded: 'none',
        config_file: '',
        build_twice: 0,
        pull_request_builds: 'head',
        parameters: '[]',
      } as const;
      const trigger = { source: 'poll', event: 'poll', pullRequest: null, targetBranch: '', fromFork: false } as const;
      const wanted = { commitRef: 'main', trigger: { ...trigger, sender: '', fetchRef: '', group: '' } };
      const { outcome, reason } = await db.transaction((trx) =>
        triggerRequest({ db, trx, ids, observers }, asked, wanted),
      );
      assert.equal(outcome, 'ignored');
      assert.match(reason, /20000 waiting jobs/);
      const other = await alice.createProject();
      assert.equal((await alice.post(`/projects/${other.id}/build_requests`, { commit_ref: 'main' })).status, 201);
      await db.transaction((trx) => trx.deleteFrom('jobs').where('account_id', '=', job.account_id).execute());
      assert.equal((await bob.post(path, { commit_ref: 'main' })).status, 201);
    });

    test('applications of an account is bounded [promise: bounds]', async () => {
      const bob = await service.user();
      await registerApplication(service, bob);
      await copyRows(service.store, 'oauth_clients', mostRecords.oauth_clients.most - 2, () => ({}));
      const tab = new Tab(service);
      await tab.signIn(bob.credentials);
      const form = { name: 'Lamp', 'redirect_uris[]': 'https://lamp.example/cb' };
      const register = async (): Promise<Answer> =>
        tab.submit(await tab.get('/ui/applications/new'), '/ui/applications/new', form);
      const last = await register();
      assert.match(last.text, /id="client-secret"/);
      const refused = await register();
      assert.equal(refused.status, 403);
      assert.match(refused.text, /You have 100 applications, and may not have more/);
    });
  },
  { settings: { webhook_allow: '127.0.0.0/8' } },
);
