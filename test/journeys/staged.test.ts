import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Link, Order } from '../../src/shared/protocol/index.ts';
import { describeServiceOnOne } from '../support/service.ts';
import { Stage } from '../support/stage.ts';

/** Journeys on a stage (test/support/stage.ts says how they are told): the real server, line and runner. */
describeServiceOnOne('on a stage', (service) => {
  let stage: Stage;
  before(async () => {
    stage = await Stage.open(service);
  });
  after(() => stage.leave());

  /** The suites, the ref, and what becomes of the request. */
  const endings: [suites: Record<string, string>, ref: string, told: string][] = [
    [{ unit: 'exit 0' }, 'main', 'passed | unit 1 passed'],
    [{ unit: 'exit 3' }, 'main', 'failed | unit 1 failed 3'],
    [{ lint: 'exit 0', unit: 'exit 1' }, 'main', 'failed | lint 1 passed | unit 1 failed 1'],
    [{ unit: 'say a, timed_out' }, 'main', 'failed | unit 1 timed_out timed_out'],
    [{ unit: 'out_of_memory' }, 'main', 'failed | unit 1 failed out_of_memory'],
    [{ unit: 'out_of_disk' }, 'main', 'failed | unit 1 failed disk_full'],
    [{ unit: 'break / exit 0' }, 'main', 'passed | unit 1 errored runner_lost | unit 2 passed'],
    [
      { unit: 'break' },
      'main',
      'errored | unit 1 errored runner_lost | unit 2 errored runner_lost | unit 3 errored runner_lost',
    ],
    [
      { lint: 'exit 1', unit: 'break / exit 0' },
      'main',
      'failed | lint 1 failed 1 | unit 1 errored runner_lost | unit 2 passed',
    ],
    [{ unit: 'exit 0' }, 'missing', 'errored'],
    [{ unit: 'exit 0' }, 'broken', 'errored'],
    [{}, 'main', 'passed'],
  ];
  for (const [suites, ref, told] of endings) {
    test(`${JSON.stringify(suites)} on ${ref}: ${told}`, async () => {
      const project = await stage.project(suites);
      assert.equal(await project.build(ref), told);
    });
  }

  test('rules choose the suites', async () => {
    const project = await stage.project({ always: 'exit 0', release: 'exit 0' });
    await project.rule('release', 'commit.branches', 'equals', 'release');
    assert.equal(await project.build('main'), 'passed | always 1 passed');
    assert.equal(await project.build('release'), 'passed | always 1 passed | always 1 passed | release 1 passed');
    const none = await stage.project({ release: 'exit 0' });
    await none.rule('release', 'commit.branches', 'equals', 'release');
    await none.build('main');
    assert.equal(await none.state(), 'skipped');
  });

  test('a project goes by its default branch, and by the newest commit while none of that was built', async () => {
    const project = await stage.project({ unit: 'exit 1 / exit 0 / exit 1 / exit 0' });
    await project.build('side');
    assert.equal(await project.state(), 'failed');
    const trunk = await project.ask('main');
    await project.end(trunk);
    assert.equal(await project.state(), 'passed');
    await project.build('another');
    assert.equal(await project.state(), 'passed');
    await project.rerun(trunk);
    assert.equal(await project.state(), 'passed');
    const red = await stage.project({ unit: 'exit 1 / exit 0 / exit 0' });
    const first = await red.ask('main');
    await red.end(first);
    await red.build('side');
    assert.equal(await red.state(), 'failed', 'what passed elsewhere does not mend the default branch');
    await red.rerun(first);
    assert.equal(await red.state(), 'passed');
  });

  test('a ref that is not there is told in the log of the fetch', async () => {
    const project = await stage.project({});
    const request = await project.ask('missing');
    await project.end(request);
    assert.equal(await project.fetchLog(request), 'looking for missing\n');
  });

  test('a fetch that breaks is tried three times, and its log goes on', async () => {
    const project = await stage.project({});
    const request = await project.ask('broken');
    await project.end(request);
    assert.equal(await project.fetchLog(request), 'looking for broken\n'.repeat(3));
  });

  test('a waiting build is cancelled at once', async () => {
    const project = await stage.project({ unit: 'exit 0' });
    await stage.leave();
    stage.lose(); // at once, so that it is given nothing more
    const request = await project.ask();
    await project.cancel(request);
    assert.equal(await project.end(request), 'cancelled');
    await stage.begin();
  });

  test('a fetch that is under way is called off', async () => {
    const project = await stage.project({ unit: 'exit 0' });
    const request = await project.ask('slow');
    await project.until(request, (state) => state === 'fetching');
    await project.cancel(request);
    assert.equal(await project.end(request), 'cancelled');
  });

  test('builds are called off, those that run and those that wait; those that are over stay', async () => {
    const suites = { a: 'exit 0', b: 'hang', c: 'hang', d: 'hang', e: 'hang', f: 'hang' };
    const project = await stage.project(suites);
    const request = await project.ask();
    await project.until(request, (_, told) => told.includes('a 1 passed') && told.split('running').length === 5);
    await project.cancel(request);
    const rest = ['b', 'c', 'd', 'e', 'f'].map((name) => `${name} 1 cancelled`);
    assert.equal(await project.end(request), ['cancelled', 'a 1 passed', ...rest].join(' | '));
    await project.cancel(request);
    assert.equal(await project.end(request), ['cancelled', 'a 1 passed', ...rest].join(' | '), 'twice is once');
  });

  test('a rerun tries everything again, or what did not pass', async () => {
    const project = await stage.project({ good: 'exit 0', ill: 'exit 1 / exit 1 / exit 0' });
    const request = await project.ask();
    assert.equal(await project.end(request), 'failed | good 1 passed | ill 1 failed 1');
    assert.equal(
      await project.rerun(request),
      'failed | good 1 passed | good 2 passed | ill 1 failed 1 | ill 2 failed 1',
    );
    assert.match(await project.rerun(request, { failed_only: 'true' }), /^passed .* good 2 passed \| .* ill 3 passed$/);
  });

  test('a restart is one more attempt at one suite, and the earlier log stays', async () => {
    const project = await stage.project({ good: 'exit 0', ill: 'say once, exit 1 / say twice, exit 0' });
    const request = await project.ask();
    await project.end(request);
    assert.equal(await project.log('ill'), 'once\n');
    assert.equal(await project.restart('ill', request), 'passed | good 1 passed | ill 1 failed 1 | ill 2 passed');
    assert.equal(await project.log('ill'), 'twice\n');
  });

  test('a runner that is gone loses what it did, whatever that was, and the next one does it', async () => {
    const project = await stage.project({ unit: 'say begun, hang / say again, exit 0' });
    const request = await project.ask();
    await project.until(request, (_, told) => told.includes('running'));
    await stage.leave();
    stage.lose();
    await stage.begin();
    assert.equal(await project.end(request), 'passed | unit 1 errored runner_lost | unit 2 passed');
    assert.equal(await project.log('unit'), 'again\n');
  });

  test('a build that is cancelled while its runner is gone is not tried again', async () => {
    const project = await stage.project({ unit: 'hang' });
    const request = await project.ask();
    await project.until(request, (_, told) => told.includes('running'));
    await stage.leave();
    await project.cancel(request);
    stage.lose();
    assert.equal(await project.end(request), 'cancelled | unit 1 cancelled');
    await stage.begin();
  });

  test('on a line that loses answers, doubles and cuts, every log is whole and every end is the right one', async () => {
    await stage.leave();
    let count = 0;
    const lost = new Set<string>();
    /** Every order has to be asked for twice. */
    const loseOnce = (order: Order | undefined): Order | undefined => {
      if (!order || lost.has(order.claim)) return order;
      lost.add(order.claim);
      throw new Error('the answer was lost');
    };
    const bad = (link: Link): Link => ({
      ...link,
      async log(chunk, signal) {
        count += 1;
        if (count % 5 === 1) throw new Error('it never arrived');
        if (count % 5 === 2) await link.log({ ...chunk, bytes: chunk.bytes.subarray(0, 3) }, signal);
        const receipt = await link.log(chunk, signal);
        if (count % 5 === 3) await link.log(chunk, signal);
        if (count % 5 === 4) throw new Error('the answer was lost');
        return receipt;
      },
      async next(wish, signal) {
        return loseOnce(await link.next(wish, signal));
      },
      async finish(report, signal) {
        const receipt = await link.finish(report, signal);
        count += 1;
        if (count % 2 === 0) throw new Error('the answer was lost');
        return receipt;
      },
    });
    await stage.begin(bad);
    const lines = Array.from({ length: 40 }, (_, number) => `line ${number}`);
    const script = `${lines.map((line) => `say ${line}`).join(', ')}, exit 0`;
    const project = await stage.project({ one: script, two: script, three: script });
    assert.equal(await project.build(), 'passed | one 1 passed | three 1 passed | two 1 passed');
    for (const name of ['one', 'two', 'three']) assert.equal(await project.log(name), `${lines.join('\n')}\n`);
    await stage.leave();
    await stage.begin();
  });
});
