import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { request } from 'node:https';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { RE2JS } from 're2js';
import { addToFilter, createFilterTest, emptyFilter, packFilter } from '../../../src/server/streams/log-filter.ts';
import { visibleText } from '../../../src/server/streams/line-matcher.ts';
import { packLog } from '../../../src/server/streams/pack-log.ts';
import { requiredTexts } from '../../../src/server/streams/required-text.ts';
import { forgetOldLogs } from '../../../src/server/streams/retention.ts';
import { searchLogs } from '../../../src/server/streams/search-logs.ts';
import { storeFilter } from '../../../src/server/streams/store-filter.ts';
import { createTurns } from '../../../src/shared/lib/turns.ts';
import { expressionOf } from '../../../src/server/ui/browser/seen-before.ts';
import { assertNotFound, assertRefused, assertWrongFields } from '../../support/expect.ts';
import { array, assert as holds, constantFrom, property } from '../../support/properties.ts';
import { ScriptedRunner } from '../../support/runner.ts';
import { runningBuild, type RunningBuild } from '../../support/running-build.ts';
import { describeService } from '../../support/service.ts';
import { growingPauses } from '../../support/pauses.ts';
import type { User } from '../../support/user.ts';

async function until(isSo: () => boolean): Promise<void> {
  for (const pause = growingPauses(); !isSo();) await pause();
}

interface Found {
  total: number;
  first: string | null;
  last: string | null;
  complete: boolean;
  unsearched?: { last: string | null; builds: { build_id_str: string }[] };
  builds: { build_id_str: string; number: number; text: string }[];
}

describeService('the logs of a project', (service) => {
  let runner: ScriptedRunner;
  let alice: User;
  before(async () => {
    runner = await ScriptedRunner.start(service.store);
    alice = await service.user();
  });
  after(() => runner.dispatch.close());

  const search = async (path: string, query: string, user = alice): Promise<Found> =>
    (await user.get(`${path}/log_search?${query}`)).record as unknown as Found;
  /** A search ends after two seconds, which a busy machine may need for other things. */
  const wholeSearch = async (path: string, query: string): Promise<Found> => {
    for (;;) {
      const found = await search(path, query);
      if (found.complete) return found;
    }
  };
  const lines = ({ builds }: Found): [string, number][] => builds.map(({ build_id_str: id, number }) => [id, number]);
  const pack = async (id: bigint): Promise<void> => {
    const { db, blobs, searches } = service.store;
    await packLog(db, blobs, id);
    await storeFilter({ db, blobs, searches }, id);
  };
  /** Another build of the same project, with this log. */
  const again = async (
    { project }: RunningBuild,
    log: string,
  ): Promise<{ id: bigint; finish: () => Promise<void> }> => {
    await alice.requestBuild(project);
    await (await runner.take('fetch_commit')).fetched();
    const task = await runner.take('run_suite');
    await task.writeLog(log);
    const id = BigInt(task.order.work.environment.HEADRACE_BUILD_ID ?? '');
    return {
      id,
      finish: async () => {
        await task.exit(1);
      },
    };
  };

  test('are searched for a line, whether packed or still growing, the newest build first', async () => {
    const first = await runningBuild(alice, runner);
    await first.task.writeLog('fine\n\x1b[31mconn\x1b[0mection refused by 10.0.0.1\nconnection refused again\n');
    await first.task.exit(1);
    const second = await again(first, `all is well\n${'x'.repeat(2_000_000)} out of sight\nBye é\n`);
    await second.finish();
    const third = await again(first, 'a\nb\nc\nconnection refused\n');
    const path = `/projects/${first.project.id}`;
    const both = [
      [String(third.id), 4],
      [String(first.id), 2],
    ];
    for (const isPacked of [false, true]) {
      if (isPacked) for (const id of [first.id, second.id]) await pack(id);
      const found = await wholeSearch(path, 'expression=connection+refused');
      assert.deepEqual(lines(found), both);
      const { total, complete, last, builds } = found;
      const [newest] = builds;
      assert.deepEqual([total, complete, 'unsearched' in found], [2, true, false]);
      const { record: build } = await alice.get(`${path}/builds/${third.id}`);
      assert.equal(last, build.created_at);
      const { created_at, commit_id, commit_id_str, suite_name, build_state } = build;
      const { record: commit } = await alice.get(`${path}/commits/${String(commit_id_str)}`);
      assert.deepEqual(newest, {
        build_id: build.id,
        build_id_str: build.id_str,
        suite_name,
        variant: '',
        build_state,
        commit_id,
        commit_id_str,
        ref: commit.ref,
        number: 4,
        text: 'connection refused',
        created_at,
      });
      assert.deepEqual(lines(await wholeSearch(path, 'expression=connection+refused&limit=1')), both.slice(0, 1));
      assert.equal((await wholeSearch(path, 'expression=connection+refused&limit=1')).total, 2);
      assert.deepEqual(lines(await wholeSearch(path, 'expression=(%3Fi)CONNECTION.REFUSED')), both);
      assert.deepEqual(lines(await wholeSearch(path, 'expression=%5EBye+%C3%A9%24')), [[String(second.id), 3]]);
      if (isPacked) assert.equal((await wholeSearch(path, 'expression=out+of+sight')).total, 1, 'far in a long line');
      assert.deepEqual(lines(await wholeSearch(path, 'expression=%5E%5Bab%5D%24')), [[String(third.id), 1]]);
      const nothing = { total: 0, first: null, last: null, complete: true, builds: [] };
      assert.deepEqual(await wholeSearch(path, 'expression=nowhere'), nothing);
      assert.deepEqual(await wholeSearch(path, 'expression=fine&since=2100-01-01T00:00:00%2B02:00'), nothing);
      assert.equal((await wholeSearch(path, 'expression=fine&since=2020-01-01')).total, 1);
      const { suite_id_str: suite } = build;
      assert.equal((await wholeSearch(path, `expression=fine&suite_id=${String(suite)}`)).total, 1);
      assert.equal((await wholeSearch(path, `expression=fine&suite_id=1`)).total, 0);
    }
    await third.finish();
    assertWrongFields(await alice.get(`${path}/log_search`), { expression: 'is_blank' });
    assertWrongFields(await alice.get(`${path}/log_search?expression=%28a&since=soon&limit=1001`), {
      expression: 'invalid_format',
      since: 'invalid_format',
      limit: 'invalid_format',
    });
    const mallory = await service.user();
    assertNotFound(await mallory.get(`${path}/log_search?expression=fine`));
  });

  test('are not for the public', async () => {
    const { project, task } = await runningBuild(alice, runner);
    await task.writeLog('fine\n');
    await task.exit(0);
    await alice.put(`/projects/${project.id}`, { public: 'true' });
    const path = `/projects/${project.id}/log_search?expression=fine`;
    const mallory = await service.user();
    assert.equal((await mallory.get(`/projects/${project.id}/builds`)).status, 200);
    assert.equal((await mallory.get(path)).status, 401);
    assert.equal((await service.api.get(path)).status, 401);
  });

  test('are read only if their filter allows a match, and those that cannot be read are named', async () => {
    const build = await runningBuild(alice, runner);
    await build.task.writeLog('the needle is here\n');
    await build.task.exit(0);
    const other = await again(build, 'hay\n');
    await other.finish();
    for (const id of [build.id, other.id]) await pack(id);
    const { db } = service.store;
    const log = await db.read.selectFrom('logs').select('blob').where('id', '=', build.id).executeTakeFirstOrThrow();
    const blob = log.blob ?? assert.fail('it is packed');
    await rm(join(service.folder, 'blobs', blob.slice(0, 2), blob));
    const path = `/projects/${build.project.id}`;
    const hay = await search(path, 'expression=hay');
    assert.deepEqual([hay.complete, lines(hay)], [true, [[String(other.id), 1]]]);
    const needle = await search(path, 'expression=needle');
    assert.deepEqual([needle.complete, needle.total], [false, 0]);
    const { unsearched } = needle;
    assert.deepEqual([unsearched?.last, unsearched?.builds.map((one) => one.build_id_str)], [null, [String(build.id)]]);
    await forgetOldLogs(db, 1, Date.now() + 3 * 24 * 60 * 60 * 1000);
    const gone = await search(path, 'expression=deleted%7Cneedle');
    assert.deepEqual([gone.complete, gone.total], [true, 0], 'the notice is no line of the log');
  });

  test('are searched until the time is over or the caller leaves, and a log deleted meanwhile has nothing', async () => {
    const build = await runningBuild(alice, runner);
    await build.task.writeLog('one\n');
    const parts = { db: service.store.db.read, blobs: service.store.blobs, searches: service.store.searches };
    const wanted = { expression: 'one', account: 1n };
    const all = async (ids: bigint[], signal: AbortSignal) => {
      const batches = (async function* () {
        yield ids.map((id) => ({ id, filter: null }));
      })();
      const found = [];
      for await (const one of searchLogs(parts, batches, { ...wanted, signal })) found.push(one.found);
      return found;
    };
    const [missing, match] = await all([3n, build.id], new AbortController().signal);
    assert.equal(missing, 'none');
    assert.equal(typeof match === 'object' && match.text, 'one');
    assert.deepEqual(await all([build.id, build.id, build.id], AbortSignal.abort()), ['late']);
    await build.task.exit(0);
  });

  test('are searched by one account a few times at once, and others need not wait for it', async () => {
    const build = await runningBuild(alice, runner);
    await build.task.writeLog('aaaa bbbb\n'.repeat(200_000));
    await build.task.exit(0);
    const path = `/projects/${build.project.id}`;
    const evil = encodeURIComponent(`${'(a|b| )*'.repeat(20)}[^a-z ]`);
    const greedy = Array.from({ length: 30 }, () => alice.get(`${path}/log_search?expression=${evil}`));
    const bob = await service.user();
    const { project } = await (async () => {
      const other = await runningBuild(bob, runner);
      await other.task.writeLog('modest\n');
      await other.task.exit(0);
      return other;
    })();
    // On a slow machine, one search may end before its first turn.
    const found = async (): Promise<Found> => {
      const answer = await search(`/projects/${project.id}`, 'expression=modest', bob);
      return answer.complete ? answer : found();
    };
    assert.equal((await found()).total, 1);
    const answers = await Promise.all(greedy);
    const refused = answers.filter(({ status }) => status !== 200);
    assert.ok(refused.length > 0 && refused.length < 30, `${refused.length} were refused`);
    for (const answer of refused) assertRefused(answer, 403, { generic: ['resource_temporary_unavailable'] });
    assert.equal(service.store.searches.running.size, 0);
  });

  test('are no longer searched when the caller has left', async () => {
    const build = await runningBuild(alice, runner);
    await build.task.writeLog('aaaa bbbb\n'.repeat(200_000));
    const { running } = service.store.searches;
    const evil = encodeURIComponent(`${'(a|b| )*'.repeat(20)}[^a-z ]`);
    const { email, api_key: key } = alice.credentials;
    const sent = request(`${service.address}/projects/${build.project.id}/log_search?expression=${evil}`, {
      auth: `${email}:${key}`,
      rejectUnauthorized: false,
    });
    sent.on('error', () => {});
    sent.end();
    await until(() => running.size === 1);
    sent.destroy();
    await until(() => running.size === 0);
    await build.task.exit(0);
  });
});

describe('the filter of a log', () => {
  const pieces = constantFrom('a', 'B', 'cde', 'k', 'S', ' ', '\n', '\x1b[1m', 'é', '\u212a', '\u017f', '1', '.');
  const expressions = ['abc', 'cde', '(?i)CDE', '(?i)kcde', 'cd+e ?k', 'é1', '(?i)scde|k', 'a.cde', '[ab]', 'cde|é'];

  test('excludes no log with a line that matches', () => {
    const tried = expressions.map((expression) => {
      const mayMatch = createFilterTest(requiredTexts(expression));
      return { expression, mayMatch, re: RE2JS.compile(expression) };
    });
    holds(
      property(array(pieces, { maxLength: 40 }), (parts) => {
        const text = visibleText(Buffer.from(parts.join('')));
        const filter = emptyFilter();
        addToFilter(filter, text);
        const packed = packFilter(filter);
        for (const { expression, mayMatch, re } of tried) {
          const isThere = text
            .toString()
            .split('\n')
            .some((line) => re.test(line));
          assert.ok(!isThere || mayMatch(packed), `${expression} in ${JSON.stringify(text.toString())}`);
        }
      }),
      { numRuns: 300 },
    );
  });

  test('is small, and excludes nearly all texts that a log does not have', () => {
    const filter = emptyFilter();
    const words = Array.from({ length: 20_000 }, (_, at) => createHash('sha1').update(String(at)).digest('base64'));
    addToFilter(filter, Buffer.from(words.join('\n')));
    const packed = packFilter(filter);
    assert.ok(packed.length <= 128 * 1024);
    const few = emptyFilter();
    addToFilter(few, Buffer.from('compiled something, tested something\n'.repeat(1000)));
    const small = packFilter(few);
    assert.ok(small.length <= 256, `${small.length} bytes`);
    const others = Array.from({ length: 1000 }, (_, at) => createHash('md5').update(String(at)).digest('hex'));
    const passed = others.filter((text) => createFilterTest(requiredTexts(text))(small));
    assert.deepEqual(passed, []);
    assert.equal(createFilterTest(requiredTexts('tested some'))(small), true);
  });
});

test('turns go round, and one who leaves gives up his place', async () => {
  const turns = createTurns(1);
  const stays = new AbortController().signal;
  const served: string[] = [];
  const end = await turns.take(1n, stays);
  const leaver = new AbortController();
  const waiting = [
    ...['a1', 'a2'].map((name) => ({ name, account: 1n, signal: stays })),
    { name: 'gone', account: 3n, signal: leaver.signal },
    { name: 'b1', account: 2n, signal: stays },
  ].map(async ({ name, account, signal }) => {
    const done = await turns.take(account, signal);
    served.push(name);
    done();
  });
  leaver.abort();
  end();
  const results = await Promise.allSettled(waiting);
  assert.deepEqual(
    results.map(({ status }) => status),
    ['fulfilled', 'fulfilled', 'rejected', 'fulfilled'],
  );
  assert.deepEqual(served, ['a1', 'b1', 'a2']);
});

test('a line becomes an expression for others like it', () => {
  const line = '12:03:07 [error] worker-7 (pid 4711) lost 0f3a9bc2de: a+b? {x}';
  const expression = expressionOf(line);
  const re = RE2JS.compile(expression);
  assert.ok(re.test(line));
  assert.ok(re.test('prefix 1:2:3 [error] worker-12 (pid 9) lost 99aabbccdd11: a+b? {x}, and more'));
  assert.ok(!re.test('12:03:07 [error] worker-7 (pid 4711) found 0f3a9bc2de: a+b? {x}'));
  assert.deepEqual(['', '  12:30 ', '—'].map(expressionOf), ['', '', '']);
  assert.equal(expressionOf('tab\there'), String.raw`tab\there`);
  const awkward = expressionOf('*'.repeat(4000));
  assert.ok(awkward.length <= 1000 && RE2JS.compile(awkward).test('*'.repeat(4000)));
});
