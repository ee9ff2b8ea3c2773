import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { PlaceKind } from '../../src/lib/places.ts';
import type { Order } from '../../src/protocol/index.ts';
import { Askers } from '../../src/runner/askers.ts';

const patient = new AbortController().signal;

interface Held extends PromiseWithResolvers<Order | undefined> {
  place: PlaceKind | 'both';
}

/** Executors for builds and two for fetches, and a server that answers what the test says. */
function open(signal = patient, builds = 3) {
  const askers = new Askers();
  const held: Held[] = [];
  const busy: { place: PlaceKind; kind: string; done: () => void }[] = [];
  const executor = async (place: PlaceKind): Promise<void> => {
    const call = async (asked: PlaceKind | undefined): Promise<Order | undefined> => {
      const request = { ...Promise.withResolvers<Order | undefined>(), place: asked ?? ('both' as const) };
      held.push(request);
      return request.promise;
    };
    while (!signal.aborted) {
      const order = await askers.ask(place, call, signal);
      if (!order) continue;
      const work = Promise.withResolvers<void>();
      busy.push({ place, kind: order.work.kind, done: work.resolve });
      await work.promise;
    }
  };
  const ended = [...Array.from({ length: builds }, () => executor('builds')), executor('fetches'), executor('fetches')];
  const answer = async (request: Held | undefined, kind?: string): Promise<void> => {
    assert.ok(request);
    held.splice(held.indexOf(request), 1);
    request.resolve(kind === undefined ? undefined : ({ work: { kind } } as Order));
    await settled();
  };
  /** All requests were held for their time, and brought nothing. */
  const pass = async (): Promise<void> => {
    for (const request of held.slice()) await answer(request);
  };
  return { askers, held, busy, ended, answer, pass, asked: () => held.map(({ place }) => place).toSorted() };
}

const settled = async (): Promise<void> => {
  for (let count = 0; count < 5; count += 1) await turn();
};

describe('executors that have nothing to do', () => {
  test('leave one request with the server, for builds and for fetches', async () => {
    const { asked, pass } = open();
    await settled();
    for (let count = 0; count < 3; count += 1) await pass();
    assert.deepEqual(asked(), ['both']);
  });

  test('have one of them do what comes for them, whoever asked, and those ask for whom there may be more', async () => {
    const { held, busy, asked, answer, pass } = open();
    await settled();
    for (let count = 0; count < 3; count += 1) await pass();
    await answer(held[0], 'fetch_commit');
    assert.deepEqual(
      busy.map(({ place, kind }) => [place, kind]),
      [['fetches', 'fetch_commit']],
    );
    assert.equal(held.length, 4, 'all others ask');
    for (let count = 0; count < 3; count += 1) await pass();
    assert.deepEqual(asked(), ['both']);
    for (let begun = 1; begun <= 3; begun += 1) {
      await answer(
        held.find(({ place }) => place !== 'fetches'),
        'run_suite',
      );
      assert.deepEqual(
        busy.filter(({ place }) => place === 'builds').map(({ kind }) => kind),
        Array(begun).fill('run_suite'),
      );
      for (let count = 0; count < 3; count += 1) await pass();
      const isAsked = (sort: PlaceKind): boolean => held.some(({ place }) => place === sort || place === 'both');
      assert.deepEqual([isAsked('builds'), isAsked('fetches')], [begun < 3, true]);
    }
    await answer(held[0], 'check_connection');
    assert.deepEqual(asked(), [], 'every place is taken');
    busy.find(({ place }) => place === 'builds')?.done();
    await settled();
    assert.deepEqual(asked(), ['builds']);
    for (const { done } of busy) done();
    await settled();
    for (let count = 0; count < 3; count += 1) await pass();
    assert.deepEqual(asked(), ['both']);
  });

  test('ask for fetches while the only place for builds is taken', async () => {
    const { held, asked, answer, pass } = open(patient, 1);
    await settled();
    for (let count = 0; count < 3; count += 1) await pass();
    assert.deepEqual(asked(), ['both']);
    await answer(held[0], 'run_suite');
    assert.deepEqual(asked(), ['fetches']);
  });

  test('end together when the server refuses the runner, or the runner stops or takes no more', async () => {
    const refused = open();
    await settled();
    for (let count = 0; count < 3; count += 1) await refused.pass();
    const ends = Promise.allSettled(refused.ended);
    refused.held.shift()?.reject(new Error('refused'));
    await settled();
    assert.equal(refused.held.length, 4);
    for (const { reject } of refused.held) reject(new Error('refused'));
    assert.deepEqual(new Set((await ends).map(({ status }) => status)), new Set(['rejected']));

    const stopping = new AbortController();
    const stopped = open(stopping.signal);
    await settled();
    stopping.abort(new Error('stopped'));
    for (const { reject } of stopped.held) reject(new Error('stopped'));
    await Promise.allSettled(stopped.ended);

    const drained = open();
    await settled();
    for (let count = 0; count < 3; count += 1) await drained.pass();
    drained.askers.end();
    await drained.answer(drained.held[0], 'fetch_commit');
    assert.deepEqual(
      drained.busy.map(({ place }) => place),
      ['fetches'],
      'what was given before is done',
    );
  });
});
