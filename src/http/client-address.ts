import type { IncomingMessage } from 'node:http';

/** Where a request came from. Only a proxy of our own may speak for somebody else, and only in its last word. */
export function addressOf({ headers, socket }: IncomingMessage, isBehindProxy: boolean): string {
  if (isBehindProxy) {
    const forwarded = String(headers['x-forwarded-for'] ?? '')
      .split(',')
      .at(-1)
      ?.trim();
    if (forwarded !== undefined && forwarded !== '') return forwarded.slice(0, 64);
  }
  return socket.remoteAddress?.replace(/^::ffff:/i, '') ?? 'local';
}
