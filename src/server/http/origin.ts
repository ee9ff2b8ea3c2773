import type { IncomingMessage } from 'node:http';

/** As configured, or as the caller addressed it. */
export function originOf({ headers }: IncomingMessage, baseUrl: string | undefined, hasTls: boolean): string {
  if (baseUrl !== undefined) return baseUrl.replace(/\/+$/, '');
  const host = String(headers.host ?? headers[':authority'] ?? 'localhost'); // the second is for HTTP/2
  return `${hasTls ? 'https' : 'http'}://${host}`;
}
