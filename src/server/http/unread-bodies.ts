import { once } from 'node:events';
import type { FastifyReply, FastifyRequest } from 'fastify';

/** At most this much of an unwanted body is read, where it must be read. */
const mostUnwanted = 64 * 1024 * 1024;

/**
 * Called before an answer to a request whose body was not read to its end. Closing a connection with unread bytes also
 * discards the answer, and most clients send everything before they read. If the connection stays open, Node skips the
 * rest after the answer. If it ends with this request, the rest is read first.
 */
export async function drainBody({ raw }: FastifyRequest, reply: FastifyReply): Promise<void> {
  if (raw.httpVersionMajor === 2) reply.removeHeader('connection'); // HTTP/2 does not have this header
  if (raw.complete || raw.destroyed) return;
  reply.removeHeader('connection'); // Fastify would close it at once
  raw.resume();
  if (goesOn(raw)) return;
  let unwanted = 0;
  const over = new AbortController();
  raw.on('data', (chunk: Buffer) => {
    unwanted += chunk.length;
    if (unwanted > mostUnwanted) over.abort();
  });
  raw.once('close', () => over.abort()).on('error', () => over.abort());
  await once(raw, 'end', { signal: over.signal }).catch(() => {});
}

function goesOn({ headers, httpVersion }: FastifyRequest['raw']): boolean {
  const connection = headers.connection ?? '';
  return httpVersion === '1.0' ? /\bkeep-alive\b/i.test(connection) : !/\bclose\b/i.test(connection);
}
