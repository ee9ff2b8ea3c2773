import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { WebSocket, WebSocketServer } from 'ws';
import { shellIsOver } from '../../src/shared/domain/shell-stream.ts';

export type Side = 'client' | 'runner';

/** Stands for the servers between the two ends of a shell, and does to their packets what a test says. */
export class PacketRelay implements AsyncDisposable {
  readonly #server: WebSocketServer;
  readonly #sockets = new Map<Side, WebSocket>();
  /** Whether this packet of an end is lost. */
  loses: (packet: Buffer, from: Side) => boolean = () => false;

  private constructor(server: WebSocketServer) {
    this.#server = server;
    server.on('connection', (socket, { url }) => {
      const side = url === '/client' ? 'client' : 'runner';
      this.#sockets.set(side, socket);
      socket
        .on('error', () => {})
        .on('message', (packet: Buffer) => {
          if (!this.loses(packet, side)) this.#sockets.get(side === 'client' ? 'runner' : 'client')?.send(packet);
        });
    });
  }

  static async start(): Promise<PacketRelay> {
    const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
    await once(server, 'listening');
    return new PacketRelay(server);
  }

  socket(side: Side): WebSocket {
    return new WebSocket(`ws://127.0.0.1:${(this.#server.address() as AddressInfo).port}/${side}`);
  }

  /** The connection of this end breaks. */
  break(side: Side): void {
    this.#sockets.get(side)?.terminate();
  }

  /** The shell is over for this end. */
  over(side: Side, reason: string): void {
    this.#sockets.get(side)?.close(shellIsOver, reason);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#server.clients) socket.terminate();
    this.#server.close();
    await once(this.#server, 'close');
  }
}
