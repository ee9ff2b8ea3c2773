import { Readable } from 'node:stream';
import type { FastifyBaseLogger, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { ApiError } from '../errors.ts';
import type { StreamAnswer } from './route.ts';

/** Answers that go on for as long as somebody listens. */
export interface Streams {
  /**
   * Aborted when the caller has gone, the server is about to, or the caller is not admitted any more. That is asked now
   * and then for all who listen, not with everything that they are told.
   */
  whileOpen(reply: FastifyReply, admit: () => unknown): AbortSignal;
  send(answer: StreamAnswer, request: FastifyRequest, reply: FastifyReply): FastifyReply;
}

/** What is read ahead of a slow caller, in bytes. */
const readAhead = 64 * 1024;

/** How often it is asked whether those who listen may go on. */
const usualPause = 15_000;

export function createStreams(server: FastifyInstance, log: FastifyBaseLogger, pauseMs = usualPause): Streams {
  const open = new Map<AbortController, () => unknown>();
  let isStopping = false;
  let asking: Promise<void> | undefined;
  const askAll = async (): Promise<void> => {
    for (const [stream, admit] of open) {
      if (isStopping) return;
      try {
        await admit();
      } catch (error) {
        if (error instanceof ApiError) stream.abort();
        else log.error({ err: error }, 'whether a caller may go on listening is not known');
      }
    }
  };
  const timer = setInterval(() => {
    asking ??= askAll().finally(() => (asking = undefined));
  }, pauseMs).unref();
  // A server that stops waits for its answers to end: these would not by themselves.
  server.addHook('preClose', (done) => {
    isStopping = true;
    clearInterval(timer);
    for (const stream of open.keys()) stream.abort();
    done();
  });
  server.addHook('onClose', async () => asking); // the store is closed next
  return {
    whileOpen(reply, admit) {
      const stream = new AbortController();
      open.set(stream, admit);
      reply.raw.once('close', () => {
        open.delete(stream);
        stream.abort();
        // Idle connections were closed before this one became idle.
        if (isStopping) reply.request.raw.socket.end();
      });
      return stream.signal;
    },
    send({ contentType, status = 200, headers = {}, body }, request, reply) {
      // Bytes, not objects: so that the limit is one of memory, however long the pieces are.
      const stream = Readable.from(body, { objectMode: false, highWaterMark: readAhead });
      stream.once('error', (error) => {
        if (!reply.raw.destroyed) log.error({ id: request.id, err: error }, 'a stream broke off');
      });
      server.answered(status, reply.elapsedTime);
      reply.status(status).type(contentType).header('x-accel-buffering', 'no').headers(headers).send(stream);
      // The caller learns at once that it is heard, also where the first word takes its time.
      reply.raw.flushHeaders();
      return reply;
    },
  };
}
