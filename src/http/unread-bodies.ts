import { once } from 'node:events';
import type { FastifyReply, FastifyRequest } from 'fastify';

/** So much of a body that nobody wants is read, where it has to be. */
const mostUnwanted = 64 * 1024 * 1024;

/**
 * Called before an answer that a body was not read for, or not to its end. A connection that is closed while something
 * on it is unread takes the answer down with it, and most clients send everything before they listen. Where the
 * connection goes on, Node reads past the rest once the answer is sent. Where it ends with this request, the rest is
 * read first.
 */
export async function hearOut({ raw }: FastifyRequest, reply: FastifyReply): Promise<void> {
  if (raw.httpVersionMajor === 2) reply.removeHeader('connection'); // there is none of that
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
