import assert from 'node:assert/strict';
import { once } from 'node:events';
import { before, describe, test } from 'node:test';
import { WebSocket } from 'ws';
import type { Store } from '../../../src/cli/operator/store.ts';
import { isUnavailable } from '../../../src/server/db/unavailable.ts';
import { RunnerShares } from '../../../src/server/dispatch/runner-shares.ts';
import { mostHeld } from '../../../src/shared/domain/bounds.ts';
import { connectionPath, protocolHeader, protocolNumber } from '../../../src/shared/protocol/index.ts';
import { compiling } from '../../support/compiling.ts';
import { RawRunner } from '../../support/raw-runner.ts';
import { authorityOf, registered } from '../../support/registered.ts';
import { describeWithRunner, ScriptedRunner } from '../../support/runner.ts';
import { describeServiceOnOne, type Service } from '../../support/service.ts';
import type { User } from '../../support/user.ts';

const patient = new AbortController().signal;
const full = { status: 503, error: { generic: ['resource_temporary_unavailable'] } };

/** Opens many connections at once, and answers them with the statuses of those that were refused. */
async function connect(
  service: Service,
  token: string,
  many: number,
): Promise<{ open: WebSocket[]; refused: number[] }> {
  const headers = { authorization: `Bearer ${token}`, [protocolHeader]: protocolNumber };
  const open: WebSocket[] = [];
  const refused: number[] = [];
  const one = async (): Promise<void> => {
    const socket = new WebSocket(`${service.address}${connectionPath}`, { headers, ca: authorityOf(service) });
    const { promise, resolve } = Promise.withResolvers<void>();
    socket.on('error', () => {});
    socket.once('unexpected-response', (_, { statusCode = 0 }) => {
      refused.push(statusCode);
      socket.terminate();
      resolve();
    });
    socket.once('open', () => {
      open.push(socket);
      resolve();
    });
    await promise;
  };
  await Promise.all(Array.from({ length: many }, one));
  return { open, refused };
}

async function closed(sockets: readonly WebSocket[]): Promise<void> {
  await Promise.all(
    sockets.map(async (socket) => {
      const end = once(socket, 'close');
      socket.terminate();
      await end;
    }),
  );
}

describeServiceOnOne('a token of a runner', (service) => {
  let alice: User;
  let bob: User;
  before(async () => {
    [alice, bob] = [await service.user(), await service.user()];
  });

  test('has so many connections, and those of others go on [promise: runner-shares]', async () => {
    const [greedy, other] = [await registered(service, [alice]), await registered(service, [bob])];
    const { open, refused } = await connect(service, greedy.token, mostHeld.connections + 5);
    assert.deepEqual([open.length, refused], [mostHeld.connections, Array(5).fill(503)]);
    const raw = await RawRunner.open(service, other.token);
    assert.deepEqual(await raw.call('gone', { projects: [] }), { answer: [] });
    await closed(open.splice(0, 1));
    for (let again = await connect(service, greedy.token, 1); again.open.length === 0;)
      again = await connect(service, greedy.token, 1); // the server hears of the end a moment later
    await closed(open);
    raw.close();
  });

  test('holds so many bytes of messages that are not complete, and others send theirs [promise: runner-shares]', async () => {
    const [greedy, other] = [await registered(service, [alice]), await registered(service, [bob])];
    const piece = Buffer.alloc(9 * 1024 * 1024, ' ');
    const may = Math.floor(mostHeld.arrivingBytes / piece.length);
    const { open } = await connect(service, greedy.token, 3 * may);
    let ended = 0;
    const enough = Promise.withResolvers<void>();
    for (const socket of open) {
      socket.once('close', () => {
        ended += 1;
        if (ended === 2 * may) enough.resolve();
      });
      socket.send(piece, { fin: false });
    }
    await enough.promise;
    const raw = await RawRunner.open(service, other.token);
    const message = (id: number): string => JSON.stringify({ id, call: 'polled', reports: [] }).padEnd(piece.length);
    assert.deepEqual(await raw.send(message), {});
    raw.close();
    await closed(open.filter(({ readyState }) => readyState === WebSocket.OPEN));
  });

  test('has so many calls that wait, on all of its connections together [promise: runner-shares]', async () => {
    const [greedy, other] = [await registered(service, [alice]), await registered(service, [bob])];
    const raws = [await RawRunner.open(service, greedy.token), await RawRunner.open(service, greedy.token)];
    const each = mostHeld.waitingCalls / 2 + 50;
    const calls = raws.flatMap((raw) => Array.from({ length: each }, () => raw.call('extend', { claims: [] })));
    const honest = await RawRunner.open(service, other.token);
    assert.deepEqual(await honest.call('extend', { claims: [] }), { answer: {} });
    const answers = await Promise.all(calls);
    const refused = answers.filter((answer) => 'status' in answer);
    assert.deepEqual(
      refused,
      Array.from({ length: 100 }, () => full),
    );
    assert.deepEqual(await raws[0]?.call('extend', { claims: [] }), { answer: {} }, 'there is room again');
    for (const raw of [...raws, honest]) raw.close();
  });

  test('keeps its connection however often it only answers pings [promise: runner-shares]', async () => {
    const { token, link } = await registered(service, [alice]);
    const raw = await RawRunner.open(service, token);
    for (let count = 0; count < 10_000; count += 1) raw.socket.pong(Buffer.alloc(100));
    assert.deepEqual(await raw.call('gone', { projects: [] }), { answer: [] });
    raw.close();
    link.close();
  });
});

describeWithRunner('a runner that waits', (service, runner) => {
  test('costs no query for each call that extends its claims [promise: runner-shares]', async () => {
    const { db } = service.store;
    let reads = 0;
    const counting = Object.create(db, {
      read: {
        get() {
          reads += 1;
          return db.read;
        },
      },
    }) as Store['db'];
    const counted = await ScriptedRunner.start({ ...service.store, db: counting });
    const many = 1000;
    reads = 0;
    const extend = () => counted.dispatch.extend(counted.self, { claims: [] }, patient);
    const answers = await Promise.all(Array.from({ length: many }, extend));
    assert.deepEqual(
      answers,
      Array.from({ length: many }, () => ({})),
    );
    assert.ok(reads < many, `${reads} reads`);
    await counted.dispatch.close();
  });

  test('hears at once of each claim that is cancelled or lost, on every call that waits', async () => {
    const alice = await service.user();
    const { task, path } = await compiling(alice, runner);
    const { claim } = task.order;
    const signals = Array.from({ length: 3 }, () => task.hears());
    const others = runner.beside('other').dispatch.extend({ holder: 'other' }, { claims: [] }, patient);
    await alice.delete(path);
    assert.deepEqual(await Promise.all(signals), Array(3).fill('gone'));
    assert.deepEqual(await others, {});
    assert.deepEqual(await runner.dispatch.extend(runner.self, { claims: [claim] }, patient), { [claim]: 'gone' });
  });

  test('transfers so many blobs at a time, and another runner goes on [promise: runner-shares]', async () => {
    const alice = await service.user();
    const { task } = await compiling(alice, runner);
    const { digest } = task.order.work.archive;
    const read = () => runner.dispatch.read(runner.self, digest);
    const open = [];
    for (let count = 0; count < mostHeld.transfers; count += 1) open.push((await read()) ?? assert.fail());
    await assert.rejects(read(), isUnavailable);
    const other = runner.beside('beside');
    const theirs = await compiling(alice, other);
    const blob = await other.dispatch.read(other.self, theirs.task.order.work.archive.digest);
    await blob?.[Symbol.asyncDispose]();
    await open.pop()?.[Symbol.asyncDispose]();
    open.push((await read()) ?? assert.fail());
    for (const one of open) await one[Symbol.asyncDispose]();
    await task.finish({ kind: 'uncompilable' });
    await theirs.task.finish({ kind: 'uncompilable' });
  });
});

describe('the share of a runner', () => {
  const bound = (holder: string, ...accounts: bigint[]) => ({ holder, accounts });

  test('counts for its accounts, which have room for two tokens [promise: runner-shares]', () => {
    const shares = new RunnerShares();
    const [one, two, three] = ['one', 'two', 'three'].map((name) => shares.open(bound(name, 7n), 'connections'));
    const wishes = ['wishes', mostHeld.wishes] as const;
    assert.ok(one && two && three);
    assert.deepEqual([one.take(wishes), two.take(wishes), three.take(['wishes', 1])], [true, true, false]);
    assert.equal(shares.open(bound('four', 8n), 'connections').take(wishes), true, 'another account');
    assert.equal(one.take(['wishes', 1]), false);
    two.give(wishes);
    assert.deepEqual([one.take(['wishes', 1]), three.take(wishes)], [false, true]);
  });

  test('takes all or nothing, and what is larger than a share alone', () => {
    const shares = new RunnerShares();
    const share = shares.open(bound('one'), 'connections');
    assert.equal(share.take(['calls', 1], ['callBytes', 2 * mostHeld.callBytes]), true);
    assert.equal(share.take(['calls', 1], ['callBytes', 1]), false);
    share.give(['callBytes', 2 * mostHeld.callBytes]);
    assert.equal(share.take(['calls', mostHeld.calls - 1], ['callBytes', 1]), true);
    assert.equal(share.take(['calls', 1]), false);
  });

  test('is taken up in turns by the connections of a token, and not given back by their end alone', () => {
    const shares = new RunnerShares();
    const [first, second] = [shares.open(bound('one'), 'connections'), shares.open(bound('one'), 'connections')];
    const all = ['calls', mostHeld.calls] as const;
    assert.equal(first.take(all), true);
    const served: string[] = [];
    const want = (share: typeof first, name: string): void => {
      const begin = (): void => {
        if (share.take(['calls', 1])) served.push(name);
        share.whenFree(begin);
      };
      begin();
    };
    want(first, 'first');
    want(second, 'second');
    for (let count = 0; count < 4; count += 1) first.give(['calls', 1]);
    assert.deepEqual(served, ['first', 'second', 'first', 'second']);
    second.whenFree();
    first[Symbol.dispose]();
    assert.equal(second.take(['calls', 1]), false, 'its calls are still under way');
    first.give(['calls', 1]);
    assert.equal(second.take(['calls', 1]), true);
  });
});
