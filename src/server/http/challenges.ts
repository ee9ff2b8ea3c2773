import type { IncomingHttpHeaders } from 'node:http';

const basic = 'Basic realm="Headrace", charset="UTF-8"';
const bearer = 'Bearer realm="Headrace"';

/**
 * The challenges for missing or wrong credentials: the API key, or an application's token. Some programs send the key
 * only after a challenge. A browser would ask the person for it, keep it, and add it to the requests of any page. So
 * browsers, which name the site that a request comes from, get no challenge for Basic.
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
