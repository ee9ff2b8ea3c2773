import type { IncomingMessage } from 'node:http';
import type { FastifyInstance } from 'fastify';
import { unreadable } from './raw.ts';

/** A caller who sends nothing for this long is gone, whatever the network says. */
const longestSilence = 60_000;

/** Routes added here get their bodies unread, of whatever type and length. */
export function withRawBodies(server: FastifyInstance, add: (scope: FastifyInstance) => void): void {
  void server.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', (_request, _payload, done) => done(null, undefined));
    add(scope);
  });
}

/**
 * A body as it arrives, no faster than it is taken. Throws when it is cut off. Whoever stops in the middle can still
 * answer: the rest is read past by Node once the answer is sent.
 */
export async function* arriving(request: IncomingMessage): AsyncGenerator<Buffer> {
  const { socket } = request;
  const giveUp = (): void => void request.destroy(new Error('the upload went silent'));
  socket.setTimeout(longestSilence, giveUp);
  try {
    const body = request.iterator({ destroyOnReturn: false });
    for (let next = await read(body); !next.done; next = await read(body)) yield next.value;
  } finally {
    socket.setTimeout(0);
    socket.removeListener('timeout', giveUp);
  }
  if (!request.complete) throw unreadable();
}

/** A caller who went away in the middle made a request that makes no sense; nothing is wrong here. */
async function read(body: AsyncIterator<Buffer>): Promise<IteratorResult<Buffer>> {
  try {
    return await body.next();
  } catch {
    throw unreadable();
  }
}
