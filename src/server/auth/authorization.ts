import type { Incoming } from '../http/route.ts';

/**
 * A browser adds stored Basic credentials to every request, also to requests of other sites' pages. JSON-P would give
 * those pages the response. So Basic counts only from our own pages, the address bar, or a program, which names no
 * site. For a WebSocket, some browsers name only the origin. Browsers never add tokens automatically.
 */
export function authorizationOf({ headers }: Pick<Incoming, 'headers'>): string | undefined {
  const { authorization } = headers;
  if (typeof authorization !== 'string') return undefined;
  if (!/^basic\b/i.test(authorization)) return authorization;
  const { 'sec-fetch-site': site, origin, upgrade } = headers;
  if (site === undefined && upgrade !== undefined && origin !== undefined) return undefined;
  return site === undefined || site === 'same-origin' || site === 'none' ? authorization : undefined;
}
