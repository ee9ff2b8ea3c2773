import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { mendSchedules, runDueSchedules } from '../../../src/server/triggers/schedules.ts';
import { startScheduleClock } from '../../../src/server/triggers/schedule-clock.ts';
import type { Record_ } from '../../support/client.ts';
import { assertWrongFields } from '../../support/expect.ts';
import { describeService } from '../../support/service.ts';
import type { User } from '../../support/user.ts';

const minute = 60_000;
const fail = (error: unknown): never => {
  throw error;
};

describeService('schedules', (service) => {
  let alice: User;
  let project: Record_;
  before(async () => {
    alice = await service.user();
  });
  const pathOf = ({ id }: Record_): string => `/projects/${id}/schedules`;
  const create = async (form: Record<string, string>): Promise<Record_> => {
    project = await alice.createProject();
    const { status, record } = await alice.post(pathOf(project), form);
    assert.equal(status, 201);
    return record;
  };
  const shown = async (schedule: Record_): Promise<Record_> =>
    (await alice.get(`${pathOf(project)}/${schedule.id}`)).record;
  const requests = async (): Promise<Record_[]> => (await alice.get(`/projects/${project.id}/build_requests`)).list;
  const due = (schedule: Record_): number => Date.parse(String(schedule.next_run_at));
  const run = (now: number): Promise<number> => runDueSchedules(service.store, now, fail);

  test('say when they are next, and are changed and deleted', async () => {
    const schedule = await create({ cron: '30 2 1 1 *' });
    const year = new Date().getUTCFullYear() + 1;
    assert.deepEqual(
      { ...schedule, id: 0, id_str: '', created_at: '' },
      {
        id: 0,
        id_str: '',
        cron: '30 2 1 1 *',
        time_zone: 'UTC',
        commit_ref: '',
        variables: {},
        reuse: false,
        created_at: '',
        next_run_at: `${year}-01-01T02:30:00+00:00`,
        last_run_at: null,
        last_outcome: null,
        last_reason: '',
        last_build_request_id: null,
        last_build_request_id_str: '',
      },
    );
    const own = `${pathOf(project)}/${schedule.id}`;
    const zoned = (await alice.put(own, { time_zone: 'America/New_York', commit_ref: 'stable' })).record;
    assert.deepEqual([zoned.next_run_at, zoned.commit_ref], [`${year}-01-01T07:30:00+00:00`, 'stable']);
    assert.deepEqual(await shown(schedule), zoned);
    assert.deepEqual((await alice.get(pathOf(project))).list, [zoned]);
    assert.deepEqual((await alice.delete(own)).record, { destroyed: true });
    assert.deepEqual((await alice.get(pathOf(project))).list, []);
  });

  test('are refused with all that is wrong, also those that never come', async () => {
    project = await alice.createProject();
    const path = pathOf(project);
    assertWrongFields(await alice.post(path, {}), { cron: 'is_blank' });
    const wrong = { cron: '* * * * * *', time_zone: 'Mars/Olympus', commit_ref: 'a..b' };
    const invalid = 'invalid_format';
    assertWrongFields(await alice.post(path, wrong), { cron: invalid, time_zone: invalid, commit_ref: invalid });
    assertWrongFields(await alice.post(path, { cron: '0 0 30 2 *' }), { cron: invalid });
    const { record } = await alice.post(path, { cron: '0 0 1 2 *' });
    assertWrongFields(await alice.put(`${path}/${record.id}`, { cron: '0 0 31 2 *' }), { cron: invalid });
  });

  test('ask for a build once a time, whoever comes, and make up once what was missed', async () => {
    const schedule = await create({ cron: '0 3 * * *', commit_ref: 'nightly' });
    const at = due(schedule);
    assert.equal(await run(at - 1), 0);
    await Promise.all([run(at), run(at), run(at + 1000)]);
    const [request, ...more] = await requests();
    assert.deepEqual(more, []);
    const told = { event: request?.event, created_by: request?.created_by, sender: request?.sender };
    assert.deepEqual(told, { event: 'schedule', created_by: `schedule:${schedule.id}`, sender: '' });
    assert.deepEqual([request?.commit_ref, request?.pull_request], ['nightly', null]);
    const after = await shown(schedule);
    assert.deepEqual(
      [after.last_outcome, after.last_reason, after.last_build_request_id, due(after) - at],
      ['build_requested', '', request?.id, 24 * 60 * minute],
    );
    // The clock is set back, and the same time comes again.
    await run(at);
    await mendSchedules(service.store.db, at - 60 * minute);
    await run(at);
    assert.equal((await requests()).length, 1);
    // Nobody was there for four days.
    const late = at + 4 * 24 * 60 * minute + 5 * minute;
    await Promise.all([run(late), run(late)]);
    await run(late + minute);
    assert.equal((await requests()).length, 2);
    const made = await shown(schedule);
    assert.match(String(made.last_reason), /no server ran/);
    assert.equal(due(made), at + 5 * 24 * 60 * minute);
    // That was a clock far ahead; put right, it goes on by the right one.
    await mendSchedules(service.store.db, at - 10 * 24 * 60 * minute);
    assert.equal(due(await shown(schedule)), at - 9 * 24 * 60 * minute);
    assert.equal((await requests()).length, 2);
  });

  test('build the default branch where none is named, and say why nothing was built', async () => {
    const schedule = await create({ cron: '0 3 * * *' });
    await run(due(schedule));
    assert.equal((await requests())[0]?.commit_ref, 'HEAD');
    await service.stopPaying(alice);
    const again = due(schedule) + 24 * 60 * minute;
    await run(again);
    const row = await service.store.db.read
      .selectFrom('schedules')
      .selectAll()
      .where('id', '=', schedule.id)
      .executeTakeFirstOrThrow();
    assert.deepEqual([row.outcome, row.build_request_id], ['ignored', null]);
    assert.match(row.reason, /not paid for/);
    assert.equal(row.next_run_at, BigInt(again + 24 * 60 * minute));
    alice = await service.user();
  });

  test('are run by the clock of a server, that hears of new ones and of changed ones', async () => {
    const { db, ids, observers } = service.store;
    const now = Date.now() + 365 * 24 * 60 * minute;
    const clocks = [0, 1].map(() => startScheduleClock({ db, ids, observers, now: () => now, onError: fail }));
    const schedule = await create({ cron: '0 0 1 1 *', commit_ref: 'main' });
    const until = async (count: number): Promise<void> => {
      while ((await requests()).length < count) await pause(10);
    };
    await until(1); // by the clock that was handed in, it is overdue
    await alice.put(`${pathOf(project)}/${schedule.id}`, { cron: '1 0 1 1 *' }); // by that clock overdue again
    await until(2);
    await Promise.all(clocks.map((clock) => clock.close()));
    assert.equal((await requests()).length, 2);
  });

  test('of one account keep nobody else’s waiting [promise: account-turns]', async () => {
    const { db, ids } = service.store;
    alice = await service.user(); // nothing of hers is due
    const crowd = await create({ cron: '0 3 * * *' });
    const row = await db.read.selectFrom('schedules').selectAll().where('id', '=', crowd.id).executeTakeFirstOrThrow();
    const before = { ...row, next_run_at: row.next_run_at - 60_000n }; // all of them are due before the other one
    const copies = Array.from({ length: 999 }, () => ({ ...before, id: ids.next() }));
    await db.transaction(async (trx) => {
      await trx.insertInto('schedules').values(copies.slice(0, 500)).execute();
      await trx.insertInto('schedules').values(copies.slice(500)).execute();
    });
    const bob = await service.user();
    const { id } = await bob.createProject();
    const { record } = await bob.post(`/projects/${id}/schedules`, { cron: '0 3 * * *' });
    assert.equal(due(record), due(crowd));
    const done = await run(due(crowd));
    assert.ok(done < 100, `${done} were run before anything else was looked at`);
    assert.equal((await bob.get(`/projects/${id}/build_requests`)).list.length, 1);
    assert.notEqual((await requests()).length, 0); // the first account is served as well
    await alice.delete(`/projects/${project.id}`);
  });

  describe('of a project that is deleted', () => {
    test('go with it', async () => {
      const schedule = await create({ cron: '0 3 * * *' });
      await alice.delete(`/projects/${project.id}`);
      await run(due(schedule) + minute);
      assert.deepEqual(
        await service.store.db.read.selectFrom('schedules').select('id').where('id', '=', schedule.id).execute(),
        [],
      );
    });
  });
});
