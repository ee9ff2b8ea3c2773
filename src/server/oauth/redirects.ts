import { longest } from '../../shared/domain/bounds.ts';

/** Not an address: the user copies the code into the application. */
export const outOfBand = 'urn:ietf:wg:oauth:2.0:oob';

/**
 * Plain ASCII, because it is sent in a header. RFC 6749 section 3.1.2: absolute, without a fragment, which the implicit
 * flow uses. Apart from the web's schemes, only schemes with a dot are allowed (RFC 8252 section 7.1). This excludes
 * `javascript:`, `data:` and all schemes that browsers interpret.
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

/** On the user's own machine, on any port. */
export function isLoopbackAddress(text: string): boolean {
  return /^http:\/\/127\.0\.0\.1:[1-9][0-9]{0,4}(?:\/[\w./-]*)?$/.test(text) && isRedirectAddress(text);
}

/** A browser does not send the fragment. */
export function withAnswer(address: string, part: 'query' | 'fragment', answer: Record<string, string>): string {
  const encoded = new URLSearchParams(answer).toString();
  if (part === 'fragment') return `${address}#${encoded}`;
  return `${address}${address.includes('?') ? '&' : '?'}${encoded}`;
}

/**
 * For a content security policy. Chromium applies `form-action` also to the redirect after a form, so the form must
 * name the application's origin. The grammar has no IPv6, so then only the scheme is named.
 */
export function policySource(address: string): string | undefined {
  if (address === outOfBand) return undefined;
  const { protocol, host, hostname } = new URL(address);
  const isWeb = protocol === 'https:' || protocol === 'http:';
  return isWeb && !hostname.startsWith('[') ? `${protocol}//${host}` : protocol;
}
