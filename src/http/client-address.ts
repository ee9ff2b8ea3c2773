import type { IncomingMessage } from 'node:http';

/** Where a request came from. Only a proxy of our own may speak for somebody else, and only in its last word. */
export function addressOf({ headers, socket }: IncomingMessage, isBehindProxy: boolean): string {
  const forwarded = String(headers['x-forwarded-for'] ?? '')
    .split(',')
    .at(-1)
    ?.trim();
  const direct = socket.remoteAddress?.replace(/^::ffff:/i, '') ?? 'local';
  return isBehindProxy && forwarded !== undefined && forwarded !== '' ? forwarded.slice(0, 64) : direct;
}
