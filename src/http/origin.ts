import type { IncomingMessage } from 'node:http';

/** Where callers find this server: as it was told, or as they called it themselves. */
export function originOf({ headers }: IncomingMessage, baseUrl: string | undefined, hasTls: boolean): string {
  if (baseUrl !== undefined) return baseUrl.replace(/\/+$/, '');
  const host = String(headers.host ?? headers[':authority'] ?? 'localhost'); // HTTP/2 has the other
  return `${hasTls ? 'https' : 'http'}://${host}`;
}
