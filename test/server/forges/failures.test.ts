import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { Record_ } from '../../support/client.ts';
import { FakeForge, type Dialect, type ForgeCall, type Interference } from '../../support/fake-forge.ts';
import { publicly } from '../../support/public-forge.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import type { User } from '../../support/user.ts';
import { longestWait } from '../../support/pauses.ts';

const later = { generic: ['resource_temporary_unavailable'] };

async function until<T>(seen: () => Promise<T>, fits: (value: T) => boolean): Promise<T> {
  for (const began = Date.now(); ;) {
    const value = await seen();
    if (fits(value)) return value;
    assert.ok(Date.now() - began < longestWait, 'it never came to that');
    await pause(10);
  }
}

/** What goes wrong with one call: before the forge has done anything, or after it has done all that was asked. */
const endings: Record<string, { interfere: Interference; words: RegExp }> = {
  'is away': {
    interfere: (_, response) => (response.destroy(), 'answered'),
    words: /closed without an answer/,
  },
  'limits its rate': {
    interfere: () => ({ status: 429, headers: { 'retry-after': '30' }, body: { message: 'Slow down' } }),
    words: /429: Slow down/,
  },
  // Something in between that says yes to everything, such as the page of a network where one signs in first.
  'answers no JSON': {
    interfere: (_, response) => (response.writeHead(200).end('<html>Welcome'), 'answered'),
    words: /is not this kind of forge/,
  },
  'answers without end': {
    interfere: (_, response) => {
      const more = (): void => void response.write(' '.repeat(65_536), more);
      more();
      return 'answered';
    },
    words: /more than 2\d{6} bytes/,
  },
};

describeServiceOnOne(
  'a forge that fails',
  (service) => {
    const connect = async (user: User, forge: FakeForge, fields = forge.fields): Promise<Record_> => {
      const made = await user.post('/forges', fields);
      assert.equal(made.status, 201, made.text);
      return made.record;
    };
    const removalsAt = (id: bigint) =>
      service.store.db.read.selectFrom('forge_removals').selectAll().where('forge_id', '=', id);
    /** Has what waits for a forge done now. */
    const soon = async (id: bigint) => {
      const { db } = service.store;
      await db.transaction(async (trx) => {
        await trx.updateTable('forge_removals').set({ run_after: 1n }).where('forge_id', '=', id).execute();
        await trx.updateTable('projects').set({ forge_check_at: 1n }).where('forge_id', '=', id).execute();
        await db.announce(trx, 'forges');
      });
    };

    const dialects: Dialect[] = ['github', 'center', 'cloud'];
    for (const dialect of dialects) {
      test(`${dialect}: at any point of one step leaves nothing half-made, and goes on when asked again`, async (t) => {
        await using forge = await FakeForge.start(dialect, 'team/app');
        const alice = await service.user();
        // Bitbucket Cloud is at its public address alone.
        const { id } = await connect(alice, forge, dialect === 'cloud' ? publicly(t, forge) : forge.fields);
        const app = forge.of('team/app');
        const make = () => alice.post('/projects', { forge_id: id, repository: 'team/app' });
        const steps = forge.calls.length;
        const whole = await make();
        assert.equal(whole.status, 201, whole.text);
        const count = forge.calls.length - steps;
        assert.ok(count >= 3);
        await alice.delete(`/projects/${whole.record.id}`);

        for (let step = 0; step < count; step += 1) {
          for (const [name, { interfere, words }] of Object.entries(endings)) {
            for (const staysAway of [false, true]) {
              let call = -1;
              forge.interfere = (...args) => {
                call += 1;
                return call === step || (staysAway && call > step) ? interfere(...args) : undefined;
              };
              const about = `${name} at step ${step}${staysAway ? ', and from then on' : ''}`;
              const { status, body, text } = await make();
              assert.deepEqual([status, body.error], [403, later], `${about}: ${text}`);
              assert.match(text, words, about);
              assert.deepEqual((await alice.get('/projects')).list, [], about);
              forge.interfere = () => undefined;
              if (staysAway) await soon(id);
              await until(
                () => removalsAt(id).execute(),
                (rows) => rows.length === 0,
              );
              assert.deepEqual([app.keys, app.hooks], [[], []], about);
            }
          }
        }
        // The forge has done what was asked, and its answer is lost.
        const lost = ({ method }: ForgeCall): boolean => method === 'POST';
        forge.interfere = (call, response) => {
          if (lost(call)) response.writeHead = () => response.destroy();
          return undefined;
        };
        assert.deepEqual((await make()).body.error, later);
        assert.deepEqual([app.keys, app.hooks], [[], []]);
        forge.interfere = () => undefined;
        assert.equal((await make()).status, 201);
        assert.deepEqual([app.keys.length, app.hooks.length], [1, 1]);
      });
    }

    test('is left alone as long as it says, and projects tell what is wrong with them', async () => {
      await using forge = await FakeForge.start('gitea', 'team/app', 'team/old');
      const [alice, bob] = [await service.user(), await service.user()];
      const { id } = await connect(alice, forge);
      const made = await alice.post('/projects', { forge_id: id, repository: 'team/app' });
      const path = `/projects/${made.record.id}`;
      const { db } = service.store;
      const due = db.read.selectFrom('projects').select('forge_check_at').where('forge_id', '=', id);
      const shown = async () => (await alice.get(path)).record;
      const looked = async () => {
        await soon(id);
        await until(
          () => due.executeTakeFirstOrThrow(),
          ({ forge_check_at: at }) => Number(at) > Date.now() + 1000,
        );
        return shown();
      };
      forge.interfere = () => ({ status: 429, headers: { 'retry-after': '2000' }, body: { message: 'Slow down' } });
      await looked();
      const { forge_check_at: next } = await due.executeTakeFirstOrThrow();
      const wait = Number(next) - Date.now();
      assert.ok(wait > 1_900_000 && wait <= 2_000_000, String(wait));
      const [state] = (await alice.get('/forges')).list;
      assert.deepEqual([state?.state, state?.state_reason], ['unreachable', 'The forge answered 429: Slow down']);

      // Somebody else at the same repository, with a token of their own, has a key and a hook of their own.
      forge.interfere = () => undefined;
      const { id: theirs } = await connect(bob, forge);
      const second = await bob.post('/projects', { forge_id: theirs, repository: 'team/app' });
      assert.equal(second.status, 201, second.text);
      const app = forge.of('team/app');
      assert.deepEqual([app.keys.length, app.hooks.length], [2, 2]);
      await bob.delete(`/projects/${second.record.id}`);
      assert.ok(String(made.record.ssh_public_key).startsWith(String(app.keys[0]?.key)));
      assert.deepEqual([app.keys.length, app.hooks.length], [1, 1]);

      const wrong = async (change: Partial<typeof app>, words: RegExp) => {
        const before = { ...app };
        Object.assign(app, change);
        const found = await looked();
        assert.deepEqual(
          [found.forge_state, words.test(String(found.forge_state_reason))],
          ['incomplete', true],
          String(found.forge_state_reason),
        );
        Object.assign(app, before);
        delete app.movedTo;
        assert.equal((await alice.post(`${path}/connect`, { forge_id: id })).record.forge_state, 'connected');
      };
      await wrong(
        { archived: true },
        /^The repository is archived, .* Unarchive it at the forge, then repair the connection\.$/,
      );
      await wrong({ admin: false }, /^The token may not administer the repository: .*, then repair the connection\.$/);
      await wrong(
        { movedTo: 'team/old' },
        /^The repository was renamed or moved to team\/old\. If that is the repository of this project, /,
      );
      await wrong({ hooks: [] }, /^The hook is missing at the forge, was switched off there, or lacks events\.$/);
      await wrong({ keys: [], hooks: [] }, /^The key and the hook are missing at the forge\.$/);

      // Its key is in use at another repository.
      const elsewhere = forge.of('team/old');
      elsewhere.keys = app.keys.splice(0);
      const refused = await alice.post(`${path}/connect`, { forge_id: id });
      assert.match(
        refused.text,
        /422: key is already in use\. If the key of the project is in use elsewhere at the forge, remove it there\./,
      );
      assert.equal(elsewhere.keys.length, 1, 'what others have there stays');
    });
  },
  { settings: { webhook_allow: '127.0.0.0/8' } },
);
