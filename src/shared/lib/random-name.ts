import { randomBytes } from 'node:crypto';

/** A unique name that cannot be guessed. */
export function randomName(): string {
  return randomBytes(18).toString('base64url');
}
