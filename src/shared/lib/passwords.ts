import { argon2, hash, randomBytes, timingSafeEqual, type Argon2Parameters } from 'node:crypto';
import { promisify } from 'node:util';

const derive = promisify(argon2);

/** OWASP's first recommendation for argon2id: 19 MiB, two passes, one lane. */
const recommended = { memory: 19_456, passes: 2, parallelism: 1, tagLength: 32 };

type Cost = typeof recommended;

/** In the PHC string form, so that the cost can change without losing old passwords. */
export async function hashPassword(password: string, cost: Cost = recommended): Promise<string> {
  const salt = randomBytes(16);
  const tag = await derive('argon2id', parameters(password, salt, cost));
  return phcString(salt, tag, cost);
}

function phcString(salt: Buffer, tag: Buffer, { memory, passes, parallelism }: Cost): string {
  return `$argon2id$v=19$m=${memory},t=${passes},p=${parallelism}$${unpadded(salt)}$${unpadded(tag)}`;
}

/** A valid hash without a password: comparing takes as long as with a real one. */
export const matchesNothing = phcString(randomBytes(16), randomBytes(recommended.tagLength), recommended);

export async function verifyPassword(password: string, stored: string): Promise<boolean> {
  const parts = /^\$argon2id\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$([^$]+)\$([^$]+)$/.exec(stored);
  if (!parts) return false;
  const [, memory, passes, parallelism, salt = '', tag = ''] = parts;
  const expected = Buffer.from(tag, 'base64');
  const storedCost = {
    memory: Number(memory),
    passes: Number(passes),
    parallelism: Number(parallelism),
    tagLength: expected.length,
  };
  const actual = await derive('argon2id', parameters(password, Buffer.from(salt, 'base64'), storedCost));
  return timingSafeEqual(actual, expected);
}

function parameters(password: string, nonce: Buffer, cost: Cost): Argon2Parameters {
  return { message: password, nonce, ...cost };
}

function unpadded(bytes: Buffer): string {
  return bytes.toString('base64').replaceAll('=', '');
}

/** For a person to copy once: 120 bits, without characters that look alike. */
export function randomPassword(): string {
  const alphabet = 'abcdefghijkmnpqrstuvwxyz23456789';
  const letters = Array.from(randomBytes(24), (byte) => alphabet[byte % alphabet.length]);
  return letters.join('').replace(/(.{6})(?=.)/g, '$1-');
}

/** 256 random bits after a prefix for the kind. It cannot be guessed, so one round of SHA-256 is safe and cheap. */
export function randomSecret(prefix: string): string {
  return `${prefix}_${randomBytes(32).toString('base64url')}`;
}

export function hashSecret(secret: string): string {
  return hash('sha256', secret, 'base64url');
}

/** Timing reveals only something about the hash, and a caller cannot choose a secret by its hash. */
export function secretMatches(secret: string, storedHash: string): boolean {
  return hashSecret(secret) === storedHash;
}
