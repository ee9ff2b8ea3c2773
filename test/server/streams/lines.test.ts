import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { lineIndex } from '../../../src/server/streams/line-index.ts';
import { outlineOf, storeOutline } from '../../../src/server/streams/outline.ts';
import { packLog } from '../../../src/server/streams/pack-log.ts';
import { forgetOldLogs } from '../../../src/server/streams/retention.ts';
import { longestWait } from '../../support/pauses.ts';
import { assertNotFound, assertWrongFields } from '../../support/expect.ts';
import { ScriptedRunner } from '../../support/runner.ts';
import { runningBuild } from '../../support/running-build.ts';
import { describeService } from '../../support/service.ts';
import type { User } from '../../support/user.ts';

interface Line {
  number: number;
  offset: number;
  at: number | null;
  text: string;
}
interface Lines {
  from: number;
  total: number;
  complete: boolean;
  lines: Line[];
}
interface Matches {
  matches: { number: number; offset: number; text: string }[];
  complete: boolean;
  next: number | null;
}

describeService('the lines of a log', (service) => {
  let runner: ScriptedRunner;
  let alice: User;
  before(async () => {
    runner = await ScriptedRunner.start(service.store);
    alice = await service.user();
  });
  after(() => runner.dispatch.close());

  const linesOf = async (path: string, query = ''): Promise<Lines> =>
    (await alice.get(`${path}/log/lines?${query}`)).record as unknown as Lines;
  const search = async (path: string, query: string): Promise<Matches> =>
    (await alice.get(`${path}/log/search?${query}`)).record as unknown as Matches;
  const texts = ({ lines }: Lines): string[] => lines.map(({ text }) => text);
  /** However many requests it takes: how far one gets depends on the machine. */
  const untilFound = async (path: string, query: string): Promise<Matches> => {
    const answer = await search(path, query);
    const { matches, next } = answer;
    if (next === null || matches.length > 0) return answer;
    return untilFound(path, `${query.replace(/&from=.*/, '')}&from=${next}`);
  };

  test('are numbered from 1, from the end with negative numbers, and the last needs no line break', async () => {
    const { task, path } = await runningBuild(alice, runner);
    assert.deepEqual(await linesOf(path), { from: 1, total: 0, complete: false, lines: [] });
    await task.writeLog('one\n\ntwo \x1b[31mred\r\nthr');
    const { lines, ...head } = await linesOf(path);
    assert.deepEqual(head, { from: 1, total: 4, complete: false });
    assert.deepEqual(
      lines.map(({ number, offset, text }) => [number, offset, text]),
      [
        [1, 0, 'one'],
        [2, 4, ''],
        [3, 5, 'two \x1b[31mred\r'],
        [4, 19, 'thr'],
      ],
    );
    await task.writeLog('ee\n');
    assert.deepEqual(texts(await linesOf(path, 'from=4')), ['three']);
    assert.deepEqual(texts(await linesOf(path, 'from=-1')), ['three']);
    assert.deepEqual((await linesOf(path, 'from=-2&limit=1')).from, 3);
    assert.deepEqual((await linesOf(path, 'from=-99&limit=1')).from, 1);
    assert.deepEqual(await linesOf(path, 'from=5'), { from: 5, total: 4, complete: false, lines: [] });
    await task.exit(0);
    assert.equal((await linesOf(path)).complete, true);
    assertWrongFields(await alice.get(`${path}/log/lines?from=0&limit=5001`), {
      from: 'invalid_format',
      limit: 'invalid_format',
    });
    assertWrongFields(await alice.get(`${path}/log/lines?from=1.5&limit=0`), {
      from: 'invalid_format',
      limit: 'invalid_format',
    });
  });

  test('know when their first byte came, also when the log is packed', async () => {
    const { task, path, id } = await runningBuild(alice, runner);
    const startedAt = Date.now();
    await task.writeLog('one\ntw');
    const firstTaken = Date.now(); // however long it took to take them
    while (Date.now() - firstTaken < 40) await new Promise((resolve) => setTimeout(resolve, 5));
    const secondSent = Date.now();
    await task.writeLog('o\nthree\n');
    const times = async (): Promise<(number | null)[]> => (await linesOf(path)).lines.map(({ at }) => at);
    const [one, two, three] = await times();
    assert.deepEqual([one, two], [0, 0], 'the second line began with the first bytes');
    assert.ok(three !== null && three !== undefined && three > 0 && three <= Date.now() - startedAt, String(three));
    assert.ok(three >= secondSent - firstTaken, `${three} ms, and not ${secondSent - firstTaken}`);
    await task.exit(0);
    await packLog(service.store.db, service.store.blobs, id);
    assert.deepEqual(await times(), [0, 0, three]);
  });

  test('are the same however the log came, packed or not', async () => {
    const { task, path, id } = await runningBuild(alice, runner);
    const words = Array.from({ length: 30_000 }, (_, n) => `line ${n + 1} ${'x'.repeat(n % 37)}`);
    const bytes = Buffer.from(`${words.join('\n')}\n`);
    for (let at = 0; at < bytes.length; at += 99_991) await task.writeLog(bytes.subarray(at, at + 99_991));
    const probes = ['from=1&limit=2', 'from=14999&limit=3', 'from=29999', 'from=-3', 'from=2500&limit=5000'];
    const all = (): Promise<Lines[]> => Promise.all(probes.map((probe) => linesOf(path, probe)));
    const asCame = await all();
    for (const { lines, total } of asCame) {
      assert.equal(total, 30_000);
      for (const { number, offset, text } of lines) {
        assert.equal(text, words[number - 1]);
        assert.equal(bytes.toString('utf8', offset, offset + text.length + 1), `${text}\n`);
      }
    }
    assert.deepEqual(
      asCame.map(({ lines }) => lines.length),
      [2, 3, 2, 3, 5000],
    );
    await task.exit(0);
    const { db, blobs } = service.store;
    await packLog(db, blobs, id);
    const marks = () => db.read.selectFrom('log_marks').select('start').where('log_id', '=', id).execute();
    assert.deepEqual(await marks(), [], 'a packed log has its marks in one row');
    const whole = (some: Lines[]) => some.map((one) => ({ ...one, complete: true }));
    assert.deepEqual(await all(), whole(asCame));
  });

  test('have an outline of groups and failures, which is stored when the log is packed', async () => {
    const { task, path, id } = await runningBuild(alice, runner);
    await task.writeLog('::group::a\nx\n::endgroup::\n--- src/a.c\n+++ src/a.c\n-old\n::group::b\ny\n');
    await task.writeLog('--- c\n\x1b[31mTypeError: no\x1b[0m\n::endgroup::\n0 errors\n::group::open\nerror: at last\n');
    await task.exit(1);
    const { db, blobs, searches } = service.store;
    const read = async () => {
      const parts = { db: db.read, blobs, searches };
      const index = (await lineIndex(parts, id)) ?? assert.fail(path);
      return outlineOf(parts, index, { account: 1n, milliseconds: longestWait });
    };
    const outline = { groups: [1, 3, 7, 8, 9, 11], failures: [10, 14], failuresTo: 14 };
    assert.deepEqual(await read(), outline);
    await packLog(db, blobs, id);
    await storeOutline({ db, blobs, searches }, id);
    const row = await db.read.selectFrom('log_indexes').select('outline').where('log_id', '=', id).executeTakeFirst();
    assert.deepEqual(JSON.parse(row?.outline ?? ''), outline);
    assert.deepEqual(await read(), outline);
  });

  test('of a log that was removed say so', async () => {
    const { task, path, id } = await runningBuild(alice, runner);
    await task.writeLog('a\nb\nc\n'.repeat(50_000));
    await task.exit(0);
    const { db, blobs } = service.store;
    await packLog(db, blobs, id);
    const later = Date.now() + 3 * 24 * 60 * 60 * 1000;
    await forgetOldLogs(db, 1, later);
    const { total, lines } = await linesOf(path);
    assert.equal(total, 1);
    assert.match(lines[0]?.text ?? '', /^This log was deleted/);
    assert.deepEqual((await search(path, 'q=deleted')).matches.length, 1);
  });

  test('are found by what they say, in the order of the log, and further from where a search ended', async () => {
    const { task, path, id } = await runningBuild(alice, runner);
    const noise = 'nothing to be seen here\n'.repeat(60_000);
    await task.writeLog(`${noise}first \x1b[31mfai\x1b[0mlure: 12\n${noise}`);
    await task.writeLog(`second failure: x\n${noise}third FAILURE: 99 é`);
    /** However many requests it takes: how far one gets depends on the machine. */
    const numbers = async (query: string): Promise<number[]> => {
      const { matches, next } = await search(path, query);
      const found = matches.map(({ number }) => number);
      const rest = query.replace(/&from=.*/, '');
      return next === null ? found : [...found, ...(await numbers(`${rest}&from=${next}`))];
    };
    const offset = Buffer.byteLength(noise);
    const expected = {
      matches: [{ number: 60_001, offset, text: 'first \x1b[31mfai\x1b[0mlure: 12' }],
      complete: false,
      next: 60_002,
    };
    for (const isPacked of [false, true]) {
      if (isPacked) {
        await task.exit(0);
        await packLog(service.store.db, service.store.blobs, id);
      }
      assert.deepEqual(await untilFound(path, 'q=failure&limit=1'), expected);
      assert.deepEqual(await numbers('q=failure&from=60002'), [120_002]);
      assert.deepEqual(await numbers('q=(%3Fi)failure'), [60_001, 120_002, 180_003]);
      assert.deepEqual(await numbers('q=failure:%20%5Cd%2B'), [60_001]);
      assert.deepEqual(await numbers('q=%5Esecond%7C%C3%A9%24'), [120_002, 180_003]);
      assert.deepEqual(await numbers('q=failure&from=-1'), []);
      assert.deepEqual(await untilFound(path, 'q=nowhere+at+all'), { matches: [], complete: true, next: null });
    }
    assertWrongFields(await alice.get(`${path}/log/search?q=%28a`), { q: 'invalid_format' });
    assertWrongFields(await alice.get(`${path}/log/search?q=%28%3F%3Da%29`), { q: 'invalid_format' });
    assertWrongFields(await alice.get(`${path}/log/search?q=%28%28a%7B99%7D%29%7B99%7D%29%7B99%7D&from=0`), {
      q: 'invalid_format',
      from: 'invalid_format',
    });
    assertWrongFields(await alice.get(`${path}/log/search`), { q: 'is_blank' });
  });

  test('of another account are not found', async () => {
    const { task, path } = await runningBuild(alice, runner);
    await task.writeLog('secret\n');
    const mallory = await service.user();
    assertNotFound(await mallory.get(`${path}/log/lines`));
    assertNotFound(await mallory.get(`${path}/log/search?q=secret`));
  });

  test('are read in bounded pieces, whatever a log holds', async () => {
    const { task, path, id } = await runningBuild(alice, runner);
    const long = Buffer.alloc(3 * 1024 * 1024, 'z');
    await task.writeLog(long);
    await task.writeLog(Buffer.from([0x0a, 0, 0xff, 0xc3, 0x0a]));
    await task.writeLog(Buffer.alloc(100_000, '\n'));
    await task.writeLog('\x1b[38;5;'.repeat(10_000));
    await task.writeLog('\nfound me\n');
    for (const isPacked of [false, true]) {
      if (isPacked) {
        await task.exit(0);
        await packLog(service.store.db, service.store.blobs, id);
      }
      const [first, second] = (await linesOf(path, 'limit=2')).lines;
      assert.equal(first?.text.length, 1024 * 1024, 'a very long line is cut');
      assert.deepEqual([second?.number, second?.offset, second?.text], [2, long.length + 1, '\0\ufffd\ufffd']);
      assert.equal((await linesOf(path)).total, 100_004);
      assert.deepEqual(texts(await linesOf(path, 'from=-1')), ['found me']);
      const { matches } = await untilFound(path, 'q=found');
      assert.deepEqual(
        matches.map(({ number }) => number),
        [100_004],
      );
    }
  });
});
