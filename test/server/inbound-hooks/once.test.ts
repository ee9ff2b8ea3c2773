import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { receive } from '../../../src/server/inbound-hooks/hook-deliveries.ts';
import { openStore } from '../../../src/cli/operator/store.ts';
import { movedRef } from '../../../src/server/inbound-hooks/facts.ts';
import { completeFacts } from '../../../src/server/inbound-hooks/payload-readers.ts';
import { forgetOldHookDeliveries } from '../../../src/server/inbound-hooks/retention.ts';
import type { Record_ } from '../../support/client.ts';
import { describeService } from '../../support/service.ts';
import type { User } from '../../support/user.ts';
import { deliver, sign, standard, type Hook } from './forge.ts';
import { bitbucket, center, github, gitlab, sha } from './payloads.ts';

describeService('a delivery', (service, database) => {
  let owner: User;
  let project: Record_;
  before(async () => {
    owner = await service.user();
    project = await owner.createProject({ repository_url: 'git@example.org:team/code.git' });
  });
  const make = async (provider: string): Promise<Hook> =>
    (await owner.post(`/projects/${project.id}/hooks`, { provider })).record as Hook;
  const requestsOf = async (hook: Hook): Promise<Record_[]> =>
    (await owner.get(`/projects/${project.id}/build_requests?limit=1000`)).list.filter(
      ({ created_by: by }) => by === `hook:${hook.id}`,
    );

  test('that comes again gives the same answer and no second request', async () => {
    const at = new Date();
    const again = {
      github: (secret: string, id: string) => sign.github(secret, 'push', github.push(), id),
      gitea: (secret: string, id: string) => sign.gitea(secret, 'push', github.push(), id),
      gitlab: (secret: string, id: string) => sign.gitlab(secret, 'Push Hook', gitlab.push(), id),
      gitlabSigned: (secret: string, id: string) => standard(secret, 'Push Hook', gitlab.push(), id, at),
      bitbucket: (secret: string, id: string) => sign.bitbucket(secret, 'repo:push', bitbucket.push(), id),
      generic: (secret: string, id: string) => sign.generic(secret, '', { ref: 'main' }, id),
    };
    for (const [name, make_] of Object.entries(again)) {
      const hook = await make(name.replace('Signed', ''));
      const id = `delivery of ${name} ${'x'.repeat(300)}`;
      const first = await deliver(service.api, hook, make_(hook.secret, id));
      assert.equal(first.record['outcome'], 'build_requested', name);
      const second = await deliver(service.api, hook, make_(hook.secret, id));
      assert.deepEqual([second.status, second.body], [202, first.body], name);
      const other = await deliver(service.api, hook, make_(hook.secret, `${id}, another`));
      assert.notEqual(other.record['build_request_id'], first.record['build_request_id'], name);
      assert.equal((await requestsOf(hook)).length, 2, name);
    }
  });

  test('that comes many times at once is one', async () => {
    const hook = await make('github');
    const sent = sign.github(hook.secret, 'push', github.push(), 'all at once');
    const answers = await Promise.all(Array.from({ length: 20 }, () => deliver(service.api, hook, sent)));
    assert.equal(new Set(answers.map(({ text }) => text)).size, 1);
    assert.equal((await requestsOf(hook)).length, 1);
  });

  const skip = database.kind === 'sqlite' && 'an SQLite file has one server';
  test('that comes to two servers at the same moment is one', { skip }, async () => {
    const hook = await make('github');
    const other = await openStore(service.config, (error) => {
      throw error;
    });
    try {
      const facts = completeFacts({ event: 'push', changes: [movedRef('refs/heads/main', sha, '')] });
      const take = ({ db, ids, observers }: typeof other) =>
        db.transaction((trx) => receive({ db, trx, ids, observers }, hook.id, { key: 'sent twice', facts }));
      const all = await Promise.all([service.store, other, service.store, other].map((store) => take(store)));
      assert.equal(new Set(all.map((delivery) => delivery?.build_request_id)).size, 1);
      assert.equal((await requestsOf(hook)).length, 1);
    } finally {
      await other.close();
    }
  });

  test('that moves several refs asks for a build of each; the answer names the first', async () => {
    const hook = await make('bitbucket');
    const commit = (digit: string) => digit.repeat(40);
    const changes = [
      { name: 'gone', deleted: true },
      { name: 'one', hash: commit('1') },
      { name: 'v1', type: 'annotated_tag', hash: commit('1') },
      { name: 'quiet', hash: commit('2'), message: '[skip ci]' },
      { name: 'two', hash: commit('2') },
    ];
    const answer = await deliver(service.api, hook, sign.bitbucket(hook.secret, 'repo:push', bitbucket.push(changes)));
    assert.equal(answer.record['outcome'], 'build_requested');
    assert.match(String(answer.record['reason']), /Of 5 refs 3 have a request/);
    const requests = (await requestsOf(hook)).toReversed();
    assert.deepEqual(
      requests.map(({ commit_ref, target_branch, event }) => [commit_ref, target_branch, event]),
      [
        [commit('1'), 'one', 'push'],
        [commit('1'), '', 'tag'],
        [commit('2'), 'two', 'push'],
      ],
    );
    assert.equal(answer.record['build_request_id'], requests[0]?.id);
    const path = `/projects/${project.id}/hooks/${hook.id}/deliveries`;
    const [delivery] = (await owner.get(path)).list;
    const told = delivery?.['changes'] as Record_[];
    assert.deepEqual(
      told.map(({ outcome, build_request_id }) => [outcome, build_request_id]),
      [
        ['ignored', null],
        ['build_requested', requests[0]?.id],
        ['build_requested', requests[1]?.id],
        ['skipped', null],
        ['build_requested', requests[2]?.id],
      ],
    );
  });

  test('of a thousand refs asks for a hundred builds, and says so', async () => {
    const hook = await make('bitbucket');
    const refs = Array.from({ length: 1000 }, (_, at) => ({ ref: `refs/heads/b${at}` }));
    const sent = sign.bitbucket(hook.secret, 'repo:refs_changed', center.push(refs));
    const answer = await deliver(service.api, hook, sent);
    assert.match(String(answer.record['reason']), /Of 100 refs 100 have a request; 900 more were skipped/);
    assert.equal((await requestsOf(hook)).length, 100);
  });

  test('goes after thirty days, but for the newest of a hook', async () => {
    const [hook, quiet] = [await make('generic'), await make('generic')];
    for (const one of [hook, hook, hook, quiet]) {
      await deliver(service.api, one, sign.generic(one.secret, '', { ref: 'main' }));
    }
    const count = async (one: Hook): Promise<number> =>
      (await owner.get(`/projects/${project.id}/hooks/${one.id}/deliveries`)).list.length;
    const days = (number: number): number => Date.now() + number * 24 * 60 * 60 * 1000;
    await forgetOldHookDeliveries(service.store.db, 30, days(29));
    assert.deepEqual([await count(hook), await count(quiet)], [3, 1]);
    await forgetOldHookDeliveries(service.store.db, 30, days(31));
    assert.deepEqual([await count(hook), await count(quiet)], [1, 1]);
  });
});
