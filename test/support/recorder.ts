import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { request as forward } from 'node:https';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

export interface Recorder extends Disposable {
  address: string;
  /** The requests that came by, with their bodies. */
  sent: string[];
}

/** Stands between a program and a server, and remembers what the program sends. */
export async function startRecorder(target: string, ca: string): Promise<Recorder> {
  const sent: string[] = [];
  const pass = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { method = '', url = '', headers } = request;
    const body = await text(request);
    sent.push(`${method} ${url} ${decodeURIComponent(body.replaceAll('+', ' '))}`);
    const there = forward(`${target}${url}`, { method, headers, ca, agent: false });
    there.on('response', (answer) => {
      response.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(response);
    });
    there.end(body);
  };
  const proxy = createServer((request, response) => void pass(request, response));
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  return {
    address: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
    sent,
    [Symbol.dispose]() {
      proxy.closeAllConnections();
      proxy.close();
    },
  };
}
