import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { DrainedError, type Link, type Wish } from '../../src/shared/protocol/index.ts';
import { RefusedError } from '../../src/runner/failures.ts';
import { orderFor, startScripted } from '../support/scripted-runner.ts';

/** As a server holds a wish for which there is nothing. */
const hold = ({ holdMs = 0 }: Wish, signal: AbortSignal): Promise<undefined> => pause(holdMs, undefined, { signal });

describe('a runner that works until no work comes', () => {
  test('ends when none came in time, and has asked with all of its slots', async (t) => {
    const slots: string[] = [];
    const next: Link['next'] = (wish, signal) => {
      slots.push(wish.slot ?? 'any');
      return hold(wish, signal);
    };
    const startedAt = performance.now();
    const { runner, holds } = await startScripted(t, { untilIdle: { idleMs: 300 }, concurrency: 3, next });
    await runner.done;
    assert.ok(performance.now() - startedAt >= 300);
    assert.deepEqual(slots.slice(0, 6), ['builds', 'builds', 'builds', 'fetches', 'fetches', 'fetches']);
    assert.ok(
      holds.every((ms) => ms !== undefined && ms <= 300),
      holds.join(),
    );
  });

  test('waits as long again after each job, in every slot', async (t) => {
    let given = 0;
    let lastJobAt = 0;
    const { runner, reports } = await startScripted(t, {
      untilIdle: { idleMs: 200 },
      async next(wish, signal) {
        if (given < 5 && wish.slot === 'fetches') {
          // The other slots rest by then.
          if (given > 0) await pause(Math.max(0, (wish.holdMs ?? 0) - 1), undefined, { signal });
          given += 1;
          return orderFor(wish.claim);
        }
        return hold(wish, signal);
      },
      finish: () => void (lastJobAt = performance.now()),
    });
    await runner.done;
    assert.equal(reports.length, given);
    assert.ok(given >= 5, `${given} jobs`);
    assert.ok(performance.now() - lastJobAt >= 200);
  });

  test('a job that comes with the last answer is done, and those after it', async (t) => {
    const given: string[] = [];
    const { runner, reports } = await startScripted(t, {
      untilIdle: { idleMs: 50 },
      concurrency: 1,
      async next(wish, signal) {
        await hold(wish, signal);
        if (given.length >= 3) return undefined;
        given.push(wish.slot ?? '');
        return orderFor(wish.claim);
      },
    });
    await runner.done;
    assert.equal(given.length, 3);
    assert.equal(reports.length, 3);
  });

  test('does not end while one of its slots has a job', async (t) => {
    const finished = Promise.withResolvers<void>();
    let asked = 0;
    let isGiven = false;
    const { runner, reports } = await startScripted(t, {
      untilIdle: { idleMs: 20 },
      concurrency: 1,
      async next(wish, signal) {
        if (!isGiven) {
          isGiven = true;
          return orderFor(wish.claim);
        }
        asked += 1;
        if (asked === 30) finished.resolve(); // the time was over several times
        return hold(wish, signal);
      },
      finish() {
        if (asked < 30) throw new Error('the server is away'); // the outcome is reported again
      },
    });
    await finished.promise;
    await runner.done;
    assert.ok(asked >= 30);
    assert.notEqual(reports.length, 0);
  });

  test('does not end because a server is away, however long, and takes the work of its return', async (t) => {
    const awayUntil = performance.now() + 1000;
    const afterwards: (number | undefined)[] = [];
    const { runner, reports } = await startScripted(t, {
      untilIdle: { idleMs: 100 },
      async next(wish, signal) {
        if (performance.now() < awayUntil) throw new Error('the connection to the server ended');
        afterwards.push(wish.holdMs);
        const isFirst = afterwards.length === 1;
        await hold(wish, signal);
        return isFirst ? orderFor(wish.claim) : undefined;
      },
    });
    await runner.done;
    assert.equal(afterwards[0], 100, 'the time begins anew');
    assert.equal(reports.length, 1);
  });

  test('ends with the refusal of a server, also where other slots had no work and rest', async (t) => {
    const { runner } = await startScripted(t, {
      untilIdle: { idleMs: 0 },
      concurrency: 1,
      async next(wish) {
        if (wish.slot !== 'builds') return undefined;
        await pause(50);
        throw new RefusedError('the server does not know the token');
      },
    });
    await assert.rejects(runner.done, /does not know the token/);
  });

  test('ends when it is drained: by itself, and at the server', async (t) => {
    const wishes = new Map<string, () => void>();
    const asked = Promise.withResolvers<void>();
    const drained = await startScripted(t, {
      untilIdle: { idleMs: 900_000_000 },
      concurrency: 1,
      async next({ claim }) {
        const { promise, resolve } = Promise.withResolvers<undefined>();
        wishes.set(claim, () => resolve(undefined));
        if (wishes.size === 3) asked.resolve();
        return promise;
      },
      leave: async ({ claims }) => claims.forEach((claim) => wishes.get(claim)?.()),
    });
    await asked.promise;
    drained.runner.drain();
    await drained.runner.done;
    const atServer = await startScripted(t, {
      untilIdle: { idleMs: 900_000_000 },
      next: () => Promise.reject(new DrainedError()),
    });
    await atServer.runner.done;
  });
});
