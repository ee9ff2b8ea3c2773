import { randomBytes } from 'node:crypto';

export function randomName(): string {
  return randomBytes(18).toString('base64url');
}
