import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Readable } from 'node:stream';
import type { Runner } from '../auth/runners.ts';
import { ApiError } from '../errors.ts';
import { unreadable } from '../http/raw.ts';
import type { Receipt } from '../protocol.ts';
import { addBlobDoor } from './blob-door.ts';
import { createChunkMemory, type HeldChunk } from './chunk-memory.ts';
import type { Dispatch } from './dispatch.ts';
import { readClaim, readClaimHeader, readClaims, readOffsetHeader, readProjects, readReport } from './messages.ts';

/** A chunk of log is at most this long. */
export const largestChunk = 1024 * 1024;

/** Names of claims are short; what a commit says about itself need not be. */
const short = { bodyLimit: 1024 };
const long = { bodyLimit: 32 * largestChunk };

/**
 * The door for runners, the same on the Unix socket and on HTTPS. `identify` answers who knocks, and throws for
 * strangers.
 */
export function addDoor(
  server: FastifyInstance,
  dispatch: Dispatch,
  identify: (request: FastifyRequest) => Promise<Runner>,
): void {
  void server.register(async (door) => {
    door.removeAllContentTypeParsers();
    const memory = createChunkMemory(largestChunk);
    door.addContentTypeParser(
      'application/octet-stream',
      { bodyLimit: largestChunk },
      async (request: FastifyRequest, body: Readable) => memory.read(body, lengthOf(request)),
    );
    door.addContentTypeParser('application/json', { parseAs: 'string' }, async (_: FastifyRequest, body: string) =>
      parsed(body),
    );
    const runners = new WeakMap<FastifyRequest, Runner>();
    door.addHook('onRequest', async (request) => {
      runners.set(request, await identify(request));
    });
    const runnerOf = (request: FastifyRequest): Runner => {
      const runner = runners.get(request);
      if (runner === undefined) throw new ApiError('unauthorized');
      return runner;
    };

    door.post('/runner/next', short, async (request, reply) => {
      const order = await dispatch.next(runnerOf(request), readClaim(request.body), whileConnected(reply));
      return reply.send({ order: order ?? null });
    });

    const takeChunk = async (runner: Runner, { headers, body }: FastifyRequest): Promise<Receipt> => {
      if (!isChunk(body)) throw unreadable();
      using chunk = body;
      const place = { claim: readClaimHeader(headers), offset: readOffsetHeader(headers) };
      return await dispatch.log(runner, { ...place, bytes: chunk.bytes });
    };
    door.post('/runner/log', async (request, reply) => reply.send(await takeChunk(runnerOf(request), request)));

    door.post('/runner/extend', { bodyLimit: largestChunk }, async (request, reply) => {
      const words = await dispatch.extend(runnerOf(request), readClaims(request.body), whileConnected(reply));
      return reply.send({ words });
    });

    door.post('/runner/finish', long, async (request, reply) =>
      reply.send(await dispatch.finish(runnerOf(request), readReport(request.body))),
    );

    door.post('/runner/key', short, async (request, reply) => {
      const privateKey = await dispatch.key(runnerOf(request), readClaim(request.body));
      return reply.send(privateKey === undefined ? { gone: true } : { privateKey });
    });

    door.post('/runner/gone', { bodyLimit: 64 * 1024 }, async (request, reply) => {
      return reply.send({ gone: await dispatch.goneProjects(runnerOf(request), readProjects(request.body)) });
    });

    addBlobDoor(door, dispatch, runnerOf);
  });
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    throw unreadable();
  }
}

function isChunk(body: unknown): body is HeldChunk {
  return typeof body === 'object' && body !== null && Symbol.dispose in body;
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
