import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { SharedWork } from '../../src/lib/shared-work.ts';

describe('work that is shared', () => {
  /** Work that is under way until somebody ends it. */
  const onHand = () => {
    const begun: PromiseWithResolvers<string>[] = [];
    const work = (): Promise<string> => {
      const one = Promise.withResolvers<string>();
      begun.push(one);
      return one.promise;
    };
    return { begun, work };
  };

  test('answers nobody with what was begun before they asked, and all who wait with one', async () => {
    const shared = new SharedWork<string>();
    const { begun, work } = onHand();
    const first = shared.do('a', work);
    const [second, third] = [shared.do('a', work), shared.do('a', work)];
    assert.equal(begun.length, 1);
    begun[0]?.resolve('old');
    assert.equal(await first, 'old');
    await new Promise(setImmediate);
    assert.equal(begun.length, 2);
    const fourth = shared.do('a', work);
    begun[1]?.resolve('new');
    assert.deepEqual(await Promise.all([second, third]), ['new', 'new']);
    await new Promise(setImmediate);
    begun[2]?.resolve('newest');
    assert.equal(await fourth, 'newest');
    await new Promise(setImmediate);
    void shared.do('a', work);
    assert.equal(begun.length, 4, 'nothing is left of what is done');
  });

  test('fails for those who waited for it, and is begun anew for the next', async () => {
    const shared = new SharedWork<string>();
    const { begun, work } = onHand();
    const [first, second] = [shared.do('a', work), shared.do('a', work)];
    begun[0]?.reject(new Error('away'));
    await assert.rejects(first, /away/);
    await new Promise(setImmediate);
    begun[1]?.resolve('back');
    assert.equal(await second, 'back');
  });

  test('is done for each name by itself', () => {
    const shared = new SharedWork<string>();
    const { begun, work } = onHand();
    void shared.do('a', work);
    void shared.do('b', work);
    assert.equal(begun.length, 2);
  });
});
