import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Readable } from 'node:stream';
import type { Runner } from '../auth/runners.ts';
import { LeaseLapsedError } from '../db/node-lease.ts';
import { isUnavailable } from '../db/unavailable.ts';
import { ApiError } from '../errors.ts';
import { unreadable } from '../http/raw.ts';
import { understandEachOther, unnamedVersion, version, type Receipt } from '../protocol.ts';
import { addBlobRoutes } from './blob-routes.ts';
import { createChunkBuffers, type HeldChunk } from './chunk-buffers.ts';
import type { Dispatch } from './dispatch.ts';
import { readClaim, readClaimHeader, readClaims, readOffsetHeader, readProjects, readReport } from './messages.ts';

/** A chunk of log is at most this long. */
export const largestChunk = 1024 * 1024;

/** Names of claims are short; what a commit says about itself need not be. */
const short = { bodyLimit: 1024 };
const long = { bodyLimit: 32 * largestChunk };

export interface RunnerRoutes {
  dispatch: Dispatch;
  /** Answers who knocks, and throws for strangers. */
  identify: (request: FastifyRequest) => Promise<Runner>;
  /** Somebody came; `trouble` says why they were turned away. */
  note: (runner: Runner, visit: { version: string; trouble: string }) => Promise<void>;
}

/**
 * The routes for runners, the same on the Unix socket and on HTTPS. Who is let in or turned away is written down: `note`.
 */
export function addRunnerRoutes(server: FastifyInstance, { dispatch, identify, note }: RunnerRoutes): void {
  void server.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    const memory = createChunkBuffers(largestChunk);
    scope.addContentTypeParser(
      'application/octet-stream',
      { bodyLimit: largestChunk },
      async (request: FastifyRequest, body: Readable) => memory.read(body, lengthOf(request)),
    );
    scope.addContentTypeParser('application/json', { parseAs: 'string' }, async (_: FastifyRequest, body: string) =>
      parsed(body),
    );
    // Not as callers of the API are told: to a runner, 4xx means that it need not come again.
    scope.setErrorHandler((error, _request, reply) => {
      if (!isUnavailable(error) && !(error instanceof LeaseLapsedError)) throw error;
      return reply.status(503).send(new ApiError('resource_temporary_unavailable').body);
    });
    const runners = new WeakMap<FastifyRequest, Runner>();
    scope.addHook('onRequest', async (request, reply) => {
      const runner = await identify(request);
      void reply.header('headrace-version', version);
      const theirs = String(request.headers['headrace-version'] ?? unnamedVersion).slice(0, 64);
      const isUnderstood = understandEachOther(version, theirs);
      await note(runner, { version: theirs, trouble: isUnderstood ? '' : wordsAbout(theirs) });
      if (!isUnderstood) throw new ApiError('invalid_format', 'headrace-version');
      runners.set(request, runner);
    });
    const runnerOf = (request: FastifyRequest): Runner => {
      const runner = runners.get(request);
      if (runner === undefined) throw new ApiError('unauthorized');
      return runner;
    };

    scope.post('/runner/next', short, async (request, reply) => {
      const order = await dispatch.next(runnerOf(request), readClaim(request.body), whileConnected(reply));
      return reply.send({ order: order ?? null });
    });

    const takeChunk = async (runner: Runner, { headers, body }: FastifyRequest): Promise<Receipt> => {
      if (!isChunk(body)) throw unreadable();
      using chunk = body;
      const place = { claim: readClaimHeader(headers), offset: readOffsetHeader(headers) };
      return await dispatch.log(runner, { ...place, bytes: chunk.bytes });
    };
    scope.post('/runner/log', async (request, reply) => reply.send(await takeChunk(runnerOf(request), request)));

    scope.post('/runner/extend', { bodyLimit: largestChunk }, async (request, reply) => {
      const words = await dispatch.extend(runnerOf(request), readClaims(request.body), whileConnected(reply));
      return reply.send({ words });
    });

    scope.post('/runner/finish', long, async (request, reply) =>
      reply.send(await dispatch.finish(runnerOf(request), readReport(request.body))),
    );

    scope.post('/runner/key', short, async (request, reply) => {
      const privateKey = await dispatch.key(runnerOf(request), readClaim(request.body));
      return reply.send(privateKey === undefined ? { gone: true } : { privateKey });
    });

    scope.post('/runner/gone', { bodyLimit: 64 * 1024 }, async (request, reply) => {
      return reply.send({ gone: await dispatch.goneProjects(runnerOf(request), readProjects(request.body)) });
    });

    addBlobRoutes(scope, dispatch, runnerOf);
  });
}

function wordsAbout(theirs: string): string {
  return `it is headrace ${theirs} and this server ${version}: more than one minor version apart, they do not understand each other`;
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
