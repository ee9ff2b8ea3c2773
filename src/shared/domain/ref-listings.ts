import { createHash } from 'node:crypto';
import { bytes, most } from './bounds.ts';

export type Refs = ReadonlyMap<string, string>;

/** Sorted, so that the same refs always give the same text. */
export function writeListing(refs: Refs): string {
  return Array.from(refs, ([name, sha]) => ({ name, sha }))
    .sort((one, other) => (one.name < other.name ? -1 : 1))
    .map(({ name, sha }) => `${sha} ${name}\n`)
    .join('');
}

/** Undefined for a text that `writeListing` cannot have written. */
export function readListing(text: string): Refs | undefined {
  const refs = new Map<string, string>();
  const lines = text.split('\n');
  if (text.length > bytes.refListing || lines.pop() !== '' || lines.length > most.refs) return undefined;
  for (const line of lines) {
    const [, sha, name] = /^([0-9a-f]{40}) (refs\/(?:heads|tags)\/[^\s\p{Cc}]{1,512})$/u.exec(line) ?? [];
    if (sha === undefined || name === undefined) return undefined;
    refs.set(name, sha);
  }
  return refs;
}

export function digestOf(listing: string): string {
  return createHash('sha256').update(listing).digest('hex');
}
