import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { WaitingList } from '../../src/dispatch/waiting-list.ts';

const patient = new AbortController().signal;

/** Those who wait for numbers, and how often they tried. */
function waiters() {
  const list = new WaitingList<number>();
  const there: number[] = [];
  let tries = 0;
  const wait = (about: { line?: string; signal?: AbortSignal; isServed?: () => boolean; ms?: number } = {}) => {
    const { line = 'any', signal = patient, isServed = () => true, ms } = about;
    const attempt = async (): Promise<number | undefined> => {
      tries += 1;
      await turn();
      return there.shift();
    };
    const isAny = async (): Promise<boolean> => there.length > 0;
    return list.wait({ runner: { holder: 'x' }, line, isAny, attempt, isServed }, signal, ms);
  };
  const give = (...numbers: number[]): void => {
    there.push(...numbers);
    list.notify();
  };
  return { list, wait, give, there, tries: () => tries };
}

async function settled(): Promise<void> {
  for (let at = 0; at < 50; at += 1) await turn();
}

describe('those who wait for work', () => {
  test('get it in the order in which they came, and one job costs few tries however many wait', async () => {
    const { wait, give, tries } = waiters();
    const all = Array.from({ length: 1000 }, () => wait());
    await settled();
    give(1);
    assert.equal(await all[0], 1);
    await settled();
    assert.ok(tries() <= 4, `${tries()} tries`);
  });

  test('get all that there is at once', async () => {
    const { wait, give } = waiters();
    const all = Array.from({ length: 100 }, () => wait());
    await settled();
    give(...Array.from({ length: 100 }, (_, at) => at));
    const got = (await Promise.all(all)).map(Number).toSorted((a, b) => a - b);
    assert.deepEqual(
      got,
      Array.from({ length: 100 }, (_, at) => at),
    );
  });

  test('are passed over where they have left, wait no longer, or get nothing for now', async () => {
    const { wait, give } = waiters();
    const leaving = new AbortController();
    const [gone, late] = [wait({ signal: leaving.signal }), wait({ ms: 1 })];
    void wait({ isServed: () => false });
    const last = wait();
    await settled();
    leaving.abort();
    assert.deepEqual([await gone, await late], [undefined, undefined]);
    give(7);
    assert.equal(await last, 7);
  });

  test('hear of what came while they looked, and of what nobody told', async () => {
    const { list, wait, give, there } = waiters();
    const first = wait();
    give(1); // before it stands in the line
    assert.equal(await first, 1);
    const second = wait();
    await settled();
    there.push(2);
    await list.check();
    assert.equal(await second, 2);
  });

  test('do not hold up another line', async () => {
    const { wait, give } = waiters();
    void wait({ line: 'one', isServed: () => false });
    const other = wait({ line: 'other' });
    await settled();
    give(1);
    assert.equal(await other, 1);
  });
});
