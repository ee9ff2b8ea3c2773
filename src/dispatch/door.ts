import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Readable } from 'node:stream';
import { ApiError } from '../errors.ts';
import type { FinishReport, Receipt } from '../protocol.ts';
import { addBlobDoor } from './blob-door.ts';
import { createChunkMemory, type HeldChunk } from './chunk-memory.ts';
import type { Dispatch } from './dispatch.ts';

/** A chunk of log is at most this long. */
export const largestChunk = 1024 * 1024;

interface ChunkHeaders {
  'headrace-claim': string;
  'headrace-offset': string;
}

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
    const memory = createChunkMemory(largestChunk);
    door.addContentTypeParser(
      'application/octet-stream',
      { bodyLimit: largestChunk },
      async (request: FastifyRequest, body: Readable) => memory.read(body, lengthOf(request)),
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

    door.post<{ Body: { claim: string } }>('/runner/next', async (request, reply) => {
      const order = await dispatch.next(holderOf(request), request.body.claim, whileConnected(reply));
      return reply.send({ order: order ?? null });
    });

    const takeChunk = async (holder: string, headers: ChunkHeaders, held: HeldChunk): Promise<Receipt> => {
      using chunk = held;
      const { 'headrace-claim': claim, 'headrace-offset': offset } = headers;
      return await dispatch.log(holder, { claim, offset: Number(offset), bytes: chunk.bytes });
    };
    door.post<{ Headers: ChunkHeaders; Body: HeldChunk }>('/runner/log', async (request, reply) =>
      reply.send(await takeChunk(holderOf(request), request.headers, request.body)),
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

/** A runner always says how long its chunk is; one that is too long was refused before. */
function lengthOf({ headers }: FastifyRequest): number {
  const length = Number(headers['content-length']);
  if (!Number.isSafeInteger(length)) throw new ApiError('invalid_format');
  return length;
}

/** A held request is let go when the runner hangs up. */
function whileConnected(reply: FastifyReply): AbortSignal {
  const gone = new AbortController();
  reply.raw.once('close', () => gone.abort());
  return gone.signal;
}
