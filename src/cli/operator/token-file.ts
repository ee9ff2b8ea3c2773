import { readFileSync } from 'node:fs';

/** `admin runner create` prints JSON, which is easily stored as it is. No server would know that as a token. */
export function readToken(file: string): string {
  const text = readFileSync(file, 'utf8').trim();
  if (!/^[\w-]+$/.test(text)) throw new Error(`${file} must contain only the token of the runner (hrr_…)`);
  return text;
}
