import { createHash } from 'node:crypto';

/** Branches and tags by their full names, and the commit that each of them is at. */
export type Refs = ReadonlyMap<string, string>;

/** More than these are not told of, nor more than so many characters of a listing. */
export const mostRefs = 50_000;
export const longestListing = 8 * 1024 * 1024;

/** One line for each, in one order whoever writes it: the same refs are always the same text. */
export function writeListing(refs: Refs): string {
  return Array.from(refs, ([name, sha]) => ({ name, sha }))
    .sort((one, other) => (one.name < other.name ? -1 : 1))
    .map(({ name, sha }) => `${sha} ${name}\n`)
    .join('');
}

/** Undefined for what nobody wrote with `writeListing`. */
export function readListing(text: string): Refs | undefined {
  const refs = new Map<string, string>();
  const lines = text.split('\n');
  if (text.length > longestListing || lines.pop() !== '' || lines.length > mostRefs) return undefined;
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
