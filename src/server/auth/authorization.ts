import type { Incoming } from '../http/route.ts';

/**
 * The Authorization header, where it may be trusted. A browser that has Basic credentials adds them to every request,
 * also to requests of another site's page, and JSON-P would give that page the answer. So they count only in requests
 * from our own pages, from the address bar, or from a program, which names no site. A browser never adds a token by
 * itself.
 */
export function authorizationOf({ headers }: Pick<Incoming, 'headers'>): string | undefined {
  const { authorization } = headers;
  if (typeof authorization !== 'string') return undefined;
  if (!/^basic\b/i.test(authorization)) return authorization;
  const { 'sec-fetch-site': site } = headers;
  return site === undefined || site === 'same-origin' || site === 'none' ? authorization : undefined;
}
