import { randomBytes } from 'node:crypto';

/** What a passkey signs. */
export function newChallenge(): string {
  return randomBytes(32).toString('base64url');
}
