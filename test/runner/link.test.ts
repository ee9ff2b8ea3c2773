import assert from 'node:assert/strict';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { WebSocketServer, type WebSocket } from 'ws';
import { closing } from '../../src/shared/protocol/index.ts';
import { RefusedError } from '../../src/runner/failures.ts';
import { openLink, type OpenLink } from '../../src/runner/link.ts';
import { untilAnswered } from '../../src/runner/retry.ts';
import { temporaryFolder } from '../support/folders.ts';

const patient = new AbortController().signal;

async function linkTo(t: TestContext, server: Server): Promise<OpenLink> {
  const folder = temporaryFolder();
  const socket = join(folder, 'server.sock');
  await once(server.listen(socket), 'listening');
  const link = openLink({ socket });
  t.after(() => {
    link.close();
    server.close();
    server.closeAllConnections();
    rmSync(folder, { recursive: true });
  });
  return link;
}

/** A server that does with each connection what the test says. */
function withConnections(...on: ((socket: WebSocket) => void)[]): Server {
  const server = createServer();
  const sockets = new WebSocketServer({ server });
  sockets.on('connection', (socket) => on.shift()?.(socket));
  return server;
}

const answering = (answer: object) => (socket: WebSocket) =>
  socket.on('message', (data: Buffer) => {
    const { id } = JSON.parse(data.toString()) as { id: number };
    socket.send(JSON.stringify({ id, ...answer }));
  });

test('an answer that is none of our server is a failed call, and the runner lives on', async (t) => {
  const server = createServer((_, response) => response.end('<html>somebody else’s</html>'));
  const link = await linkTo(t, server);
  await assert.rejects(link.extend({ claims: ['claim'] }, patient), /answered .* with 200: <html>/);
  const sockets = new WebSocketServer({ server });
  sockets.once('connection', (socket) => {
    socket.on('message', () => socket.send('<html>'));
    sockets.once('connection', answering({ answer: {} }));
  });
  assert.deepEqual(await untilAnswered(patient, () => link.extend({ claims: ['claim'] }, patient)), {});
});

test('a refusal without end is read no further than its beginning', async (t) => {
  const server = createServer((_, response) => {
    const piece = 'x'.repeat(64 * 1024);
    const more = (): void => {
      while (!response.destroyed && response.write(piece));
    };
    response.writeHead(502).on('drain', more);
    more();
  });
  const link = await linkTo(t, server);
  await assert.rejects(link.extend({ claims: ['claim'] }, patient), /answered .* with 502: x{200}$/);
  await assert.rejects(link.read('0'.repeat(64), 0, patient), /answered .* with 502: x{200}$/);
});

test('a call without an answer fails with its connection, and is repeated over the next one', async (t) => {
  const seen: string[] = [];
  const link = await linkTo(
    t,
    withConnections(
      (socket) =>
        socket.on('message', (data: Buffer) => {
          seen.push(data.toString());
          socket.terminate();
        }),
      answering({ answer: { taken: true } }),
    ),
  );
  const report = { claim: 'claim', outcome: { kind: 'pushed' }, logSize: 0 } as const;
  assert.deepEqual(await untilAnswered(patient, () => link.finish(report, patient)), { taken: true });
  assert.deepEqual(JSON.parse(seen[0] ?? ''), { ...report, id: 1, call: 'finish' });
});

test('a server that ends the connection because of the token is not asked again', async (t) => {
  const link = await linkTo(
    t,
    withConnections((socket) => socket.on('message', () => socket.close(closing.tokenEnded))),
  );
  await assert.rejects(
    untilAnswered(patient, () => link.gone({ projects: [] }, patient)),
    RefusedError,
  );
});
