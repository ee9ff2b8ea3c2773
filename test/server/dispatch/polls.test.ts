import assert from 'node:assert/strict';
import { before, beforeEach, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { sql } from 'kysely';
import { recordHeartbeat } from '../../../src/server/auth/runner-heartbeats.ts';
import { insertRunner } from '../../../src/server/auth/runners.ts';
import { digestOf, writeListing } from '../../../src/shared/domain/ref-listings.ts';
import { claimPolls, type ClaimedPoll } from '../../../src/server/triggers/poll-claims.ts';
import { makeStrandedPollsDue } from '../../../src/server/triggers/polls.ts';
import { pollWait, withJitter } from '../../../src/server/triggers/poll-waits.ts';
import type { PollOrder, PollReport } from '../../../src/shared/protocol/index.ts';
import type { Record_ } from '../../support/client.ts';
import { describeWithRunner, ScriptedRunner } from '../../support/runner.ts';
import type { User } from '../../support/user.ts';

const sha = (digit: string): string => digit.repeat(40);

test('a host that fails is left alone for longer and longer, and nobody keeps step with others', () => {
  const waits = [0, 1, 2, 3, 4, 5, 6, 50].map((failures) => pollWait(failures, 60_000) / 60_000);
  assert.deepEqual(waits, [1, 1, 1, 1, 2, 4, 8, 15]);
  assert.equal(pollWait(50, 3_600_000), 3_600_000);
  assert.deepEqual([withJitter(1000, 0), withJitter(1000, 0.5), withJitter(1000, 1)], [900, 1000, 1100]);
});

describeWithRunner('polls of repositories', (service, runner, database) => {
  let alice: User;
  let other: ScriptedRunner;
  before(async () => {
    alice = await service.user();
    other = await ScriptedRunner.start(service.store);
    database.afterwards(() => other.dispatch.close());
  });

  // Whatever another test left is none of the next one's business.
  beforeEach(() => service.store.db.transaction((trx) => trx.deleteFrom('polls').execute()));

  /** What is due at this moment. */
  const due = (by: ScriptedRunner = runner, room = 64): Promise<PollOrder[]> =>
    by.dispatch.polls(by.self, { room }, AbortSignal.abort());
  const tell = (order: PollOrder, seen: PollReport['seen']): Promise<void> =>
    runner.dispatch.polled(runner.self, {
      reports: [{ projectId: order.source.projectId, claim: order.claim, seen }],
    });
  const see = (order: PollOrder, refs: Record<string, string>): Promise<void> =>
    tell(order, { listing: writeListing(new Map(Object.entries(refs))) });
  const polled = (user = alice, more: Record<string, string> = {}): Promise<Record_> =>
    user.createProject({ poll_interval: '60', ...more });
  const change = (values: object, { id }: { id: bigint }): Promise<unknown> =>
    service.store.db.transaction((trx) => trx.updateTable('polls').set(values).where('project_id', '=', id).execute());
  const lookNow = (project: Record_): Promise<unknown> => change({ next_poll_at: 0n }, project);
  const one = async (): Promise<PollOrder> => {
    const [order, ...more] = await due();
    assert.equal(more.length, 0);
    return order ?? assert.fail('nothing is due');
  };
  const again = async (project: Record_): Promise<PollOrder> => {
    await lookNow(project);
    return one();
  };
  const polling = async ({ id }: Record_, by = alice): Promise<Record_> =>
    (await by.get(`/projects/${id}/polling`)).record;
  const requests = async ({ id }: Record_): Promise<Record_[]> =>
    (await alice.get(`/projects/${id}/build_requests`)).list.toReversed();
  const waitOf = async (project: Record_): Promise<number> => {
    const row = service.store.db.read.selectFrom('polls').select('wait_ms').where('project_id', '=', project.id);
    return Math.round(Number((await row.executeTakeFirstOrThrow()).wait_ms) / 1000);
  };
  const remove = (project: Record_): Promise<unknown> => alice.delete(`/projects/${project.id}`);

  test('build what is new or has moved since the last one, and nothing at first', async () => {
    const project = await polled();
    const waiting = await polling(project);
    assert.deepEqual([waiting.outcome, waiting.last_polled_at, waiting.poll_interval], ['waiting', null, 60]);
    const first = await one();
    assert.equal(first.source.repositoryUrl, project.repository_url);
    assert.match(first.source.privateKey, /BEGIN OPENSSH PRIVATE KEY/);
    assert.deepEqual([first.digest, first.againAfterMs], [null, 60_000]);
    const refs = { 'refs/heads/main': sha('1'), 'refs/heads/old': sha('2'), 'refs/tags/v1': sha('3') };
    await see(first, refs);
    assert.deepEqual(await requests(project), []);
    const seen = await polling(project);
    assert.deepEqual([seen.outcome, seen.failures], ['first_poll', 0]);
    assert.match(String(seen.reason), /3 branches and tags are there\. The first poll builds nothing/);
    assert.deepEqual(await due(), [], 'the next one is not due');

    const second = await again(project);
    assert.equal(second.digest, digestOf(writeListing(new Map(Object.entries(refs)))));
    await tell(second, { unchanged: true });
    assert.equal((await polling(project)).outcome, 'unchanged');

    // Forced to another commit, new, and deleted.
    const moved = { 'refs/heads/main': sha('4'), 'refs/heads/new/one': sha('1'), 'refs/tags/v1': sha('3') };
    await see(await again(project), { ...moved, 'refs/tags/v2': sha('5') });
    const asked = await requests(project);
    const facts = asked.map(({ commit_ref, event, created_by, target_branch, sender, from_fork }) => [
      commit_ref,
      event,
      created_by,
      target_branch,
      sender,
      from_fork,
    ]);
    assert.deepEqual(facts, [
      [sha('4'), 'poll', 'poll', 'main', '', false],
      [sha('1'), 'poll', 'poll', 'new/one', '', false],
      [sha('5'), 'poll', 'poll', '', '', false],
    ]);
    const stored = await service.store.db.read
      .selectFrom('build_requests')
      .select(['fetch_ref', 'concurrency_group'])
      .where('project_id', '=', project.id)
      .orderBy('id')
      .execute();
    assert.deepEqual(
      stored.map((row) => [row.fetch_ref, row.concurrency_group]),
      [
        ['refs/heads/main', 'branch:main'],
        ['refs/heads/new/one', 'branch:new/one'],
        ['refs/tags/v2', ''],
      ],
    );
    const told = await polling(project);
    assert.equal(told.outcome, 'build_requested');
    assert.match(String(told.reason), /main \(44444444\), new\/one \(11111111\), the tag v2 .* 1 was deleted/);
    // A deletion alone, and what was deleted and comes again.
    await see(await again(project), moved);
    assert.deepEqual([(await requests(project)).length, (await polling(project)).outcome], [3, 'ignored']);
    await see(await again(project), { ...moved, 'refs/tags/v2': sha('5') });
    assert.equal((await requests(project)).length, 4);
    await remove(project);
  });

  test('of an empty repository note that, and build its first branch', async () => {
    const project = await polled();
    await see(await one(), {});
    assert.match(String((await polling(project)).reason), /empty/);
    await see(await again(project), { 'refs/heads/main': sha('1') });
    assert.equal((await requests(project)).length, 1);
    await remove(project);
  });

  test('ask for twenty builds at most, of branches and of the newest tags, and say so', async () => {
    const project = await polled();
    await see(await one(), {});
    const tags = Array.from({ length: 5000 }, (_, at) => [`refs/tags/v1.${at}`, sha('6')]);
    await see(await again(project), { ...Object.fromEntries(tags), 'refs/heads/main': sha('7') });
    const asked = await requests(project);
    assert.equal(asked.length, 20);
    assert.equal(asked[0]?.target_branch, 'main');
    const { reason } = await polling(project);
    assert.match(String(reason), /the tag v1\.4999 .*5001 branches and tags were new .* at most 20 builds/);
    await tell(await again(project), { unchanged: true });
    assert.equal((await requests(project)).length, 20, 'the others are passed over for good');
    await remove(project);
  });

  test('are one runner’s each, also when two servers are asked at once, and are given again when they are lost', async () => {
    const projects = await Promise.all(Array.from({ length: 12 }, () => polled()));
    const all = [runner, other, runner.beside('a'), runner.beside('b')];
    const taken: PollOrder[] = [];
    // Who comes at the same moment as another may go away with less, and asks again.
    while (taken.length < 12) taken.push(...(await Promise.all(all.map((by) => due(by, 6)))).flat());
    assert.equal(new Set(taken.map(({ source }) => source.projectId)).size, taken.length);
    assert.deepEqual((await Promise.all(all.map((by) => due(by)))).flat(), []);
    const [lost = assert.fail()] = taken;
    const project = projects.find(({ id }) => String(id) === lost.source.projectId) ?? assert.fail();
    const second = await again(project);
    await see(lost, { 'refs/heads/main': sha('1') }); // from the one that was given up
    assert.equal((await polling(project)).outcome, 'waiting', 'counts for nothing');
    await see(second, { 'refs/heads/main': sha('1') });
    const third = await again(project);
    const news = { 'refs/heads/main': sha('2') };
    await Promise.all([see(third, news), see(third, news), see(third, news)]); // told again, because an answer was lost
    assert.equal((await requests(project)).length, 1);
    // A runner that is known to be gone has nothing any more.
    await lookNow(project);
    assert.equal((await due(runner.beside('mortal'))).length, 1);
    assert.deepEqual(await due(), []);
    await runner.dispatch.holderGone('mortal');
    assert.equal((await due()).length, 1);
    for (const each of projects) await remove(each);
  });

  test('that fail say why, wait longer, and are hurried by a check that succeeds', async () => {
    const project = await polled();
    const waits: number[] = [];
    for (let failures = 1; failures <= 5; failures += 1) {
      const order = failures === 1 ? await one() : await again(project);
      await tell(order, { failed: 'host_unreachable', message: 'The host h does not answer.' });
      waits.push(Math.round((await waitOf(project)) / 60));
    }
    assert.deepEqual(waits, [1, 1, 1, 2, 4]);
    const failed = await polling(project);
    assert.deepEqual([failed.outcome, failed.reason, failed.failures], ['failed', 'The host h does not answer.', 5]);
    assert.deepEqual(await due(), []);
    // A runner is there: one that was not seen for a while would not be waited for.
    await recordHeartbeat(service.store.db, { holder: 'scripted' }, { version: '0.1.0', trouble: '' });
    const checked = alice.post(`/projects/${project.id}/check_connection`);
    const jobs = service.store.db.read.selectFrom('jobs').select('id').where('kind', '=', 'check_connection');
    while ((await jobs.execute()).length === 0) await new Promise(setImmediate);
    const task = await runner.take('check_connection');
    await task.finish({ kind: 'checked', defaultBranch: null, branches: [], files: [] });
    await checked;
    await see(await one(), {});
    assert.deepEqual([(await polling(project)).failures, (await waitOf(project)) <= 66], [0, true]);
    await remove(project);
  });

  test('begin anew when the repository is another or polling was off, and go by a new interval at once', async () => {
    const project = await polled();
    const path = `/projects/${project.id}`;
    await see(await one(), { 'refs/heads/main': sha('1') });
    const under = await again(project);
    await alice.put(path, { repository_url: 'git@elsewhere.example.org:x/y.git' });
    await see(under, { 'refs/heads/main': sha('9') }); // of the repository that it was
    const elsewhere = await one();
    assert.deepEqual([elsewhere.digest, elsewhere.source.repositoryUrl], [null, 'git@elsewhere.example.org:x/y.git']);
    await see(elsewhere, { 'refs/heads/main': sha('2') });
    assert.equal((await polling(project)).outcome, 'first_poll');

    const last = await again(project);
    await alice.put(path, { poll_interval: '0' });
    await see(last, { 'refs/heads/main': sha('3') });
    const off = await polling(project);
    assert.deepEqual([off.outcome, off.next_poll_at, off.poll_interval], ['off', null, 0]);
    assert.deepEqual(await due(), []);
    await alice.put(path, { poll_interval: '3600' });
    await see(await one(), { 'refs/heads/main': sha('4') });
    assert.deepEqual([(await polling(project)).outcome, await requests(project)], ['first_poll', []]);

    assert.deepEqual(await due(), []);
    await change({ last_polled_at: BigInt(Date.now() - 120_000) }, project);
    await alice.put(path, { poll_interval: '15', name: `${String(project.name)} again` });
    await see(await one(), { 'refs/heads/main': sha('5') });
    assert.equal((await requests(project)).length, 1);
    const gone = await again(project);
    await remove(project);
    await see(gone, { 'refs/heads/main': sha('6') });
    assert.deepEqual(await due(), []);
  });

  test('are shared fairly: hosts and accounts have no more than their part of a runner [promise: polls]', async () => {
    const greedy = await service.user();
    const many = await Promise.all(
      Array.from({ length: 60 }, (_, at) => polled(greedy, { repository_url: `git@h${at}.example.org:a.git` })),
    );
    const modest = await polled(alice, { repository_url: 'git@h1.example.org:b.git' });
    const { db } = service.store;
    const take = (holder: string, room = 64): Promise<ClaimedPoll[]> =>
      db.transaction((trx) => claimPolls(db, trx, { holder, room, most: 64, claimMs: 60_000 }));
    const first = await take('one', 2);
    assert.ok(
      first.some(({ id }) => id === modest.id),
      'who has the fewest is not behind those who came first',
    );
    assert.equal((await take('one')).length, 47, 'nobody gets all of a runner');
    assert.deepEqual(await take('one'), []);
    assert.equal((await take('another')).length, 12);
    for (const { id } of many) await greedy.delete(`/projects/${id}`);
    await remove(modest);
    const atOne = await Promise.all(Array.from({ length: 20 }, () => polled()));
    assert.equal((await take('one')).length, 16, 'of one host');
    for (const each of atOne) await remove(each);
  });

  test('go to runners that work for the account, and to no other', async () => {
    const { db, ids } = service.store;
    const bob = await service.user();
    const { id: account } = await db.read
      .selectFrom('users')
      .select('id')
      .where('email', '=', bob.email)
      .executeTakeFirstOrThrow();
    await db.transaction((trx) => insertRunner(trx, ids, 'bound', [account]));
    const { id } = await db.read
      .selectFrom('runners')
      .select('id')
      .where('name', '=', 'bound')
      .executeTakeFirstOrThrow();
    const bound = new ScriptedRunner(runner.dispatch, { holder: 'bound', boundAs: id });
    const [his, hers] = [await polled(bob), await polled()];
    assert.deepEqual(
      (await due(bound)).map(({ source }) => source.projectId),
      [String(his.id)],
    );
    assert.deepEqual(
      (await due()).map(({ source }) => source.projectId),
      [String(hers.id)],
    );
    await bob.delete(`/projects/${his.id}`);
    await remove(hers);
  });

  test('tell why nothing is built for an account that may not', async () => {
    const carol = await service.user();
    const project = await polled(carol);
    await see(await one(), {});
    await service.stopPaying(carol);
    await see(await again(project), { 'refs/heads/main': sha('1') });
    const row = service.store.db.read.selectFrom('polls').selectAll().where('project_id', '=', project.id);
    const { outcome, reason } = await row.executeTakeFirstOrThrow();
    assert.equal(outcome, 'ignored');
    assert.match(reason, /not paid for/);
    await change({ next_poll_at: BigInt(Date.now() + 3_600_000) }, project);
    assert.deepEqual(await due(), [], 'so far ahead it waits for nothing');
    await makeStrandedPollsDue(service.store.db); // the clock was set back by an hour
    assert.equal((await due()).length, 1);
    await change({ next_poll_at: BigInt(Date.now() + 3_600_000), wait_ms: 3_600_000n }, project);
  });

  test('a first report holds nothing of a project that is deleted meanwhile', async (t) => {
    if (database.kind === 'sqlite') return t.skip('it has one writer');
    const project = await polled();
    const order = await one();
    const { db } = service.store;
    let reporting: Promise<void> | undefined;
    await db.transaction(async (trx) => {
      const held = (table: 'projects' | 'polls', column: string) =>
        sql`select 1 from ${sql.table(table)} where ${sql.ref(column)} = ${project.id} for update nowait`.execute(trx);
      await held('projects', 'id');
      reporting = see(order, { 'refs/heads/main': sha('1') });
      const waiting = sql<{ waiting: bigint }>`select count(*) as waiting from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock'`;
      while ((await waiting.execute(db.read)).rows[0]?.waiting === 0n) await pause(5);
      // Who deletes the project takes its poll next. If the report had it, each would wait for the other.
      await held('polls', 'project_id');
      await trx.deleteFrom('projects').where('id', '=', project.id).execute();
    });
    await reporting;
    const stored = db.read.selectFrom('polled_refs').select('project_id').where('project_id', '=', project.id);
    assert.deepEqual(await stored.execute(), []);
  });

  test('wait for who asks: a poll that becomes due is answered at once', async () => {
    const held = runner.dispatch.polls(runner.self, { room: 64 }, new AbortController().signal);
    const project = await polled();
    const began = performance.now();
    const [order] = await held;
    assert.equal(order?.source.projectId, String(project.id));
    assert.ok(performance.now() - began < 30_000);
    // What makes no sense changes nothing.
    await tell(order, { listing: 'nonsense' });
    await tell({ ...order, claim: 'x'.repeat(20) }, { unchanged: true });
    assert.equal((await polling(project)).last_polled_at, null);
  });
});
