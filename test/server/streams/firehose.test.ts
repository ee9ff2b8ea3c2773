import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { followedBuild } from '../../../src/server/resources/followed.ts';
import { packLog } from '../../../src/server/streams/pack-log.ts';
import { finalState, newEvents, type ReadPosition } from '../../../src/server/streams/tail.ts';
import { testsOnOne } from '../../support/databases.ts';
import type { Answer } from '../../support/client.ts';
import { assertRefused } from '../../support/expect.ts';
import { Listener, logOf, statesOf } from '../../support/firehose.ts';
import { describeWithRunner } from '../../support/runner.ts';
import { runningBuild } from '../../support/running-build.ts';
import type { User } from '../../support/user.ts';

describeWithRunner('the firehose', (service, runner, database) => {
  const testOnOne = testsOnOne(database);
  let alice: User;
  before(async () => {
    alice = await service.user();
  });

  test('of a build replays, follows and ends', async () => {
    const { task, path } = await runningBuild(alice, runner);
    await task.writeLog('before\n');
    const listener = await Listener.open(alice, `${path}/firehose?callback=f`);
    const { headers } = listener.answer;
    assert.deepEqual(
      [headers['content-type'], headers['x-accel-buffering'], headers['cache-control']],
      ['text/event-stream; charset=utf-8', 'no', 'no-store'],
    );
    assert.deepEqual(await listener.next(), { event: 'state', data: { state: 'running' } });
    assert.deepEqual(await listener.next(), { event: 'log', id: '7', data: { offset: 0, text: 'before\n' } });
    await task.writeLog('after\n');
    assert.deepEqual(await listener.next(), { event: 'log', id: '13', data: { offset: 7, text: 'after\n' } });
    await task.exit(1);
    const [failed, end, ...more] = await listener.rest();
    assert.deepEqual(failed, { event: 'state', data: { state: 'failed' } });
    assert.deepEqual([end?.event, end?.data, more], ['end', {}, []]);
  });

  test('of what is over has nothing more for who was told its end, and the rest for who was not', async () => {
    const { task, path, request, project } = await runningBuild(alice, runner);
    const silent = await runningBuild(alice, runner);
    await task.writeLog('word\n');
    const whole = `/projects/${project.id}/build_requests/${request.id}`;
    const [build, all] = [
      await Listener.open(alice, `${path}/firehose`),
      await Listener.open(alice, `${whole}/firehose`),
    ];
    await task.exit(0);
    await silent.task.exit(0);
    const again = (url: string, last: string | undefined): Promise<Answer> =>
      service.api.get(`${url}/firehose`, {
        as: alice.credentials,
        headers: { 'last-event-id': last ?? '', accept: 'application/x-ndjson' },
      });
    const quiet = await Listener.open(alice, `${silent.path}/firehose`);
    for (const [url, listener] of [
      [path, build],
      [whole, all],
      [silent.path, quiet],
    ] as const) {
      const end = (await listener.rest()).at(-1);
      assert.equal(end?.event, 'end');
      const nothing = await again(url, end?.id);
      assert.deepEqual([nothing.status, nothing.text, nothing.headers['content-type']], [204, '', undefined]);
    }
    // The connection was lost between the last of the log and what came of it.
    const rest = await again(path, '5');
    assert.deepEqual(rest.text.trimEnd().split('\n'), ['{"event":"state","state":"passed"}', '{"event":"end"}']);
    assert.equal((await again(path, '5;0')).status, 200, 'an end that was another');
    for (const wrong of [';', '5;', '5;x', '5;1;2', ';7']) {
      assertRefused(await again(path, wrong), 403, { last_event_id: ['invalid_format'] });
    }
    const { id: last } = (await (await Listener.open(alice, `${whole}/firehose`)).rest()).at(-1) ?? {};
    await alice.post(`${whole}/rerun`);
    const more = await Listener.open(alice, `${whole}/firehose`, { 'last-event-id': last ?? '' });
    const next = await runner.take('run_suite');
    await next.writeLog('again\n');
    await next.exit(0);
    const told = await more.rest();
    assert.deepEqual([logOf(told), statesOf(told).at(-1)], ['again\n', 'passed']);
  });

  testOnOne('never cuts a character, wherever chunks are cut', async () => {
    const { task, path } = await runningBuild(alice, runner);
    const listener = await Listener.open(alice, `${path}/firehose`);
    const said = Buffer.from('ä€😀 '.repeat(5));
    for (const byte of said) await task.writeLog(Uint8Array.of(byte));
    await task.writeLog(Uint8Array.of(0xf0, 0x9f));
    await task.exit(0);
    const told = await listener.rest();
    assert.equal(logOf(told), `${said.toString()}\ufffd`);
    assert.equal(told.findLast(({ event }) => event === 'log')?.id, String(said.length + 2));
  });

  test('has an end also for whoever broke off in the middle of the last words and takes them up again', async () => {
    const { task, id } = await runningBuild(alice, runner);
    const { db, blobs } = service.store;
    const [parts, subject] = [{ db: db.read, blobs }, followedBuild(db.read, id, id)];
    const place: ReadPosition = { at: 0n };
    for await (const _ of newEvents(parts, subject, place));
    assert.equal(place.over, undefined);
    const said = 'a word\n'.repeat(30_000);
    await task.writeLog(said);
    await task.exit(0);
    let heard = '';
    for await (const event of newEvents(parts, subject, place)) {
      if (event.type !== 'log') continue;
      heard += event.text;
      break; // the database went away, or the reader was too slow
    }
    assert.ok(heard.length < said.length);
    for await (const event of newEvents(parts, subject, place)) heard += event.type === 'log' ? event.text : '';
    assert.ok(heard === said, 'the rest is told');
    assert.deepEqual([...finalState(place)], [{ type: 'state', state: 'passed' }]);
  });

  test('goes on where a reader left off, without loss and without doubles', async () => {
    const { task, path } = await runningBuild(alice, runner);
    let [heard, last] = ['', '0'];
    let spoken = '';
    for (let round = 0; round < 8; round += 1) {
      const listener = await Listener.open(alice, `${path}/firehose?offset=0`, { 'last-event-id': last });
      for (const word of [`${round} über\n`, `${round} noch\n`]) {
        await task.writeLog(word);
        spoken += word;
      }
      const told = await listener.until(({ event }) => event === 'log');
      heard += logOf(told);
      last = told.at(-1)?.id ?? last;
      listener.leave();
    }
    await task.exit(0);
    const rest = await (await Listener.open(alice, `${path}/firehose?offset=${last}`)).rest();
    assert.equal(heard + logOf(rest), spoken);
    const wrong = { headers: { 'last-event-id': 'x' }, as: alice.credentials };
    assertRefused(await service.api.get(`${path}/firehose`, wrong), 403, { last_event_id: ['invalid_format'] });
    assertRefused(await alice.get(`${path}/firehose?offset=-1`), 403, { offset: ['invalid_format'] });
  });

  test('serves late and slow readers whole, from rows and packed', async () => {
    const { task, path, id } = await runningBuild(alice, runner);
    const slow = await Listener.open(alice, `${path}/firehose`);
    const whole = Buffer.from('0123456789abcdef€\n'.repeat(300_000));
    for (let at = 0; at < whole.length; at += 1_000_003) await task.writeLog(whole.subarray(at, at + 1_000_003));
    await task.exit(0);
    const { db, blobs } = service.store;
    // The slow one has read nothing yet: what the buffers do not hold, it gets from where the log lies by then.
    await packLog(db, blobs, id);
    const late = await Listener.open(alice, `${path}/firehose`);
    for (const told of [await slow.rest(), await late.rest()]) {
      assert.ok(logOf(told) === whole.toString(), 'every byte, in order');
      assert.deepEqual([statesOf(told).at(-1), told.at(-1)?.event], ['passed', 'end']);
    }
  });

  test('tells a crowd the same, whoever comes late, dawdles or leaves', async () => {
    const { task, path } = await runningBuild(alice, runner);
    const open = () => Listener.open(alice, `${path}/firehose`);
    const first = await Promise.all(Array.from({ length: 12 }, open));
    let spoken = '';
    const say = async (words: string): Promise<void> => {
      spoken += words;
      await task.writeLog(words);
      await runner.dispatch.extend(runner.self, { claims: [task.order.claim] }, AbortSignal.abort()); // however long this takes
    };
    for (let line = 0; line < 20; line += 1) await say(`${line} früh\n`);
    const [leaver, ...others] = first;
    leaver?.leave();
    const late = await Promise.all(Array.from({ length: 5 }, open));
    // More than the connection of somebody who does not read can hold.
    for (let turn = 0; turn < 4; turn += 1) await say(`${turn} und noch viel mehr\n`.repeat(40_000));
    for (let line = 0; line < 20; line += 1) await say(`${line} spät\n`);
    await task.exit(0);
    for (const listener of [...others, ...late]) {
      const told = await listener.rest();
      assert.ok(logOf(told) === spoken, 'every byte, in order');
      assert.deepEqual([statesOf(told), told.at(-1)?.event], [['running', 'passed'], 'end']);
    }
  });

  testOnOne('comes as lines of JSON to those who ask for them', async () => {
    const { task, path } = await runningBuild(alice, runner);
    await task.writeLog('word\n');
    await task.exit(0);
    const headers = { accept: 'application/x-ndjson' };
    const answer = await service.api.get(`${path}/firehose`, { as: alice.credentials, headers });
    assert.equal(answer.headers['content-type'], 'application/x-ndjson; charset=utf-8');
    const lines = answer.text.trimEnd().split('\n');
    assert.deepEqual(
      lines.map((line) => JSON.parse(line) as unknown),
      [{ event: 'state', state: 'passed' }, { event: 'log', id: '5', offset: 0, text: 'word\n' }, { event: 'end' }],
    );
  });

  test('of a request tells its fetch and all its builds, and can be resumed', async () => {
    const project = await alice.createProject();
    await alice.createSuite(project);
    await alice.createSuite(project);
    const request = await alice.requestBuild(project);
    const path = `/projects/${project.id}/build_requests/${request.id}/firehose`;
    const listener = await Listener.open(alice, path);
    assert.deepEqual(await listener.next(), { event: 'state', data: { state: 'enqueued' } });
    const fetch = await runner.take('fetch_commit');
    await fetch.writeLog('fetching\n');
    await fetch.fetched();
    const tasks = [await runner.take('run_suite'), await runner.take('run_suite')] as const;
    const ids = tasks.map(({ order }) => order.work.environment.HEADRACE_BUILD_ID ?? '');
    await tasks[0].writeLog('one\n');
    const first = await listener.until(({ data }) => data.text === 'one\n');
    assert.equal(first.at(-1)?.data.build_id_str, ids[0]);
    assert.equal(first.at(-1)?.id, `9,${ids[0]}:4`);
    await tasks[1].writeLog('two\n');
    await tasks[0].exit(0);
    await tasks[1].exit(1);
    const told = [...first, ...(await listener.rest())];
    const of = (id: string | undefined) => told.filter(({ data }) => data.build_id_str === id);
    assert.deepEqual([logOf(of(undefined)), logOf(of(ids[0])), logOf(of(ids[1]))], ['fetching\n', 'one\n', 'two\n']);
    assert.deepEqual([statesOf(of(ids[0])).at(-1), statesOf(of(ids[1])).at(-1)], ['passed', 'failed']);
    assert.deepEqual(
      told.slice(-2).map(({ event, data }) => [event, data]),
      [
        ['state', { state: 'failed' }],
        ['end', {}],
      ],
    );
    const resumed = await (await Listener.open(alice, path, { 'last-event-id': first.at(-1)?.id ?? '' })).rest();
    assert.equal(logOf(resumed), 'two\n', 'only what was not told before');
  });

  test('of a request picks up the attempt that follows a lost one', async () => {
    const { project, request, id } = await runningBuild(alice, runner.beside('doomed'));
    const path = `/projects/${project.id}/build_requests/${request.id}/firehose`;
    const listener = await Listener.open(alice, path);
    await listener.until(({ data }) => data.build_id_str === String(id) && data.state === 'running');
    await runner.dispatch.holderGone('doomed');
    const next = await runner.take('run_suite');
    await next.writeLog('again\n');
    await next.exit(0);
    const told = await listener.rest();
    const again = told.find(({ event }) => event === 'log');
    assert.equal(again?.data.build_id_str, next.order.work.environment.HEADRACE_BUILD_ID);
    assert.ok(told.some(({ data }) => data.build_id_str === String(id) && data.state === 'errored'));
    assert.equal(statesOf(told).at(-1), 'passed');
  });

  test('of a project tells everything from now on, or from an event on, until it is deleted', async () => {
    const { project, request, task, id } = await runningBuild(alice, runner);
    const path = `/projects/${project.id}/firehose`;
    const listener = await Listener.open(alice, path);
    await task.exit(0);
    const state = (type: string, of: bigint) => ({ type, id_str: String(of), state: 'passed' });
    const commit = (await alice.get(`/projects/${project.id}/commits`)).list[0]?.id ?? 0n;
    const told = [await listener.next(), await listener.next(), await listener.next()];
    assert.deepEqual(
      told.map(({ data }) => data),
      [state('build', id), state('commit', commit), state('build_request', request.id)],
    );
    const again = await Listener.open(alice, path, { 'last-event-id': told[0]?.id ?? '' });
    assert.deepEqual([await again.next(), await again.next()], told.slice(1));
    const all = await Listener.open(alice, `${path}?offset=0`);
    const sequence = (await all.until((one) => one.id === told[2]?.id)).map((one) => Number(one.id));
    assert.deepEqual(
      sequence,
      Array.from(sequence, (_, at) => at + 1),
    );
    await alice.delete(`/projects/${project.id}`);
    for (const one of [listener, again, all]) assert.deepEqual(await one.rest(), [{ event: 'end', data: {} }]);
  });
});
