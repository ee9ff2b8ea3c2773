import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { PassThrough } from 'node:stream';
import * as fc from 'fast-check';
import { WebSocket } from 'ws';
import { countArriving } from '../src/server/dispatch/arriving-messages.ts';
import { serveCalls, type CallHandlers } from '../src/server/dispatch/calls.ts';
import { RunnerShares } from '../src/server/dispatch/runner-shares.ts';
import { mostHeld } from '../src/shared/domain/bounds.ts';
import { callNames, encodeMessage, type CallName, type ToServer } from '../src/shared/protocol/index.ts';
import { damaged, damage, type Change } from './mutations.ts';
import { anyProperty, type Target } from './target.ts';

/** What a runner does next: it sends a message, an answer of the server is ready, or it goes. */
type Step =
  | { kind: 'send'; call: string; fields: object; bytes: Uint8Array | undefined; changes: Change[]; cut: boolean }
  | { kind: 'answer'; at: number; fails: boolean }
  | { kind: 'close' };

const claim = fc.constantFrom('a'.repeat(22), 'b'.repeat(22), '', '__proto__');
const fields = fc.oneof(
  fc.record({ claim }),
  fc.record({ claims: fc.array(claim, { maxLength: 4 }) }),
  fc.record({ claim, offset: fc.nat(9), room: fc.nat(9) }),
  fc.record({ projects: fc.array(fc.constantFrom('1', '-1', 'x'), { maxLength: 3 }) }),
  fc.record({ claim, logSize: fc.nat(9), outcome: fc.jsonValue({ maxDepth: 2 }) }),
);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('send' as const),
      call: fc.constantFrom<string[]>(...callNames, 'nothing', '__proto__'),
      fields,
      bytes: fc.option(fc.uint8Array({ maxLength: 40 }), { nil: undefined }),
      changes: fc.oneof({ weight: 5, arbitrary: fc.constant<Change[]>([]) }, { weight: 1, arbitrary: damage }),
      cut: fc.boolean(),
    }),
  },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('answer' as const), at: fc.nat(20), fails: fc.boolean() }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'close' as const }) },
);

/** The server's end of a connection, without the network. */
class FakeSocket extends EventEmitter {
  readyState: number = WebSocket.OPEN;
  bufferedAmount = 0;
  isPaused = false;
  readonly sent: (string | Buffer)[] = [];
  send(data: string | Buffer): void {
    this.sent.push(data);
  }
  pause(): void {
    this.isPaused = true;
  }
  resume(): void {
    this.isPaused = false;
  }
  close(): void {
    this.terminate();
  }
  terminate(): void {
    if (this.readyState === WebSocket.CLOSED) return;
    this.readyState = WebSocket.CLOSED;
    this.emit('close');
  }
}

/**
 * Whatever a runner sends, in whatever order and with whatever answers between, each call is answered at most once and
 * under its number, no more is at work than may be, and in the end the runner holds nothing any more.
 */
const settle = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

export const runnerSequences: Target = {
  name: 'runner-sequences',
  runs: 150,
  open() {
    const property = fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const shares = new RunnerShares();
      const runner = { holder: 'fuzzed', accounts: [7n] };
      const working: { name: CallName; answer: PromiseWithResolvers<unknown> }[] = [];
      const handlers = Object.fromEntries(
        callNames.map((name) => [
          name,
          () => {
            const answer = Promise.withResolvers<unknown>();
            working.push({ name, answer });
            return answer.promise;
          },
        ]),
      ) as unknown as CallHandlers;
      const parts = { handlers, translate: () => undefined, onTrouble: () => {} };
      const connect = () => {
        const [socket, over, wire] = [new FakeSocket(), new AbortController(), new PassThrough()];
        const share = shares.open(runner, 'connections');
        share.attach(socket as never);
        countArriving(socket as never, wire, share);
        serveCalls(socket as never, runner, { signal: over.signal, share }, parts);
        socket.once('close', () => {
          over.abort();
          share[Symbol.dispose]();
        });
        return { socket, wire, asked: new Set<number>() };
      };
      let [connection, last] = [connect(), 0];
      /** A damaged message may have the number of another one. */
      const isWhole = steps.every((one) => one.kind !== 'send' || one.changes.length === 0);
      const assertSound = (): void => {
        const waits = new Set<CallName>(['next', 'extend', 'polls', 'shells']);
        assert.ok(working.filter(({ name }) => !waits.has(name)).length <= mostHeld.calls);
        const ids = connection.socket.sent.map((data) => {
          const text = data.toString();
          return (JSON.parse(typeof data === 'string' ? text : text.slice(0, text.indexOf('\n'))) as { id: number }).id;
        });
        if (isWhole) assert.equal(new Set(ids).size, ids.length, 'a call has one answer');
      };
      for (const one of steps) {
        if (connection.socket.readyState === WebSocket.CLOSED) connection = connect();
        if (one.kind === 'close') connection.socket.terminate();
        else if (one.kind === 'answer') {
          const [done] = working.splice(one.at % Math.max(1, working.length), 1);
          if (one.fails) done?.answer.reject(new Error('x'));
          else done?.answer.resolve({});
        } else if (!connection.socket.isPaused) {
          last += 1;
          const message = { ...one.fields, id: last, call: one.call, ...(one.bytes && { bytes: one.bytes }) };
          const whole = Buffer.from(encodeMessage(message as ToServer) as string);
          const data = damaged(whole, one.changes);
          connection.wire.emit('data', data);
          if (!one.cut || one.changes.length === 0) connection.socket.emit('message', data, one.bytes !== undefined);
        }
        await settle();
        assertSound();
      }
      connection.socket.terminate();
      while (working.length > 0) {
        for (const { answer } of working.splice(0)) answer.resolve({});
        await settle();
      }
      assert.ok(shares.isIdle);
    });
    return { property: anyProperty(property) };
  },
};
