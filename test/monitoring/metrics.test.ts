import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { createMetrics } from '../../src/server/http/metrics.ts';
import type { Transaction } from '../../src/server/db/open.ts';
import { advanceBuild } from '../../src/server/lifecycle/builds.ts';
import { beginCheck } from '../../src/server/triggers/connection-checks.ts';
import { describeServiceOnOne } from '../support/service.ts';
import { samplesIn } from '../support/samples.ts';
import { archiveOf } from '../support/software.ts';
import { Stage } from '../support/stage.ts';

describeServiceOnOne('the metrics of a service', (service) => {
  let stage: Stage;
  before(async () => {
    stage = await Stage.open(service);
  });
  after(() => stage.leave());
  const read = async (): Promise<Map<string, number>> => samplesIn((await service.api.get('/metrics')).text);
  /** What was added while something was done. */
  const grown = async (work: () => Promise<unknown>): Promise<(name: string) => number> => {
    const earlier = await read();
    await work();
    const later = await read();
    return (name) => (later.get(name) ?? Number.NaN) - (earlier.get(name) ?? Number.NaN);
  };
  const builds = (by: (name: string) => number): number[] =>
    ['passed', 'failed', 'errored', 'timed_out', 'cancelled'].map((state) =>
      by(`headrace_builds_total{state="${state}"}`),
    );

  test('count each build once, by its end, and the bytes of its log', async () => {
    const project = await stage.project({
      good: 'say hello, exit 0',
      bad: 'exit 3',
      late: 'timed_out',
      lost: 'break / exit 0',
    });
    const by = await grown(() => project.build());
    assert.deepEqual(builds(by), [2, 1, 1, 1, 0], 'one was lost, and its next attempt passed');
    assert.equal(by('headrace_build_seconds_count'), 5);
    assert.equal(by('headrace_build_wait_seconds_count'), 5);
    assert.ok(by('headrace_build_seconds_sum') < 60);
    assert.equal(by('headrace_log_bytes_total'), 'looking for main\nhello\n'.length);
  });

  test('count nothing of a transaction that is rolled back, and one that is run again once', async () => {
    const project = await stage.project({ long: 'hang' });
    const request = await project.ask();
    await project.until(request, (_, told) => told.includes('running'));
    const { db, ids, observers } = service.store;
    const { id } = await db.read.selectFrom('builds').select('id').orderBy('id', 'desc').executeTakeFirstOrThrow();
    const end = (trx: Transaction): Promise<boolean> => advanceBuild({ db, trx, ids, observers }, { id }, 'errored');
    const undone = await grown(async () => {
      const undoing = db.transaction(async (trx) => {
        assert.ok(await end(trx));
        throw new Error('never mind');
      });
      await assert.rejects(undoing, /never mind/);
    });
    assert.deepEqual(builds(undone), [0, 0, 0, 0, 0]);
    let tries = 0;
    const done = await grown(() =>
      db.transaction(async (trx) => {
        tries += 1;
        assert.ok(await end(trx));
        if (tries === 1) throw Object.assign(new Error('two collided'), { code: '40001' });
      }),
    );
    assert.deepEqual([tries, builds(done)], [2, [0, 0, 1, 0, 0]]);
    await project.cancel(request);
  });

  test('tell a build that never began from one that did', async () => {
    const first = await stage.project({ only: 'exit 0' });
    await first.build('known');
    const { ref } = await service.store.db.read
      .selectFrom('commits')
      .select('ref')
      .orderBy('id', 'desc')
      .executeTakeFirstOrThrow();
    await stage.leave();
    stage.lose(); // at once, so that it is given nothing more
    const by = await grown(async () => first.cancel(await first.ask(ref))); // its commit is known, so its build waits
    await stage.begin();
    assert.deepEqual(builds(by), [0, 0, 0, 0, 1]);
    assert.deepEqual([by('headrace_build_seconds_count'), by('headrace_build_wait_seconds_count')], [0, 1]);
  });

  test('say how long the database and the blobs took', async () => {
    const alice = await service.user();
    const by = await grown(async () => {
      const dependency = await alice.createDependency();
      await alice.upload(dependency, await archiveOf({ hello: 'hello\n' }));
    });
    assert.equal(by('headrace_blob_seconds_count{operation="put"}'), 1);
    assert.ok(by('headrace_database_seconds_count{operation="transaction"}') >= 2);
    assert.ok(by('headrace_database_seconds_count{operation="read"}') >= 1);
    assert.ok(by('headrace_database_seconds_sum{operation="transaction"}') > 0);
  });

  test('have labels of a few known values, whoever uses the service', async () => {
    const names = Array.from(await read(), ([sample]) =>
      [...sample.matchAll(/(\w+)="/g)].map(([, name = '']) => name),
    ).flat();
    const own = ['kind', 'le', 'operation', 'outcome', 'percentile', 'reason', 'state', 'status', 'task'];
    const ofNode = ['major', 'minor', 'patch', 'space', 'type', 'version'];
    assert.deepEqual([...new Set(names)].toSorted(), [...own, ...ofNode].toSorted());
  });

  test('know how long the oldest has waited, also beside one that somebody waits for', async () => {
    await stage.leave();
    stage.lose(); // at once, so that it is given nothing more
    const alice = await service.user();
    const project = await alice.createProject();
    const owners = service.store.db.read.selectFrom('projects').select('owner_id').where('id', '=', project.id);
    const { owner_id: accountId } = await owners.executeTakeFirstOrThrow();
    await service.store.db.transaction((trx) =>
      beginCheck({ ...service.store, trx }, { id: project.id, owner_id: accountId }),
    );
    await pause(1001); // it is looked at once a second
    const oldest = (await read()).get('headrace_queue_oldest_seconds') ?? Number.NaN;
    await stage.begin();
    assert.ok(oldest >= 0.9 && oldest < 600, `${oldest}`);
  });
});

describe('the delay of the event loop', () => {
  test('is what kept it from what was due', async () => {
    const metrics = createMetrics();
    const longest = async (): Promise<number> =>
      samplesIn(await metrics.text({ connections: 0 })).get('headrace_event_loop_delay_seconds{percentile="100"}') ??
      Number.NaN;
    await pause(120);
    const until = performance.now() + 1000;
    while (performance.now() < until); // nothing else can be done meanwhile
    await pause(120);
    const delay = await longest();
    metrics.close();
    assert.ok(delay > 0.85 && delay < 30, `${delay}`);
  });
});
