import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { queueTopic } from '../../src/queue/queue.ts';
import { waitingLines, type WaitingLines } from '../../src/dispatch/waiting-line.ts';

const everybody = 100;
const leaving = new AbortController();
const patience = { ms: 60_000, signal: leaving.signal };
after(() => leaving.abort());

/** Lines on a store that announces when the test says so; what is there to be taken, and how often somebody looked. */
function open(): { lines: WaitingLines; announce: () => void; jobs: number[]; looks: () => number; wait: Wait } {
  let heard: ((topic: string) => void) | undefined;
  const listen = (hear: (topic: string) => void) => {
    heard = hear;
    return () => {};
  };
  const lines = waitingLines({ listen }, queueTopic);
  const jobs: number[] = [];
  let looks = 0;
  const wait: Wait = async (line = 'any', signal = patience.signal) => {
    using place = lines.join(line, async () => jobs.length > 0);
    return await place.look({ ...patience, signal }, async (isMore) => {
      looks += 1;
      await new Promise(setImmediate); // the database answers
      const job = jobs.shift();
      if (job !== undefined) isMore(jobs.length > 0);
      return job;
    });
  };
  return { lines, announce: () => heard?.(queueTopic), jobs, looks: () => looks, wait };
}

type Wait = (line?: string, signal?: AbortSignal) => Promise<number | undefined>;

describe('a line of those who wait for work', { timeout: 20_000 }, () => {
  test('has one look for one job, however many wait, and the first gets it', async () => {
    const { announce, jobs, looks, wait } = open();
    const waiting = Array.from({ length: everybody }, () => wait());
    jobs.push(1);
    announce();
    assert.equal(await waiting[0], 1);
    assert.equal(looks(), 1);
  });

  test('takes all of many jobs that came with one announcement', async () => {
    const { announce, jobs, looks, wait } = open();
    const waiting = Array.from({ length: everybody }, () => wait());
    jobs.push(...waiting.keys());
    announce();
    assert.deepEqual(await Promise.all(waiting), [...waiting.keys()]);
    assert.equal(looks(), everybody);
  });

  test('looks once more for what is announced while somebody looks', async () => {
    const { announce, jobs, wait } = open();
    const [first, second] = [wait(), wait()];
    announce();
    announce();
    assert.equal(await first, undefined);
    jobs.push(7);
    assert.equal(await second, 7);
  });

  test('passes over who has hung up', async () => {
    const { announce, jobs, wait } = open();
    const hangingUp = new AbortController();
    const [gone, there] = [wait('any', hangingUp.signal), wait()];
    jobs.push(1);
    announce();
    hangingUp.abort();
    assert.deepEqual([await gone, await there], [undefined, 1]);
  });

  test('finds what was announced before somebody waited, and what was never announced', async () => {
    const { lines, announce, jobs, wait } = open();
    using place = lines.join('any', async () => jobs.length > 0);
    announce();
    jobs.push(1);
    assert.equal(await place.look(patience, async () => jobs.shift()), 1);
    const waiting = wait();
    jobs.push(2);
    await lines.check();
    assert.equal(await waiting, 2);
  });

  test('does not hold up another line', async () => {
    const { announce, jobs, wait } = open();
    const [one, other] = [wait('one'), wait('other')];
    jobs.push(1, 2);
    announce();
    assert.deepEqual([await one, await other], [1, 2]);
  });
});
