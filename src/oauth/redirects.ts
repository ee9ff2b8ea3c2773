/** Where an application gets its answer, and how the answer gets there. */

/** Not an address: the code is shown to the person, who copies it into the application. */
export const outOfBand = 'urn:ietf:wg:oauth:2.0:oob';

const longestAddress = 2000;
export const mostAddresses = 20;

/**
 * Whether an address may be registered. It is sent back in a header, so it is plain ASCII. RFC 6749 section 3.1.2: it
 * is absolute and has no fragment, where the answer of the implicit flow goes. Beside the web's schemes there are those
 * that belong to an installed application, which have a dot in them (RFC 8252 section 7.1): so neither `javascript:`
 * nor `data:` nor anything else that a browser gives a meaning to can be one.
 */
export function isRedirectAddress(text: string): boolean {
  if (text === outOfBand) return true;
  if (text.length > longestAddress || !/^[\x21-\x7e]+$/.test(text) || /[#"<>\\^`{|}]/.test(text)) return false;
  if (!URL.canParse(text)) return false;
  const { protocol, hostname, username, password } = new URL(text);
  if (username !== '' || password !== '') return false;
  if (protocol === 'https:' || protocol === 'http:') return /^https?:\/\/[^/]/i.test(text) && hostname !== '';
  return protocol.includes('.');
}

/** The address with the answer added: in its query, or in its fragment, which the browser keeps to itself. */
export function withAnswer(address: string, part: 'query' | 'fragment', answer: Record<string, string>): string {
  const encoded = new URLSearchParams(answer).toString();
  if (part === 'fragment') return `${address}#${encoded}`;
  return `${address}${address.includes('?') ? '&' : '?'}${encoded}`;
}

/**
 * What a content security policy calls the place that an answer goes to. Chromium applies `form-action` also to where
 * a form's answer redirects, so the form that allows an application must name the application's own origin. The
 * policy's grammar has no IPv6 addresses: there the scheme has to do.
 */
export function policySource(address: string): string | undefined {
  if (address === outOfBand) return undefined;
  const { protocol, host, hostname } = new URL(address);
  const isWeb = protocol === 'https:' || protocol === 'http:';
  return isWeb && !hostname.startsWith('[') ? `${protocol}//${host}` : protocol;
}
