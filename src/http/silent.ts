import type { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';

/**
 * Browsers open connections ahead of need. Node takes one on which nothing was asked yet for one that is about to ask,
 * and a server that wants to stop would wait a minute for it. Nobody waits for an answer there: they are closed.
 */
export function closeSilentConnections(server: FastifyInstance): void {
  const silent = new Set<Socket>();
  /** Over TLS there are two sockets for each: what is asked is asked on the second, which comes from where the first did. */
  const outer = new Map<string, Socket>();
  let isStopping = false;
  const connected = (socket: Socket): void => {
    if (isStopping) socket.destroy();
    silent.add(socket);
    socket.once('close', () => silent.delete(socket));
  };
  server.server.on('connection', (socket: Socket) => {
    connected(socket);
    const from = originOf(socket);
    outer.set(from, socket);
    socket.once('close', () => {
      if (outer.get(from) === socket) outer.delete(from);
    });
  });
  server.server.on('secureConnection', (socket: Socket) => {
    connected(socket);
    const first = outer.get(originOf(socket));
    if (first) silent.delete(first);
  });
  server.server.on('request', ({ socket }: { socket: Socket }) => silent.delete(socket));
  server.addHook('preClose', (done) => {
    isStopping = true;
    for (const socket of silent) socket.destroy();
    done();
  });
}

/** Those on a Unix socket come from nowhere, and are programs, which open none that they do not use. */
function originOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
