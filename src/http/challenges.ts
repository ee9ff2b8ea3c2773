import type { IncomingHttpHeaders } from 'node:http';

const basic = 'Basic realm="Headrace", charset="UTF-8"';
const bearer = 'Bearer realm="Headrace"';

/**
 * What would be taken instead of credentials that are missing or wrong: the API key, or an application's token. Programs
 * that wait for the invitation before they send the key get it. A browser would ask the person for it, keep it, and add
 * it to whatever any page has it send: browsers, which say what site a request comes from, are not invited.
 */
export function challengesFor(headers: IncomingHttpHeaders): string[] {
  return isBrowser(headers) ? [bearer] : [basic, bearer];
}

/** RFC 6749 section 5.2: an application that identified itself by Basic is told that Basic is what it takes. */
export function clientChallenge(headers: IncomingHttpHeaders): string | undefined {
  return headers.authorization === undefined && isBrowser(headers) ? undefined : basic;
}

function isBrowser(headers: IncomingHttpHeaders): boolean {
  return headers['sec-fetch-site'] !== undefined;
}
