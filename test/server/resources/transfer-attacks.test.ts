import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertRefused } from '../../support/expect.ts';
import type { Record_ } from '../../support/client.ts';
import { FakeForge } from '../../support/fake-forge.ts';
import { describeWithRunner } from '../../support/runner.ts';
import { runningBuild } from '../../support/running-build.ts';
import type { User } from '../../support/user.ts';

const missing = { generic: ['not_found'] };
const unauthorized = { generic: ['unauthorized'] };

describeWithRunner(
  'a project that is handed over',
  (service, runner) => {
    let number = 0;
    const teamOf = async (owner: User): Promise<Record_> =>
      (await owner.post('/organisations', { name: `heirs-${(number += 1)}` })).record;
    const to = (organisation: Record_) => ({ organisation_id: String(organisation.id) });

    test('goes on with what runs, and its old people lose it at once [promise: hand-over]', async () => {
      const [owner, heir] = [await service.user(), await service.user()];
      const build = await runningBuild(owner, runner);
      const path = `/projects/${build.project.id}`;
      const team = await teamOf(owner);
      for (let round = 0; round < 2; round += 1) {
        // Back and forth, while it builds.
        assert.equal((await owner.post(`${path}/transfer`, to(team))).status, 200);
        await build.task.writeLog(`round ${round}\n`);
        assert.equal((await owner.post(`${path}/transfer`, { email: owner.email })).status, 200);
        assert.equal((await owner.post(`${path}/accept`)).record.organisation_id, null);
      }
      assert.equal((await owner.post(`${path}/transfer`, { email: heir.email })).status, 200);
      await build.task.writeLog('still the old owner’s\n');
      assertRefused(await heir.get(build.path), 404, missing);
      assert.equal((await heir.post(`${path}/accept`)).status, 200);
      await build.task.exit(0);
      for (const lost of [path, build.path, `${build.path}/log`, `${path}/firehose`])
        assertRefused(await owner.get(lost), 404, missing);
      assert.equal((await heir.get(build.path)).record.build_state, 'passed');
      assert.match(
        String((await heir.get(`${build.path}/log`)).record.text),
        /round 0\nround 1\nstill the old owner’s\n/,
      );
      assertRefused(await owner.post(`${path}/accept`), 404, missing);
    });

    test('goes to whom it was offered last, while its offerer may give it [promise: hand-over]', async () => {
      const [owner, first, second] = [await service.user(), await service.user(), await service.user()];
      const project = await owner.createProject();
      const path = `/projects/${project.id}`;
      const offer = async (by: User, person: User) =>
        assert.equal((await by.post(`${path}/transfer`, { email: person.email })).status, 200);
      const offersOf = async (person: User) =>
        ((await person.get('/dashboard')).record.offers as Record_[]).map(({ name }) => name);
      await offer(owner, first);
      assert.deepEqual(await offersOf(first), [project.name]);
      await offer(owner, second);
      assert.deepEqual([await offersOf(first), await offersOf(second)], [[], [project.name]]);
      assertRefused(await first.post(`${path}/accept`), 404, missing);

      // Nobody has answered when it goes elsewhere: the offer is over, and comes back with nobody.
      const team = await teamOf(owner);
      assert.equal((await owner.post(`${path}/transfer`, to(team))).status, 200);
      assert.deepEqual(await offersOf(second), []);
      assertRefused(await second.post(`${path}/accept`), 404, missing);

      // A maintainer offers it to an accomplice, and then loses the right to.
      const members = `/organisations/${team.id}/members`;
      const ways: Record<string, (id: bigint, person: User) => Promise<unknown>> = {
        lowered: (id) => owner.put(`${members}/${id}`, { role: 'developer' }),
        suspended: (_, person) => service.suspend(person),
        'gone at the issuer': (_, person) =>
          service.store.db.transaction((trx) =>
            trx.updateTable('users').set({ shut_out: 'gone' }).where('email', '=', person.email).execute(),
          ),
      };
      for (const [way, lose] of Object.entries(ways)) {
        const leaver = await service.user();
        const { record } = await owner.post(members, { email: leaver.email, role: 'maintainer' });
        await offer(leaver, second);
        await lose(record.id, leaver);
        assert.deepEqual(await offersOf(second), [], way);
        assertRefused(await second.post(`${path}/accept`), 404, missing);
      }
      assert.equal((await owner.get(path)).record.organisation_id, team.id);

      // The same of somebody's own project, which its owner can no longer give away.
      const own = await first.createProject();
      assert.equal((await first.post(`/projects/${own.id}/transfer`, { email: second.email })).status, 200);
      await service.suspend(first);
      assertRefused(await second.post(`/projects/${own.id}/accept`), 404, missing);
    });

    test('never goes to an organisation whose maintainer the caller is not, nor over another name', async () => {
      const [owner, other] = [await service.user(), await service.user()];
      const project = await owner.createProject();
      const path = `/projects/${project.id}`;
      const team = await teamOf(other);
      const members = `/organisations/${team.id}/members`;
      assertRefused(await owner.post(`${path}/transfer`, to(team)), 404, { organisation_id: ['not_found'] });
      const { record } = await other.post(members, { email: owner.email, role: 'developer' });
      for (const role of ['developer', 'viewer']) {
        await other.put(`${members}/${record.id}`, { role });
        assertRefused(await owner.post(`${path}/transfer`, to(team)), 401, unauthorized);
      }
      assert.deepEqual((await other.get(`/projects?organisation_id=${team.id}`)).list, []);
      // Nor is an organisation a person who accepts.
      assertRefused(await owner.post(`${path}/transfer`, { email: String(team.name) }), 403, {
        email: ['invalid_format'],
      });

      await other.createProject({ name: String(project.name) });
      assert.equal((await owner.post(`${path}/transfer`, { email: other.email })).status, 200);
      assertRefused(await other.post(`${path}/accept`), 403, { name: ['already_exists'] });
      assert.equal((await owner.get(path)).status, 200, 'it stays where it was');
      await owner.put(path, { name: 'another name' });
      assert.equal((await other.post(`${path}/accept`)).status, 200, 'the offer stands');
    });

    test('keeps its connection at a forge that its new owner has, and no token of the old one [promise: hand-over]', async () => {
      await using forge = await FakeForge.start('github', 'team/app');
      const [owner, same, without] = [await service.user(), await service.user(), await service.user()];
      const connected = (await owner.post('/forges', forge.fields)).record;
      const theirs = (await same.post('/forges', forge.fields)).record;
      const made = await owner.post('/projects', { forge_id: connected.id_str, repository: 'team/app' });
      assert.equal(made.status, 201, made.text);
      const path = `/projects/${made.record.id}`;
      const give = async (from: User, person: User): Promise<Record_> => {
        assert.equal((await from.post(`${path}/transfer`, { email: person.email })).status, 200);
        const answer = await person.post(`${path}/accept`);
        assert.equal(answer.status, 200, answer.text);
        return answer.record;
      };
      assert.deepEqual([(await give(owner, same)).forge_id, theirs.id === connected.id], [theirs.id, false]);
      const left = await give(same, without);
      assert.deepEqual([left.forge_id, left.forge_state], [null, 'incomplete']);
      assert.match(String(left.forge_state_reason), /new owner, who has not connected this forge/);
      const back = await give(without, owner);
      assert.equal(back.forge_id, null, 'nothing is connected by itself');
      const again = await owner.post(`${path}/connect`, {
        forge_id: connected.id_str,
        repository: 'team/app',
      });
      assert.equal(again.status, 200, again.text);
    });
  },
  { settings: { webhook_allow: '127.0.0.0/8' } },
);
