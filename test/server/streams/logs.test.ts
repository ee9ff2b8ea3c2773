import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { packLog } from '../../../src/server/streams/pack-log.ts';
import type { Answer } from '../../support/client.ts';
import { assertRefused, assertWrongFields } from '../../support/expect.ts';
import { describeWithRunner } from '../../support/runner.ts';
import { runningBuild, type RunningBuild } from '../../support/running-build.ts';
import type { User } from '../../support/user.ts';

describeWithRunner('the log of a build', (service, runner) => {
  let alice: User;
  before(async () => {
    alice = await service.user();
  });

  const range = (build: RunningBuild, bytes: string, more: Record<string, string> = {}): Promise<Answer> =>
    service.api.get(`${build.path}/log.txt`, { as: alice.credentials, headers: { range: `bytes=${bytes}`, ...more } });

  test('holds each byte once, whatever is sent twice, and refuses a gap', async () => {
    const { task, path } = await runningBuild(alice, runner);
    assert.deepEqual((await alice.get(`${path}/log`)).response, {
      offset: 0,
      next_offset: 0,
      size: 0,
      complete: false,
      text: '',
    });
    await task.writeLog('one\n');
    assert.deepEqual(await task.send(9, Buffer.from('late')), { expected: 4 });
    assert.deepEqual(await task.send(0, Buffer.from('one\n')), { taken: true });
    assert.deepEqual(await task.send(2, Buffer.from('e\ntwo\n')), { taken: true });
    assert.equal((await alice.get(`${path}/log.txt`)).text, 'one\ntwo\n');
    assert.deepEqual(await task.finish({ kind: 'exited', status: 0 }), { expected: 8 }, 'bytes it does not know of');
    const part = await alice.get(`${path}/log?offset=4&limit=3`);
    assert.deepEqual(part.response, { offset: 4, next_offset: 7, size: 8, complete: false, text: 'two' });
    const beyond = await alice.get(`${path}/log?offset=100`);
    assert.deepEqual(beyond.response, { offset: 100, next_offset: 100, size: 8, complete: false, text: '' });
  });

  test('is cut where characters end, until nothing more is to come', async () => {
    const { task, path } = await runningBuild(alice, runner);
    const euro = Buffer.from('a€');
    await task.writeLog(euro.subarray(0, 3));
    const text = async (query: string) => (await alice.get(`${path}/log?${query}`)).record;
    assert.deepEqual([(await text('')).text, (await text('')).next_offset], ['a', 1]);
    await task.writeLog(euro.subarray(3));
    assert.deepEqual([(await text('offset=1')).text, (await text('offset=1')).next_offset], ['€', 4]);
    assert.deepEqual([(await text('limit=3')).text, (await text('limit=3')).next_offset], ['a', 1]);
    assert.deepEqual([(await text('offset=1&limit=1')).text, (await text('offset=1&limit=1')).next_offset], ['€', 4]);
    await task.writeLog(Buffer.from([0xe2, 0x82]));
    assert.equal((await text('offset=1')).next_offset, 4);
    await task.exit(0);
    const end = await text('offset=4');
    assert.deepEqual([end.text, end.next_offset, end.complete], ['\ufffd', 6, true]);
  });

  test('refuses offsets and limits that are none', async () => {
    const { task, path } = await runningBuild(alice, runner);
    const wrong = { offset: 'invalid_format', limit: 'invalid_format' };
    assertWrongFields(await alice.get(`${path}/log?offset=-1&limit=0`), wrong);
    assertWrongFields(await alice.get(`${path}/log?offset=x&limit=4194305`), wrong);
    await task.exit(0);
  });

  test('reads the same from rows and packed, whole and in ranges, byte for byte', async () => {
    const build = await runningBuild(alice, runner);
    const everyByte = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
    const whole = Buffer.concat([everyByte, Buffer.from('\u001B[31mred\u001B[0m\r\n'), Buffer.alloc(700_000, 'äb')]);
    for (let at = 0; at < whole.length; at += 99_991) await build.task.writeLog(whole.subarray(at, at + 99_991));

    const check = async (state: string, size: string): Promise<void> => {
      const all = await alice.get(`${build.path}/log.txt`);
      assert.ok(all.bytes.equals(whole), state);
      assert.deepEqual(
        [all.status, all.headers['content-type'], all.headers['accept-ranges']],
        [200, 'text/plain; charset=utf-8', 'bytes'],
      );
      const ends: [string, number, number][] = [
        ['0-0', 0, 1],
        ['250-300100', 250, 300_101],
        ['699999-', 699_999, whole.length],
        ['-10', whole.length - 10, whole.length],
        ['10-99999999999', 10, whole.length],
        ['-99999999999', 0, whole.length],
      ];
      for (const [asked, from, to] of ends) {
        const part = await range(build, asked);
        assert.equal(part.status, 206, asked);
        assert.equal(part.headers['content-range'], `bytes ${from}-${to - 1}/${size}`);
        assert.ok(part.bytes.equals(whole.subarray(from, to)), `${asked} ${state}`);
      }
      for (const asked of [`${whole.length}-`, '-0']) {
        const none = await range(build, asked);
        assertRefused(none, 416, { range: ['invalid_format'] });
        assert.equal(none.headers['content-range'], `bytes */${whole.length}`);
      }
      for (const asked of ['5-2', 'x-y', '-', '0-1,5-6']) assert.equal((await range(build, asked)).status, 200, asked);
      assert.equal((await range(build, '0-1', { 'if-range': '"other"' })).status, 200);
      const text = await alice.get(`${build.path}/log?offset=256&limit=12`);
      assert.equal(text.record.text, '\u001B[31mred\u001B[0m');
    };

    await check('while it grows', '*');
    await build.task.exit(0);
    await check('when it is complete', String(whole.length));
    const { db, blobs } = service.store;
    await packLog(db, blobs, build.id);
    const rows = db.read.selectFrom('log_chunks').select('start').where('log_id', '=', build.id);
    assert.deepEqual(await rows.execute(), [], 'it lies in a blob now');
    await check('when it is packed', String(whole.length));
    assert.equal((await alice.get(`${build.path}/log.txt`)).headers['content-length'], String(whole.length));
  });
});
