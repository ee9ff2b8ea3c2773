import type { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';

/**
 * Browsers open connections ahead of need. Node takes one on which nothing was asked yet for one that is about to ask,
 * and a server that wants to stop would wait a minute for it. Nobody waits for an answer there: they are closed.
 */
export function closeSilentConnections(server: FastifyInstance): void {
  /** By where they come from: over TLS there are two sockets for each, and the second takes the place of the first. */
  const silent = new Map<string, Socket>();
  let isStopping = false;
  const connected = (socket: Socket): void => {
    const from = originOf(socket);
    if (isStopping) socket.destroy();
    silent.set(from, socket);
    socket.once('close', () => {
      if (silent.get(from) === socket) silent.delete(from);
    });
  };
  server.server.on('connection', connected);
  server.server.on('secureConnection', connected);
  server.server.on('request', ({ socket }: { socket: Socket }) => silent.delete(originOf(socket)));
  server.addHook('preClose', (done) => {
    isStopping = true;
    for (const socket of silent.values()) socket.destroy();
    done();
  });
}

/** Those on a Unix socket come from nowhere, and are programs, which open none that they do not use. */
function originOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
