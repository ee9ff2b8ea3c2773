import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { lstat, rm } from 'node:fs/promises';
import { connect, createServer, type AddressInfo, type Server } from 'node:net';
import type { FastifyInstance } from 'fastify';

export type Place = { path: string } | { host: string; port: number };

/**
 * Listens on a socket, or on an address; `localhost` has two of them. Whoever comes to the second is handed to the same
 * server: one that was made for it alone would have limits of its own.
 */
export async function listenOn(server: FastifyInstance, place: Place): Promise<void> {
  if ('path' in place) {
    await removeDeadSocket(place.path);
    // Who may enter its folder may connect: a proxy is somebody else, and a mode of ours would keep it out.
    await server.listen({ ...place, readableAll: true, writableAll: true });
    return;
  }
  if (place.host !== 'localhost') {
    await server.listen(place);
    return;
  }
  const [first, ...others] = await lookup(place.host, { all: true });
  const twins: Server[] = [];
  server.addHook('preClose', (done) => {
    for (const twin of twins) twin.close();
    done();
  });
  await server.listen({ host: first?.address ?? '127.0.0.1', port: place.port });
  const { port } = server.server.address() as AddressInfo;
  for (const { address } of others) {
    const twin = createServer({ noDelay: true, allowHalfOpen: true }, (socket) => {
      server.server.emit('connection', socket);
    });
    twins.push(twin);
    // An address that this machine does not have, or a port that is taken there, leaves the other.
    await once(twin.listen(port, address), 'listening').catch(() => {});
  }
}

/** A server that was killed could not take its socket away. One that somebody listens on stays, and is in the way. */
async function removeDeadSocket(path: string): Promise<void> {
  const socket = connect(path);
  const { promise, resolve } = Promise.withResolvers<string | undefined>();
  socket.once('connect', () => resolve(undefined));
  socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code));
  const trouble = await promise;
  socket.destroy();
  if (trouble === 'ECONNREFUSED' && (await lstat(path)).isSocket()) await rm(path, { force: true });
}
