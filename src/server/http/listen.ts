import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { lstat, rm } from 'node:fs/promises';
import { connect, createServer, type AddressInfo, type Server } from 'node:net';
import type { FastifyInstance } from 'fastify';

export type ListenAddress = { path: string } | { host: string; port: number };

/** `localhost` has two addresses. The same server takes both, because a second one would have its own limits. */
export async function listenOn(server: FastifyInstance, place: ListenAddress): Promise<void> {
  if ('path' in place) {
    await removeDeadSocket(place.path);
    // The folder's mode decides who may connect: a proxy runs as another user.
    await server.listen({ ...place, readableAll: true, writableAll: true });
    return;
  }
  if (place.host !== 'localhost') {
    await server.listen(place);
    return;
  }
  const [first, ...others] = await lookup(place.host, { all: true });
  const seconds: Server[] = [];
  server.addHook('preClose', (done) => {
    for (const second of seconds) second.close();
    done();
  });
  await server.listen({ host: first?.address ?? '127.0.0.1', port: place.port });
  const { port } = server.server.address() as AddressInfo;
  for (const { address } of others) {
    const second = createServer({ noDelay: true, allowHalfOpen: true }, (socket) => {
      server.server.emit('connection', socket);
    });
    seconds.push(second);
    // If this address is missing or in use, the first one is enough.
    await once(second.listen(port, address), 'listening').catch(() => {});
  }
}

/** A killed server leaves its socket behind. One with a listener stays, and listening on it fails. */
async function removeDeadSocket(path: string): Promise<void> {
  const socket = connect(path);
  const { promise, resolve } = Promise.withResolvers<string | undefined>();
  socket.once('connect', () => resolve(undefined));
  socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code));
  const code = await promise;
  socket.destroy();
  if (code === 'ECONNREFUSED' && (await lstat(path)).isSocket()) await rm(path, { force: true });
}
