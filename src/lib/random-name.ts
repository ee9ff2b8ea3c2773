import { randomBytes } from 'node:crypto';

/** A name that nobody else has and nobody can guess. */
export function randomName(): string {
  return randomBytes(18).toString('base64url');
}
