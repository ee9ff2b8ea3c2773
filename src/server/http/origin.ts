import type { IncomingMessage } from 'node:http';

/** The configured address, or the address that the caller used. */
export function originOf({ headers }: IncomingMessage, baseUrl: string | undefined, hasTls: boolean): string {
  if (baseUrl !== undefined) return baseUrl.replace(/\/+$/, '');
  const host = String(headers.host ?? headers[':authority'] ?? 'localhost'); // the second is for HTTP/2
  return `${hasTls ? 'https' : 'http'}://${host}`;
}
