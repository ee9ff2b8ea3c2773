import { longest } from '../../shared/domain/bounds.ts';

/** The address where an application gets its answer, and how the answer is added to it. */

/** Not an address: the code is shown to the person, who copies it into the application. */
export const outOfBand = 'urn:ietf:wg:oauth:2.0:oob';

/**
 * Whether an address may be registered. It is sent in a header, so it is plain ASCII. RFC 6749 section 3.1.2: it is
 * absolute and has no fragment, which the implicit flow uses for its answer. Besides the web's schemes, only schemes of
 * installed applications are allowed, which contain a dot (RFC 8252 section 7.1). This excludes `javascript:`, `data:`
 * and every other scheme with a meaning for browsers.
 */
export function isRedirectAddress(text: string): boolean {
  if (text === outOfBand) return true;
  if (text.length > longest.redirectAddress || !/^[\x21-\x7e]+$/.test(text) || /[#"<>\\^`{|}]/.test(text)) return false;
  if (!URL.canParse(text)) return false;
  const { protocol, hostname, username, password } = new URL(text);
  if (username !== '' || password !== '') return false;
  if (protocol === 'https:' || protocol === 'http:') return /^https?:\/\/[^/]/i.test(text) && hostname !== '';
  return protocol.includes('.');
}

/** An address of a program on the person's own machine, on any port. */
export function isLoopbackAddress(text: string): boolean {
  return /^http:\/\/127\.0\.0\.1:[1-9][0-9]{0,4}(?:\/[\w./-]*)?$/.test(text) && isRedirectAddress(text);
}

/** Adds the answer to the address: to its query, or to its fragment, which the browser does not send. */
export function withAnswer(address: string, part: 'query' | 'fragment', answer: Record<string, string>): string {
  const encoded = new URLSearchParams(answer).toString();
  if (part === 'fragment') return `${address}#${encoded}`;
  return `${address}${address.includes('?') ? '&' : '?'}${encoded}`;
}

/**
 * The source for the address in a content security policy. Chromium applies `form-action` also to the redirect after a
 * form, so the form that allows an application must name the application's origin. The policy's grammar has no IPv6
 * addresses: for them only the scheme is named.
 */
export function policySource(address: string): string | undefined {
  if (address === outOfBand) return undefined;
  const { protocol, host, hostname } = new URL(address);
  const isWeb = protocol === 'https:' || protocol === 'http:';
  return isWeb && !hostname.startsWith('[') ? `${protocol}//${host}` : protocol;
}
