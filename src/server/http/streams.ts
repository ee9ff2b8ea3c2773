import { once } from 'node:events';
import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import type { FastifyBaseLogger, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { ApiError } from '../../shared/errors.ts';
import type { StreamWriter } from '../../shared/lib/stream-writer.ts';
import { repeatedly } from '../../shared/lib/repeatedly.ts';
import { sendPacked } from './compression.ts';
import type { SocketAnswer, StreamAnswer } from './route.ts';
import { webSockets } from './upgrades.ts';

export interface Streams {
  /** Aborted when the client leaves, the server stops, or (checked at intervals) authorization ends. */
  whileOpen(reply: FastifyReply, admit: () => unknown): AbortSignal;
  send(answer: StreamAnswer, request: FastifyRequest, reply: FastifyReply): FastifyReply;
}

interface Client {
  signal: AbortSignal;
  admit: () => unknown;
}

const readAhead = 64 * 1024;

const usualPause = 15_000;

export function createStreams(server: FastifyInstance, log: FastifyBaseLogger, pauseMs = usualPause): Streams {
  const open = new Map<AbortController, () => unknown>();
  const clients = new WeakMap<FastifyReply, Client>();
  let isStopping = false;
  const askAll = async (): Promise<void> => {
    for (const [stream, admit] of open) {
      if (isStopping) return;
      try {
        await admit();
      } catch (error) {
        if (error instanceof ApiError) stream.abort(error);
        else log.error({ err: error }, 'stream re-authorization failed');
      }
    }
  };
  // A server that stops waits for its responses to end, and streams would not end.
  const asking = repeatedly(pauseMs, askAll, () => {}); // it reports each stream's trouble itself
  server.addHook('preClose', (done) => {
    isStopping = true;
    void asking.stop();
    for (const stream of open.keys()) stream.abort();
    done();
  });
  server.addHook('onClose', () => asking.stop()); // the store is closed next
  const upgrade = (
    { mostBytes, connect }: SocketAnswer,
    client: Client,
    request: FastifyRequest,
    reply: FastifyReply,
  ): void =>
    webSockets(mostBytes)(request, reply, (socket) => {
      server.answered(request, 101);
      connect(socket, client).catch((error: unknown) => log.error({ id: request.id, err: error }, 'stream failed'));
    });
  return {
    whileOpen(reply, admit) {
      const stream = new AbortController();
      open.set(stream, admit);
      clients.set(reply, { signal: stream.signal, admit });
      reply.raw.once('close', () => {
        open.delete(stream);
        stream.abort();
        // Idle connections were closed before. An HTTP/2 connection closes with its last response.
        if (isStopping && reply.request.raw.httpVersionMajor === 1) reply.request.raw.socket.end();
      });
      return stream.signal;
    },
    send(answer, request, reply) {
      const client = clients.get(reply) ?? { signal: AbortSignal.abort(), admit: () => {} };
      if ('connect' in answer) {
        request.upgrading?.socket.once('close', () => reply.raw.emit('close')); // a WebSocket leaves the response open
        upgrade(answer, client, request, reply);
        return reply;
      }
      if (!('contentType' in answer)) return reply.status(answer.status).send();
      const { contentType, status = 200, headers = {} } = answer;
      const brokeOff = (error: unknown): void => {
        if (!reply.raw.destroyed && !(error instanceof ApiError))
          log.error({ id: request.id, err: error }, 'stream failed');
      };
      reply.status(status).type(contentType).header('x-accel-buffering', 'no').headers(headers);
      if ('write' in answer) {
        server.answered(request, status);
        streamTo(answer.write, client.signal, reply, brokeOff);
        return reply;
      }
      // Bytes, not objects, so the limit is one of memory.
      const stream = Readable.from(allowed(answer.body, client.signal), {
        objectMode: false,
        highWaterMark: readAhead,
      });
      stream.once('error', brokeOff);
      if (answer.isWorthPacking) sendPacked(stream, request.headers['accept-encoding'], reply);
      else reply.send(stream);
      // The client sees that the stream is open, even if the first event takes long.
      reply.raw.flushHeaders();
      return reply;
    },
  };
}

/** Ends a download whose client is no longer authorized. */
async function* allowed<Piece>(pieces: AsyncIterable<Piece>, signal: AbortSignal): AsyncGenerator<Piece> {
  for await (const piece of pieces) {
    if (signal.reason instanceof ApiError) throw signal.reason;
    yield piece;
  }
}

/** Writes directly: an event for many clients is not delayed by one of them. */
function streamTo(
  write: (writer: StreamWriter) => Promise<void>,
  signal: AbortSignal,
  reply: FastifyReply,
  brokeOff: (error: unknown) => void,
): void {
  const { raw } = reply.hijack();
  raw.writeHead(reply.statusCode, reply.getHeaders() as OutgoingHttpHeaders);
  raw.flushHeaders();
  write(writerOf(raw, signal)).then(
    () => raw.end(),
    (error: unknown) => {
      brokeOff(error);
      raw.destroy();
    },
  );
}

function writerOf(raw: ServerResponse, signal: AbortSignal): StreamWriter {
  return {
    signal,
    write: (piece) => void (raw.writable && raw.write(piece)),
    get isFull() {
      return raw.writableNeedDrain;
    },
    async drained() {
      if (raw.writableNeedDrain && !signal.aborted) await once(raw, 'drain', { signal }).catch(() => {});
    },
  };
}
