import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { FakeForge, type Dialect } from '../../support/fake-forge.ts';
import { growingPauses } from '../../support/pauses.ts';
import { answers } from '../../support/refusing-forge.ts';
import { describeService, describeServiceOnOne, type Service } from '../../support/service.ts';

const day = 24 * 60 * 60 * 1000;
/** Each look is a few calls. A forge that does not answer is looked at four times an hour. */
const mostCalls = 4 * 24 + 30;

interface Day {
  calls: number;
  state: unknown;
  project: unknown;
}

/**
 * A day at a forge that answers like this: whenever nothing is due there any more, the time is let go by until something
 * is. `begins` is what a day begins with.
 */
async function dayAt(service: Service, forge: FakeForge, name: string, begins: 'look' | 'token'): Promise<Day> {
  const alice = await service.user();
  const { id } = (await alice.post('/forges', forge.fields)).record;
  const made = await alice.post('/projects', { forge_id: id, repository: 'team/app' });
  assert.equal(made.status, 201, made.text);
  const { db } = service.store;
  forge.of('team/app').hooks = [];
  const interfere = answers[name] ?? assert.fail(name);
  // Who the token belongs to is answered: that is how a token with too few rights is taken.
  forge.interfere = (call, response) =>
    /\/user$|_tokens|headrace-/.test(call.path) ? undefined : interfere(call, response);
  forge.calls.length = 0;
  /** Sets the clock on: all times at this forge become earlier. */
  const letGoBy = (ms: number) =>
    db.transaction(async (trx) => {
      const by = BigInt(ms);
      await trx
        .updateTable('forge_removals')
        .set({ run_after: sql`run_after - ${by}`, created_at: sql`created_at - ${by}` })
        .where('forge_id', '=', id)
        .execute();
      await trx
        .updateTable('projects')
        .set({ forge_check_at: sql`forge_check_at - ${by}` })
        .where('forge_id', '=', id)
        .execute();
      await db.announce(trx, 'forges');
    });
  const nextAt = async (): Promise<number> => {
    const { forge_check_at: check } = await db.read
      .selectFrom('projects')
      .select('forge_check_at')
      .where('forge_id', '=', id)
      .executeTakeFirstOrThrow();
    const removals = await db.read
      .selectFrom('forge_removals')
      .select('run_after')
      .where('forge_id', '=', id)
      .execute();
    return Math.min(Number(check), ...removals.map((one) => Number(one.run_after)));
  };
  const isHeld = async (): Promise<boolean> => {
    const { held_until: until } = await db.read
      .selectFrom('forges')
      .select('held_until')
      .where('id', '=', id)
      .executeTakeFirstOrThrow();
    return until > 0n;
  };
  if (begins === 'token') await alice.put(`/forges/${id}`, { token: forge.token ?? '' });
  else await letGoBy(Math.max(0, (await nextAt()) - Date.now()));
  for (let left = day; left > 0;) {
    for (const wait = growingPauses(); (await isHeld()) || (await nextAt()) <= Date.now(); await wait())
      assert.ok(forge.calls.length <= mostCalls, `${name}: ${forge.calls.length} calls, and no end`);
    const ahead = Math.max(1, (await nextAt()) - Date.now());
    if (ahead < left) await letGoBy(ahead);
    left -= ahead;
  }
  const { record: project } = await alice.get(`/projects/${made.record.id}`);
  return {
    calls: forge.calls.length,
    state: (await alice.get(`/forges/${id}`)).record.state,
    project: project.forge_state,
  };
}

const options = { settings: { webhook_allow: '127.0.0.0/8' }, forgePaceMs: 0 };

for (const [dialect, begins] of [
  ['github', 'look'],
  ['gitea', 'token'],
] as [Dialect, 'look' | 'token'][]) {
  describeServiceOnOne(
    `a day at ${dialect}`,
    (service) => {
      test(`has an end after a ${begins}, whatever the forge answers`, async () => {
        await Promise.all(
          Object.keys(answers).map(async (name) => {
            await using forge = await FakeForge.start(dialect, 'team/app');
            const { calls, state, project } = await dayAt(service, forge, name, begins);
            assert.ok(calls > 0 && calls <= mostCalls, `${name}: ${calls} calls`);
            const isSeen = state !== 'connected' || project !== 'connected';
            assert.ok(isSeen || name.includes('more'), `${name} goes unseen`);
          }),
        );
        assert.ok(!service.log.includes('checking the forges failed'), 'it is an answer, and no failure of ours');
      });
    },
    options,
  );
}

describeService(
  'a token that may no longer write',
  (service) => {
    for (const begins of ['look', 'token'] as const)
      test(`is asked with once, after a ${begins}`, async () => {
        await using forge = await FakeForge.start('gitea', 'team/app');
        const { calls, project } = await dayAt(service, forge, 'forbids', begins);
        assert.equal(project, 'incomplete');
        assert.ok(calls <= 6, `${calls} calls`);
      });
  },
  options,
);
