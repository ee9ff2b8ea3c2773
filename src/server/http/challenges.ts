import type { IncomingHttpHeaders } from 'node:http';

const basic = 'Basic realm="Headrace", charset="UTF-8"';
const bearer = 'Bearer realm="Headrace"';

/**
 * Some programs send the API key only after a challenge. A browser would prompt for the key, store it, and add it to
 * requests of any page. So browsers get no challenge for Basic. A browser is recognized by the site that it sends.
 */
export function challengesFor(headers: IncomingHttpHeaders): string[] {
  return isBrowser(headers) ? [bearer] : [basic, bearer];
}

/** RFC 6749 section 5.2: an application that used Basic gets a challenge for Basic. */
export function clientChallenge(headers: IncomingHttpHeaders): string | undefined {
  return headers.authorization === undefined && isBrowser(headers) ? undefined : basic;
}

function isBrowser(headers: IncomingHttpHeaders): boolean {
  return headers['sec-fetch-site'] !== undefined;
}
