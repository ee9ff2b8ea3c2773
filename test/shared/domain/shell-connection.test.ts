import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import { ShellConnection, type ShellRoutes } from '../../../src/shared/domain/shell-connection.ts';
import { shellFrame, shellFrameReader, textOf, type ShellFrame } from '../../../src/shared/domain/shell-frames.ts';

const frameText = ({ letter, content }: ShellFrame): string => `${letter} ${textOf(content)}`;
const isPassing = (error: unknown): boolean => (error as Error).message === 'broken';
async function* never(): AsyncGenerator<Buffer> {
  yield await new Promise(() => {});
}

function connect(t: TestContext, routes: Partial<ShellRoutes>): ShellConnection {
  const type = async () => assert.fail('nothing is typed');
  const connection = new ShellConnection({ type, output: never, isPassing, ...routes });
  t.after(() => connection.end());
  return connection;
}

test('what is typed arrives once and in order, where requests, parts of them and answers are lost', async (t) => {
  let heard = Buffer.alloc(0);
  const losses = ['request', 'answer', 'nothing', 'answer'];
  const all = Promise.withResolvers<void>();
  const connection = connect(t, {
    async type({ offset, data }) {
      const lost = losses.shift();
      if (lost === 'request') throw new Error('broken');
      const bytes = Buffer.from(data, 'base64');
      assert.ok(Number(offset) <= heard.length, 'nothing is left out');
      const taken = bytes.subarray(0, Math.ceil(bytes.length / 2));
      heard = Buffer.concat([heard.subarray(0, Number(offset)), taken]);
      if (lost === 'answer') throw new Error('broken');
      if (shellFrameReader()(heard).at(-1)?.letter === 'e') all.resolve();
      return { taken: heard.length };
    },
  });
  const typed = Array.from({ length: 20_000 }, (_, at) => `d ${at}`);
  for (const frame of typed) void connection.type(frame.slice(2));
  void connection.send(shellFrame('e'));
  await all.promise;
  assert.deepEqual(shellFrameReader()(heard).map(frameText), [...typed, 'e ']);
});

test('what is shown comes once, where connections break in the middle of it', async (t) => {
  const shown = Buffer.concat([shellFrame('d', 'one'), shellFrame('d', 'two'), shellFrame('x', '0')]);
  const typed: string[] = [];
  const connection = connect(t, {
    async type({ offset, data }) {
      const bytes = Buffer.from(data, 'base64');
      typed.push(...shellFrameReader()(bytes).map(frameText));
      return { taken: Number(offset) + bytes.length };
    },
    async *output(from) {
      yield shown.subarray(from, from + 13);
      throw new Error('broken');
    },
  });
  const frames: string[] = [];
  for await (const frame of connection.frames()) {
    frames.push(frameText(frame));
    if (frame.letter === 'x') break;
  }
  assert.deepEqual(frames, ['d one', 'd two', 'x 0']);
  assert.deepEqual(typed, ['p '], 'the other end hears that somebody is back');
});

test('whoever types far ahead of a shell waits, until it is over', async (t) => {
  const connection = connect(t, { type: () => new Promise(() => {}) });
  let isThrough = false;
  const sending = connection.type(Buffer.alloc(300 * 1024)).then(() => (isThrough = true));
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(isThrough, false);
  connection.end();
  await sending;
});

test('a refusal ends it at once', async (t) => {
  const refuse = () => Promise.reject(new Error('no'));
  const connection = connect(t, {
    type: refuse,
    async *output() {
      yield* [];
      await refuse();
    },
  });
  await assert.rejects(connection.frames().next(), /^Error: no$/);
  void connection.send(shellFrame('p'));
  await connection.send(shellFrame('d', Buffer.alloc(300 * 1024)));
});

test('what is pasted goes in frames that a runner takes', async (t) => {
  const pasted = 'x'.repeat(2_000_000);
  const read = shellFrameReader();
  let heard = '';
  const connection = connect(t, {
    async type({ offset, data }) {
      const bytes = Buffer.from(data, 'base64');
      for (const { content } of read(bytes)) heard += textOf(content);
      return { taken: Number(offset) + bytes.length };
    },
  });
  await connection.type(pasted);
  while (heard.length < pasted.length) await new Promise((resolve) => setImmediate(resolve));
  assert.equal(heard, pasted);
});
