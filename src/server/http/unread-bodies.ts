import { once } from 'node:events';
import type { FastifyReply, FastifyRequest } from 'fastify';

/** Limit of an unwanted body that must be read. */
const mostUnwanted = 64 * 1024 * 1024;

/**
 * Called before a response to a request whose body was not fully read. Closing a connection with unread bytes discards
 * the response, and most clients send everything first. If the connection stays open, Node skips the rest. Otherwise it
 * is read first.
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
