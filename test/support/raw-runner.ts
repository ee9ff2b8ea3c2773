import assert from 'node:assert/strict';
import { once } from 'node:events';
import { WebSocket } from 'ws';
import { connectionPath, protocolHeader, protocolNumber } from '../../src/shared/protocol/index.ts';
import { authorityOf } from './registered.ts';
import type { Service } from './service.ts';

/** A connection over which a test sends what no runner would. */
export class RawRunner {
  readonly socket: WebSocket;
  readonly #answers = new Map<number, (answer: Record<string, unknown>) => void>();
  readonly #ended: Promise<never>;
  #last = 0;

  private constructor(socket: WebSocket) {
    this.socket = socket;
    socket.on('error', () => {});
    this.#ended = once(socket, 'close').then(([code]) => assert.fail(`the server closed it with ${code}`));
    this.#ended.catch(() => {});
    socket.on('message', (data: Buffer, isBinary) => {
      const text = data.toString();
      const answer = JSON.parse(isBinary ? text.slice(0, text.indexOf('\n')) : text) as { id: number };
      this.#answers.get(answer.id)?.(answer);
    });
  }

  static async open(service: Service, token: string): Promise<RawRunner> {
    const headers = { authorization: `Bearer ${token}`, [protocolHeader]: protocolNumber };
    const socket = new WebSocket(`${service.address}${connectionPath}`, { headers, ca: authorityOf(service) });
    await once(socket, 'open');
    return new RawRunner(socket);
  }

  /** Calls with the given fields, and answers what came, without the number. */
  async call(name: unknown, fields: object = {}, bytes?: Uint8Array): Promise<Record<string, unknown>> {
    const text = (id: number): string => JSON.stringify({ ...fields, id, call: name });
    return this.send((id) => (bytes ? Buffer.concat([Buffer.from(`${text(id)}\n`), bytes]) : text(id)));
  }

  async send(message: (id: number) => string | Buffer): Promise<Record<string, unknown>> {
    this.#last += 1;
    const id = this.#last;
    const { promise, resolve } = Promise.withResolvers<Record<string, unknown>>();
    this.#answers.set(id, resolve);
    this.socket.send(message(id));
    const { id: _, ...answer } = await Promise.race([promise, this.#ended]);
    return answer;
  }

  close(): void {
    this.socket.terminate();
  }
}
