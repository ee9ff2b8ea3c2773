import type { IncomingMessage } from 'node:http';
import { isOfBuild } from '../../shared/lib/networks.ts';

/** Only a trusted proxy may report another address, never a build, and only the last entry of its list counts. */
export function addressOf({ headers, socket }: IncomingMessage, isBehindProxy: boolean): string {
  if (isBehindProxy && !isOfBuild(socket.remoteAddress)) {
    const forwarded = String(headers['x-forwarded-for'] ?? '')
      .split(',')
      .at(-1)
      ?.trim();
    if (forwarded !== undefined && forwarded !== '') return forwarded.slice(0, 64);
  }
  return socket.remoteAddress?.replace(/^::ffff:/i, '') ?? 'local';
}
