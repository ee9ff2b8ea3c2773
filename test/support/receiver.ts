import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createSocketServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { Webhook } from 'standardwebhooks';
import { exactValue, type Fields } from './client.ts';

/** A call as it arrived. */
export interface Received {
  headers: IncomingHttpHeaders;
  body: string;
  path: string;
  /** When all of it had arrived, by `performance.now()`. */
  at: number;
}

export type Reply = (response: ServerResponse, received: Received, request: IncomingMessage) => void;

/** Answers with a status and a text. */
export const reply =
  (status: number, text = '', headers: Record<string, string> = {}): Reply =>
  (response) =>
    void response.writeHead(status, headers).end(text);

/** A receiver of webhooks: a real HTTP server on loopback that records every call and answers as the test says. */
export class Receiver implements AsyncDisposable {
  readonly calls: Received[] = [];
  readonly #server = createServer((request, response) => void this.#receive(request, response));
  readonly #waiting = new Set<() => void>();
  /** How it answers from now on. */
  answer: Reply;

  private constructor(answer: Reply) {
    this.answer = answer;
  }

  static async start(answer: Reply = reply(200, 'thanks')): Promise<Receiver> {
    const receiver = new Receiver(answer);
    receiver.#server.listen(0, '127.0.0.1');
    await once(receiver.#server, 'listening');
    return receiver;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}/hook`;
  }

  /** The calls so far, once there are this many. */
  async received(count: number): Promise<Received[]> {
    while (this.calls.length < count) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#waiting.add(resolve);
      await promise;
    }
    return this.calls;
  }

  /** The types of the calls, once there are this many. */
  async types(count: number): Promise<string[]> {
    return (await this.received(count)).map(({ body }) => String(payloadOf(body).type));
  }

  async #receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
    const received: Received = {
      headers: request.headers,
      body: Buffer.concat(chunks).toString(),
      path: request.url ?? '',
      at: performance.now(),
    };
    response.on('error', () => {});
    this.answer(response, received, request);
    this.calls.push(received);
    for (const wake of this.#waiting) wake();
    this.#waiting.clear();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

/** A server that speaks no HTTP, or wrong HTTP. */
export async function rawReceiver(speak: (socket: Socket) => void): Promise<AsyncDisposable & { url: string }> {
  const sockets = new Set<Socket>();
  const server: Server = createSocketServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    speak(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

export function payloadOf(body: string): Fields {
  return exactValue(body) as Fields;
}

/** Checks the signature with the library of the standard, and returns the content. */
export function verified(received: Received, secret: unknown): Fields {
  const headers = received.headers as Record<string, string>;
  new Webhook(String(secret)).verify(received.body, headers);
  assert.throws(() => new Webhook(String(secret)).verify(`${received.body} `, headers));
  return payloadOf(received.body);
}
