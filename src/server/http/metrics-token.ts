import { timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';

export function hasMetricsToken({ authorization = '' }: IncomingHttpHeaders, token: string | undefined): boolean {
  if (token === undefined) return false;
  const sent = Buffer.from(authorization);
  const expected = Buffer.from(`Bearer ${token}`);
  return sent.length === expected.length && timingSafeEqual(sent, expected);
}
