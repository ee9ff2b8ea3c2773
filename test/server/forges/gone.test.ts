import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { entriesSince } from '../../../src/server/auth/audit.ts';
import type { Record_ } from '../../support/client.ts';
import { FakeForge, type Dialect } from '../../support/fake-forge.ts';
import { growingPauses } from '../../support/pauses.ts';
import { publicly } from '../../support/public-forge.ts';
import { describeService, describeServiceOnOne, type Service } from '../../support/service.ts';
import type { User } from '../../support/user.ts';

const options = { settings: { webhook_allow: '127.0.0.0/8' }, forgePaceMs: 0 };
const dialects: Dialect[] = ['github', 'gitlab', 'gitea', 'cloud', 'center'];

/** An account with a project that is connected to a repository, and what it sees of that. */
class Connected {
  readonly #service: Service;
  readonly forge: FakeForge;
  readonly alice: User;
  readonly made: Record_;

  private constructor(service: Service, forge: FakeForge, alice: User, made: Record_) {
    this.#service = service;
    this.forge = forge;
    this.alice = alice;
    this.made = made;
  }

  static async at(service: Service, forge: FakeForge, t: TestContext): Promise<Connected> {
    const alice = await service.user();
    // Bitbucket Cloud is at its public address alone.
    const fields = forge.dialect === 'cloud' ? publicly(t, forge) : forge.fields;
    const { id } = (await alice.post('/forges', fields)).record;
    const made = await alice.post('/projects', { forge_id: id, repository: 'team/app' });
    assert.equal(made.status, 201, made.text);
    forge.calls.length = 0;
    return new Connected(service, forge, alice, made.record);
  }

  get path(): string {
    return `/projects/${this.made.id}`;
  }

  async shown(): Promise<Record_> {
    return (await this.alice.get(this.path)).record;
  }

  /** Lets the day pass until the forge is looked at again. */
  async looked(): Promise<string> {
    const { db } = this.#service.store;
    const own = db.read.selectFrom('projects').select('forge_check_at').where('id', '=', this.made.id);
    await db.transaction(async (trx) => {
      await trx.updateTable('projects').set({ forge_check_at: 1n }).where('id', '=', this.made.id).execute();
      await db.announce(trx, 'forges');
    });
    for (const wait = growingPauses(); Number((await own.executeTakeFirst())?.forge_check_at) <= Date.now();)
      await wait();
    const { forge_state: state, forge_state_reason: reason } = await this.shown();
    assert.equal(state, 'incomplete');
    return String(reason);
  }

  /** What the button `Mend` does, which has to be refused with these words; they are what the project says from then on. */
  async refusesToMend(words: RegExp): Promise<void> {
    const { status, body } = await this.alice.post(`${this.path}/connect`, {});
    assert.deepEqual([status, body.error], [403, { repository: ['invalid_format'] }]);
    assert.match(String(body.message), words);
    const { forge_state: state, forge_state_reason: reason } = await this.shown();
    assert.deepEqual([state, reason], ['incomplete', body.message]);
  }

  async mend(): Promise<Record_> {
    const { status, record, text } = await this.alice.post(`${this.path}/connect`, {});
    assert.equal(status, 200, text);
    assert.deepEqual([record.forge_state, record.forge_state_reason], ['connected', '']);
    return record;
  }

  /** How often the forge was called since the last time. */
  get calls(): number {
    return this.forge.calls.splice(0).length;
  }
}

describeServiceOnOne(
  'a repository that is no longer what it was at the forge',
  (service) => {
    for (const dialect of dialects) {
      test(`${dialect}: renamed, is named by the reason and followed by mending`, async (t) => {
        await using forge = await FakeForge.start(dialect, 'team/app');
        const one = await Connected.at(service, forge, t);
        const { keys, hooks } = forge.of('team/app');
        forge.rename('team/app', 'team/river');
        assert.match(
          await one.looked(),
          /^The repository is now called team\/river at the forge\. Repair the connection/,
        );
        assert.ok(one.calls <= 5);
        const mended = await one.mend();
        assert.ok(one.calls <= 7);
        assert.deepEqual(
          [mended.forge_repository, mended.clone_url, mended.repository_url],
          ['team/river', 'git@forge.example.org:team/river.git', 'git@forge.example.org:team/river.git'],
        );
        assert.deepEqual(await one.shown(), mended);
        assert.deepEqual([forge.of('team/river').keys, forge.of('team/river').hooks], [keys, hooks]);
        const { list: targets } = await one.alice.get(`${one.path}/status_targets`);
        assert.deepEqual(
          targets.map(({ repository }) => repository),
          ['team/river'],
        );
        const entries = await Array.fromAsync(entriesSince(service.store.db.read, 0n));
        const about = entries.find(
          ({ action, subject_id: id }) => action === 'project.connected' && id === one.made.id,
        );
        assert.match(String(about?.details), /team\/app\.git.*team\/river\.git/);
      });

      test(`${dialect}: that has no ID, is known by its name`, async (t) => {
        await using forge = await FakeForge.start(dialect, 'team/app');
        Object.assign(forge.of('team/app'), { id: undefined });
        const one = await Connected.at(service, forge, t);
        forge.of('team/app').hooks.length = 0;
        assert.equal((await one.mend()).forge_repository, 'team/app');
        assert.equal(forge.of('team/app').hooks.length, 1);
      });

      test(`${dialect}: whose name somebody else has by now, is not taken for that one`, async (t) => {
        await using forge = await FakeForge.start(dialect, 'team/app');
        const one = await Connected.at(service, forge, t);
        forge.rename('team/app', 'team/river');
        const other = forge.add('team/app', { admin: false });
        // Bitbucket Data Center cannot be asked by the ID, so there the new owner's rights decide.
        const words =
          dialect === 'center' ? /^The token may not administer/ : /^The repository is now called team\/river/;
        assert.match(await one.looked(), words);
        assert.ok(one.calls <= 6);
        if (dialect === 'center') await one.refusesToMend(words);
        else assert.equal((await one.mend()).forge_repository, 'team/river');
        assert.deepEqual([other.keys, other.hooks], [[], []]);
      });

      test(`${dialect}: that leads to another one, is not followed there`, async (t) => {
        await using forge = await FakeForge.start(dialect, 'team/app', 'team/other');
        const one = await Connected.at(service, forge, t);
        forge.repositories.delete('team/app');
        forge.add('team/app', { movedTo: 'team/other' });
        const words = /^The repository was renamed or moved to team\/other\. .* connect it again\.$/;
        assert.match(await one.looked(), words);
        await one.refusesToMend(words);
        assert.equal((await one.shown()).clone_url, one.made.clone_url);
        assert.deepEqual(forge.of('team/other').keys, []);
      });

      test(`${dialect}: gone, or not seen by the token, says what to do`, async (t) => {
        await using forge = await FakeForge.start(dialect, 'team/app');
        const one = await Connected.at(service, forge, t);
        const app = forge.of('team/app');
        forge.repositories.delete('team/app');
        const words =
          /^The forge has no repository team\/app, or hides it from this token\. The forge answered 404: Not Found\. Give the token access to it or replace the token, then repair the connection\. If it was deleted, change the address or delete the project\.$/;
        assert.match(await one.looked(), words);
        assert.ok(one.calls <= 2);
        await one.refusesToMend(words);
        assert.ok(one.calls <= 2);
        forge.repositories.set('team/app', app);
        await one.mend();
      });

      test(`${dialect}: deleted and made anew, is the one that is meant`, async (t) => {
        await using forge = await FakeForge.start(dialect, 'team/app');
        const one = await Connected.at(service, forge, t);
        const anew = forge.add('team/app');
        assert.equal(await one.looked(), 'The key and the hook are missing at the forge.');
        await one.mend();
        assert.deepEqual([anew.keys.length, anew.hooks.length], [1, 1]);
        // From now on that one is followed.
        forge.rename('team/app', 'team/river');
        assert.equal((await one.mend()).forge_repository, 'team/river');
      });

      if (dialect === 'cloud') continue; // it archives nothing
      test(`${dialect}: archived, is mended once it is unarchived`, async (t) => {
        await using forge = await FakeForge.start(dialect, 'team/app');
        const one = await Connected.at(service, forge, t);
        const app = forge.of('team/app');
        app.archived = true;
        const words =
          /^The repository is archived, so nothing can be added to it\. Unarchive it at the forge, then repair the connection\.$/;
        assert.match(await one.looked(), words);
        await one.refusesToMend(words);
        app.archived = false;
        await one.mend();
      });
    }

    test('is connected again under its new name, in every form of address', async (t) => {
      for (const [before, after] of [
        ['ssh://git@forge.example.org:2222/team/app', 'ssh://git@forge.example.org:2222/team/river'],
        ['git@forge.example.org:/srv/TEAM/App.git', 'git@forge.example.org:/srv/team/river.git'],
      ] as const) {
        await using forge = await FakeForge.start('gitea', 'team/app', 'team/lib');
        const one = await Connected.at(service, forge, t);
        await one.alice.put(one.path, { clone_url: before });
        const again = await one.alice.post(`${one.path}/connect`, {
          forge_id: String((await one.alice.get('/forges')).list[0]?.id),
          repository: 'team/app',
        });
        assert.equal(again.status, 200, again.text);
        forge.rename('team/app', 'team/river');
        const other = await one.alice.post(`${one.path}/connect`, { repository: 'team/lib' });
        assert.match(other.text, /^(?=.*"repository":\["invalid_format"\]).*and not team\/lib/);
        const { status, record, text } = await one.alice.post(`${one.path}/connect`, { repository: 'team/river' });
        assert.equal(status, 200, text);
        assert.deepEqual([record.clone_url, record.forge_repository], [after, 'team/river']);
      }
    });
  },
  options,
);

describeService(
  'a renamed repository',
  (service) => {
    test('is not followed over an address that somebody enters meanwhile', async (t) => {
      await using forge = await FakeForge.start('gitea', 'team/app');
      const one = await Connected.at(service, forge, t);
      forge.rename('team/app', 'team/river');
      const [came, let_go] = [Promise.withResolvers<void>(), Promise.withResolvers<undefined>()];
      forge.interfere = ({ path }) => (path.endsWith('/hooks') ? (came.resolve(), let_go.promise) : undefined);
      const mending = one.alice.post(`${one.path}/connect`, {});
      await came.promise;
      const elsewhere = 'git@other.example.org:team/else.git';
      assert.equal((await one.alice.put(one.path, { clone_url: elsewhere })).status, 200);
      let_go.resolve(undefined);
      const { status, body } = await mending;
      assert.deepEqual([status, body.error], [403, { generic: ['resource_temporary_unavailable'] }]);
      const { clone_url: url, forge_state: state } = await one.shown();
      assert.deepEqual([url, state], [elsewhere, 'none']);
    });

    test('keeps its polling going, and a reason is noted of a project that is still connected alone', async (t) => {
      await using forge = await FakeForge.start('gitea', 'team/app');
      const one = await Connected.at(service, forge, t);
      await one.alice.put(one.path, { poll_interval: '60' });
      const polls = service.store.db.read.selectFrom('polls').selectAll();
      const before = await polls.where('project_id', '=', one.made.id).executeTakeFirstOrThrow();
      forge.rename('team/app', 'team/river');
      assert.equal((await one.mend()).clone_url, 'git@forge.example.org:team/river.git');
      assert.deepEqual(await polls.where('project_id', '=', one.made.id).executeTakeFirstOrThrow(), before);
      forge.repositories.clear();
      await one.refusesToMend(/^The forge has no repository team\/river,/);
    });
  },
  options,
);
