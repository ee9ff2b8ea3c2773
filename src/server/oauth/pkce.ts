import { hash, timingSafeEqual } from 'node:crypto';

/** RFC 7636: proves that the application that redeems a code is the application that requested it. */

/** Section 4.2: the base64url form of 32 bytes. */
export function isChallenge(text: string): boolean {
  return /^[\w-]{43}$/.test(text);
}

/** Section 4.6, only with the method S256. Section 4.1 defines the form of a verifier. */
export function verifierFits(verifier: string, challenge: string): boolean {
  if (!/^[\w.~-]{43,128}$/.test(verifier)) return false;
  const expected = Buffer.from(challenge);
  const actual = Buffer.from(hash('sha256', verifier, 'base64url'));
  return actual.length === expected.length && timingSafeEqual(actual, expected);
}
