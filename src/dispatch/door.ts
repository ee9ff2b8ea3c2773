import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { ApiError } from '../errors.ts';
import type { FinishReport } from '../protocol.ts';
import { addBlobDoor } from './blob-door.ts';
import type { Dispatch } from './dispatch.ts';

/** A chunk of log is at most this long. */
export const largestChunk = 1024 * 1024;

/**
 * The door for runners, the same on the Unix socket and on HTTPS. `identify` answers who knocks, and throws for
 * strangers.
 */
export function addDoor(
  server: FastifyInstance,
  dispatch: Dispatch,
  identify: (request: FastifyRequest) => Promise<string>,
): void {
  void server.register(async (door) => {
    door.removeAllContentTypeParsers();
    door.addContentTypeParser(
      'application/octet-stream',
      { parseAs: 'buffer', bodyLimit: largestChunk },
      async (_: FastifyRequest, body: Buffer) => body,
    );
    door.addContentTypeParser(
      'application/json',
      { parseAs: 'string', bodyLimit: 32 * largestChunk },
      async (_: FastifyRequest, body: string) => JSON.parse(body) as unknown,
    );
    const holders = new WeakMap<FastifyRequest, string>();
    door.addHook('onRequest', async (request) => {
      holders.set(request, await identify(request));
    });
    const holderOf = (request: FastifyRequest): string => {
      const holder = holders.get(request);
      if (holder === undefined) throw new ApiError('unauthorized');
      return holder;
    };

    door.post('/runner/next', async (request, reply) => {
      const order = await dispatch.next(holderOf(request), whileConnected(reply));
      return reply.send({ order: order ?? null });
    });

    door.post<{ Headers: { 'headrace-claim': string; 'headrace-offset': string }; Body: Buffer }>(
      '/runner/log',
      async (request, reply) => {
        const { 'headrace-claim': claim, 'headrace-offset': offset } = request.headers;
        const chunk = { claim, offset: Number(offset), bytes: request.body };
        return reply.send(await dispatch.log(holderOf(request), chunk));
      },
    );

    door.post<{ Body: { claims: string[] } }>('/runner/extend', async (request, reply) => {
      const words = await dispatch.extend(holderOf(request), request.body.claims, whileConnected(reply));
      return reply.send({ words });
    });

    door.post<{ Body: FinishReport }>('/runner/finish', async (request, reply) =>
      reply.send(await dispatch.finish(holderOf(request), request.body)),
    );

    addBlobDoor(door, dispatch, holderOf);
  });
}

/** A held request is let go when the runner hangs up. */
function whileConnected(reply: FastifyReply): AbortSignal {
  const gone = new AbortController();
  reply.raw.once('close', () => gone.abort());
  return gone.signal;
}
