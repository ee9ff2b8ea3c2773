import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { WaitingList } from '../../../src/server/dispatch/waiting-list.ts';

const patient = new AbortController().signal;

/** Those who wait for numbers, and how often they tried. */
function waiters() {
  const list = new WaitingList<number>();
  const there: number[] = [];
  let tries = 0;
  const wait = (
    about: { group?: string; signal?: AbortSignal; isServed?: () => boolean; ms?: number; holder?: string } = {},
  ) => {
    const { group = 'any', signal = patient, isServed = () => true, ms, holder = 'x' } = about;
    const attempt = async (): Promise<number | undefined> => {
      tries += 1;
      await turn();
      return holder === 'tried' ? undefined : there.shift();
    };
    const isAny = async (): Promise<boolean> => there.length > 0;
    return list.wait({ runner: { holder }, group, isAny, attempt, isServed }, signal, ms);
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

  test('come after another runner once theirs has found nothing, with all of its slots', async () => {
    const { list, wait, give } = waiters();
    for (let slot = 0; slot < 20; slot += 1) void wait({ holder: 'tried' });
    const other = wait({ holder: 'other' });
    await settled();
    give(1);
    await settled();
    await list.check();
    assert.equal(await other, 1);
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
    give(1); // before it waits
    assert.equal(await first, 1);
    const second = wait();
    await settled();
    there.push(2);
    await list.check();
    assert.equal(await second, 2);
  });

  test('do not hold up another group', async () => {
    const { wait, give } = waiters();
    void wait({ group: 'one', isServed: () => false });
    const other = wait({ group: 'other' });
    await settled();
    give(1);
    assert.equal(await other, 1);
  });

  /** One who waits, and whose next attempt takes something and is not over before `commit`. */
  const taking = async (about: { signal?: AbortSignal; ms?: number } = {}) => {
    const list = new WaitingList<number>();
    const [begun, committed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let isAny = false;
    const attempt = async (): Promise<number> => {
      begun.resolve();
      await committed.promise;
      return 1;
    };
    const runner = { holder: 'x' };
    const waiting = { runner, group: 'any', isAny: async () => isAny, attempt, isServed: () => true };
    const got = list.wait(waiting, about.signal ?? patient, about.ms);
    await settled();
    isAny = true;
    list.notify();
    await begun.promise;
    return { list, got, commit: () => committed.resolve() };
  };

  test('get what was being committed for them when they left', async () => {
    const leaving = new AbortController();
    const { got, commit } = await taking({ signal: leaving.signal });
    leaving.abort();
    await settled();
    commit();
    assert.equal(await got, 1);
  });

  test('get what was being committed for them when their time was up', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const { got, commit } = await taking({ ms: 1000 });
    t.mock.timers.tick(1000);
    await settled();
    commit();
    assert.equal(await got, 1);
  });

  test('get what was being committed for them when they were drained', async () => {
    const { list, got, commit } = await taking();
    list.fail(() => true, new Error('drained'));
    await settled();
    commit();
    assert.equal(await got, 1);
  });

  test('have settled only when also the first attempts of those who came just now are over', async () => {
    const list = new WaitingList<number>();
    const committed = Promise.withResolvers<number>();
    const attempt = (): Promise<number> => committed.promise;
    const waiting = { runner: { holder: 'x' }, group: 'any', isAny: async () => true, attempt, isServed: () => true };
    const got = list.wait(waiting, patient);
    await settled();
    let isSettled = false;
    const settling = list.settled().then(() => (isSettled = true));
    await settled();
    assert.equal(isSettled, false);
    committed.resolve(1);
    assert.equal(await got, 1);
    await settling;
  });
});
