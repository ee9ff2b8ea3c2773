import { once } from 'node:events';
import { createServer, request as forward, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Transform, pipeline } from 'node:stream';

/** What goes wrong with a request on its way. */
export type Fault =
  /** Answered in the place of the server. */
  | { status: number; body?: string | Buffer; headers?: Record<string, string> }
  /** The connection breaks after this many bytes of the body: on the way there, or back. */
  | { cutRequestAfter: number }
  | { cutAnswerAfter: number }
  /** The connection is closed at once. */
  | 'refused'
  /** Nothing is answered. */
  | 'hangs';

export interface FaultyProxy {
  endpoint: string;
  /** Everything that came by: method and path with query. */
  seen: string[];
  /** Says what goes wrong from now on; undefined lets a request through. */
  when(decide: (request: IncomingMessage) => Fault | undefined): void;
  close(): Promise<void>;
}

/** Stands between the program and an HTTP server, and passes everything on as long as nothing else is wanted. */
export async function startFaultyProxy(target: string): Promise<FaultyProxy> {
  const { hostname, port } = new URL(target);
  let decide: (request: IncomingMessage) => Fault | undefined = () => undefined;
  const seen: string[] = [];
  const proxy = createServer((request, response) => {
    seen.push(`${request.method} ${request.url}`);
    const fault = decide(request);
    request.on('error', () => {});
    response.on('error', () => {});
    if (fault === 'refused') request.socket.destroy();
    else if (fault === 'hangs') request.resume();
    else if (fault && 'status' in fault) answer(request, response, fault);
    else pass(request, response, { hostname, port }, fault);
  });
  proxy.keepAliveTimeout = 0; // to close what is idle is none of the faults asked for
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  return {
    endpoint: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
    seen,
    when: (one) => void (decide = one),
    async close() {
      proxy.closeAllConnections();
      proxy.close();
      await once(proxy, 'close');
    },
  };
}

function answer(
  request: IncomingMessage,
  response: ServerResponse,
  { status, body = '', headers = {} }: Extract<Fault, { status: number }>,
): void {
  request.resume();
  request.once('end', () => response.writeHead(status, headers).end(body));
}

function pass(
  request: IncomingMessage,
  response: ServerResponse,
  target: { hostname: string; port: string },
  fault: Exclude<Fault, string | { status: number }> | undefined,
): void {
  // A connection of its own: one that is kept may have been closed by then, and that is none of the faults asked for.
  const headers = { ...request.headers, connection: 'close' };
  const there = forward({ ...target, agent: false, method: request.method, path: request.url, headers });
  const cut = (): void => void (there.destroy(), request.socket.destroy());
  // Swift adds a body to what it answers to HEAD where there is no such object, which is an error after the answer.
  const isHead = request.method === 'HEAD';
  there.on('error', () => void (isHead && response.headersSent ? there.destroy() : cut()));
  there.on('response', (answered) => {
    const { connection: _, ...others } = answered.headers;
    response.writeHead(answered.statusCode ?? 500, others);
    if (isHead) {
      answered.on('error', () => {}).resume();
      response.end();
      return;
    }
    const most = fault && 'cutAnswerAfter' in fault ? fault.cutAnswerAfter : Infinity;
    pipeline(answered, cutAfter(most, cut), response, () => {});
  });
  const most = fault && 'cutRequestAfter' in fault ? fault.cutRequestAfter : Infinity;
  pipeline(request, cutAfter(most, cut), there, () => {});
}

function cutAfter(most: number, cut: () => void): Transform {
  let passed = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      const rest = chunk.subarray(0, Math.max(0, most - passed));
      passed += chunk.length;
      if (rest.length === chunk.length) return done(null, chunk);
      this.push(rest);
      setImmediate(cut);
    },
  });
}
