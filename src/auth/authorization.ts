import type { Incoming } from '../http/route.ts';

/**
 * What the request says about who sends it. A browser that once was given Basic credentials adds them to every request,
 * also to those that a page of somebody else makes it send, and JSON-P would hand that page the answer. So they count
 * only where they come from our own pages, from the address bar, or from a program, which names no site. A token never
 * gets into a request by itself.
 */
export function authorizationOf({ headers }: Pick<Incoming, 'headers'>): string | undefined {
  const { authorization } = headers;
  if (typeof authorization !== 'string') return undefined;
  if (!/^basic\b/i.test(authorization)) return authorization;
  const { 'sec-fetch-site': site } = headers;
  return site === undefined || site === 'same-origin' || site === 'none' ? authorization : undefined;
}
